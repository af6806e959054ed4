/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application with interrupt handlers of its own: SysTick and HANDLER, the interrupt IRQ of the device.
 * Each command pends one exception: 's' SysTick, 'i' IRQ, 'u' an interrupt that has no handler.
 */
#include "mlf/mlf_platform.h"

#define REG(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define NVIC_ISER REG(0xE000E100u)
#define NVIC_ISPR REG(0xE000E200u)
#define SCB_ICSR REG(0xE000ED04u)
#define PENDSTSET (1u << 26)

static volatile uint32_t systicks;
static volatile uint32_t interrupts;

void SysTick_Handler(void);
void HANDLER(void);

void SysTick_Handler(void) {
  mlf_systick_handler();
  systicks++;
}

void HANDLER(void) { interrupts++; }

static void pend(uint32_t irq) {
  NVIC_ISER = 1u << irq;
  NVIC_ISPR = 1u << irq;
  __asm volatile("dsb\n\tisb" : : : "memory");
}

int main(void) {
  mlf_uart_init();
  mlf_ticks_init();
  for (;;) {
    uint8_t command = 0;
    uint8_t line[] = "0 0 0\n";
    while (mlf_uart_read(&command, 1) == 0u) {
    }
    const uint64_t before = mlf_ticks();
    if (command == 's') {
      SCB_ICSR = PENDSTSET;
      __asm volatile("dsb\n\tisb" : : : "memory");
    } else if (command == 'i') {
      pend(IRQ);
    } else if (command == 'u') {
      pend(IRQ + 1u);
    }
    line[0] = (uint8_t)('0' + systicks);
    line[2] = (uint8_t)('0' + interrupts);
    line[4] = (uint8_t)('0' + ((mlf_ticks() - before) >> 24 != 0u)); /* it was counted as a wrap */
    mlf_uart_write(line, sizeof line - 1u);
  }
}
