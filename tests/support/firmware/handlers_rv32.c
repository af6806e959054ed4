/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application with an interrupt handler of its own, on QEMU's virt: 's' pends the software interrupt of the core,
 * 'u' the one of the timer, which has no handler.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"

#define CLINT_MSIP MLF_REG32(0x02000000u)
#define CLINT_MTIMECMP_LOW MLF_REG32(0x02004000u)
#define CLINT_MTIMECMP_HIGH MLF_REG32(0x02004004u)
#define MIE_MSIE (1u << 3)
#define MIE_MTIE (1u << 7)

static volatile uint32_t interrupts;

void MachineSoftware_Handler(void);

void MachineSoftware_Handler(void) {
  CLINT_MSIP = 0;
  interrupts++;
}

int main(void) {
  mlf_uart_init();
  mlf_cpu_unmask();
  uint8_t line[] = "0\n"; /* at first: ready; what came before the UART was set up is lost */
  mlf_uart_write(line, sizeof line - 1u);
  for (;;) {
    uint8_t command = 0;
    while (mlf_uart_read(&command, 1) == 0u) {
    }
    if (command == 's') {
      __asm volatile(MLF_CPU_CSR("csrs mie, %0") : : "r"(MIE_MSIE) : "memory");
      CLINT_MSIP = 1;
    } else if (command == 'u') {
      CLINT_MTIMECMP_LOW = 0;
      CLINT_MTIMECMP_HIGH = 0;
      __asm volatile(MLF_CPU_CSR("csrs mie, %0") : : "r"(MIE_MTIE) : "memory");
    }
    while (command == 's' && CLINT_MSIP != 0u) {
    }
    line[0] = (uint8_t)('0' + interrupts);
    mlf_uart_write(line, sizeof line - 1u);
  }
}
