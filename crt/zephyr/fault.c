/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - a fatal error: one line over the UART, then stop. The line is that of crt/baremetal/fault.c:
 *   mlf-fault: <kind> pc=.. lr=.. sp=.. r0=.. r1=.. r2=.. r3=.. r12=.. xpsr=.. cfsr=.. hfsr=..
 *              mmfar=.. bfar=.. step=<n> model=<name>
 * with what the CPU and the kernel know; what they don't is 0. A zero byte goes before and after it.
 */
#include <string.h>

#include "mlf_zephyr.h"

#define MODEL_NAME_MAX 64u

#if KERNEL_VERSION_NUMBER >= 0x030700
typedef struct arch_esf mlf_esf_t;
#else
typedef z_arch_esf_t mlf_esf_t;
#endif

/* CPUs with the fault status registers of Armv7-M. */
#if defined(CONFIG_ARMV7_M_ARMV8_M_MAINLINE)
#define FAULT_STATUS(offset) (*(volatile const uint32_t *)(0xE000ED00u + (offset)))
#else
#define FAULT_STATUS(offset) 0u
#endif
#define CFSR FAULT_STATUS(0x28u)
#define HFSR FAULT_STATUS(0x2Cu)
#define MMFAR FAULT_STATUS(0x34u)
#define BFAR FAULT_STATUS(0x38u)

__attribute__((weak)) void mlf_fault_context(mlf_fault_context_t *out_context) {
  out_context->model = NULL;
  out_context->step = -1;
}

static void put_char(char c) {
  const uint8_t byte = (uint8_t)c;

  mlf_uart_write(&byte, 1);
}

static void put_text(const char *text) { mlf_uart_write((const uint8_t *)text, strlen(text)); }

static void put_hex(const char *name, uint32_t value) {
  put_text(name);
  for (uint32_t shift = 32; shift != 0u;) {
    shift -= 4u;
    put_char("0123456789abcdef"[(value >> shift) & 15u]);
  }
}

static void put_decimal(int32_t value) {
  char digits[11];
  size_t at = sizeof digits;
  uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;

  if (value < 0) {
    put_char('-');
  }
  do {
    digits[--at] = (char)('0' + (char)(rest % 10u));
    rest /= 10u;
  } while (rest != 0u);
  mlf_uart_write((const uint8_t *)&digits[at], sizeof digits - at);
}

/* A name is for people and may hold anything: what could end the line or the frame is shown as '?'. */
static void put_name(const char *name) {
  if (name == NULL || name[0] == '\0') {
    put_char('-');
    return;
  }
  for (size_t i = 0; name[i] != '\0' && i < MODEL_NAME_MAX; i++) {
    put_char(name[i] > ' ' && name[i] != '\x7f' ? name[i] : '?');
  }
}

static const char *kind_name(unsigned int reason) {
#ifdef CONFIG_CPU_CORTEX_M
  static const char *const names[] = {"hardfault", "memfault", "busfault", "usagefault", "securefault"};
  uint32_t exception;
#endif

  switch (reason) {
    case K_ERR_STACK_CHK_FAIL:
      return "stack-overflow";
    case K_ERR_KERNEL_OOPS:
    case K_ERR_KERNEL_PANIC:
      return "abort";
    default:
      break;
  }
#ifdef CONFIG_CPU_CORTEX_M
  /* Newer versions have reasons of their own for each fault; the CPU's number is the same in all. */
  __asm__ volatile("mrs %0, ipsr" : "=r"(exception));
  if (exception >= 3u && exception - 3u < ARRAY_SIZE(names)) {
    return names[exception - 3u];
  }
#endif
  return reason == K_ERR_CPU_EXCEPTION ? "hardfault" : "unexpected-exception";
}

static void put_registers(const mlf_esf_t *esf) {
  uint32_t pc = 0, lr = 0, sp = 0, xpsr = 0;
  uint32_t r[5] = {0, 0, 0, 0, 0};

#ifdef CONFIG_CPU_CORTEX_M
  if (esf != NULL) {
    pc = esf->basic.pc;
    lr = esf->basic.lr;
    __asm__ volatile("mrs %0, psp" : "=r"(sp)); /* of the thread, above what was stacked */
    sp += sizeof esf->basic;
    xpsr = esf->basic.xpsr;
    r[0] = esf->basic.r0;
    r[1] = esf->basic.r1;
    r[2] = esf->basic.r2;
    r[3] = esf->basic.r3;
    r[4] = esf->basic.r12;
  }
#else
  (void)esf;
#endif
  put_hex(" pc=", pc);
  put_hex(" lr=", lr);
  put_hex(" sp=", sp);
  put_hex(" r0=", r[0]);
  put_hex(" r1=", r[1]);
  put_hex(" r2=", r[2]);
  put_hex(" r3=", r[3]);
  put_hex(" r12=", r[4]);
  put_hex(" xpsr=", xpsr);
}

/* Zephyr's place for what an application does about a fatal error. */
void k_sys_fatal_error_handler(unsigned int reason, const mlf_esf_t *esf) {
  mlf_fault_context_t context = {NULL, -1};

  mlf_fault_context(&context);
  put_char('\0');
  put_text("mlf-fault: ");
  put_text(kind_name(reason));
  put_registers(esf);
  put_hex(" cfsr=", CFSR);
  put_hex(" hfsr=", HFSR);
  put_hex(" mmfar=", MMFAR);
  put_hex(" bfar=", BFAR);
  put_text(" step=");
  put_decimal(context.step);
  put_text(" model=");
  put_name(context.model);
  put_text("\n");
  put_char('\0');
  mlf_platform_exit(134);
}
