/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf/mlf_fault.h"

#include <stdbool.h>

#include "mlf/mlf_platform.h"

#define MODEL_NAME_MAX 64u
#define CALLS_MAX 24u

__attribute__((weak)) void mlf_fault_context(mlf_fault_context_t *out_context) {
  out_context->model = NULL;
  out_context->step = -1;
}

/* Small before fast: inlined they would be most of an image without a server. */
#define OUT_OF_LINE __attribute__((noinline))

OUT_OF_LINE static void put_char(char c) {
  const uint8_t byte = (uint8_t)c;
  mlf_uart_write(&byte, 1);
}

OUT_OF_LINE static void put_text(const char *text) {
  for (; *text != '\0'; text++) {
    put_char(*text);
  }
}

OUT_OF_LINE static void put_digits(uint32_t value, uint32_t digits) {
  for (uint32_t shift = 4u * digits; shift != 0u;) {
    shift -= 4u;
    put_char("0123456789abcdef"[(value >> shift) & 15u]);
  }
}

OUT_OF_LINE static void put_hex(const char *name, uint32_t value) {
  put_text(name);
  put_digits(value, 8);
}

/* No division: Armv6-M has none, and a fault handler should need no library. */
static void put_decimal(int32_t value) {
  static const uint32_t powers[] = {1000000000u, 100000000u, 10000000u, 1000000u, 100000u,
                                    10000u,      1000u,      100u,      10u,      1u};
  uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
  bool started = false;
  if (value < 0) {
    put_char('-');
  }
  for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
    char digit = '0';
    for (; rest >= powers[i]; rest -= powers[i]) {
      digit++;
    }
    started = started || digit != '0' || powers[i] == 1u;
    if (started) {
      put_char(digit);
    }
  }
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

const char *mlf_fault_kind(uint32_t exception) {
  static const char *const names[] = {"abort",    "stack-overflow", "nmi",        "hardfault",
                                      "memfault", "busfault",       "usagefault", "securefault"};
  return exception < sizeof names / sizeof names[0] ? names[exception] : "unexpected-exception";
}

void mlf_fault_begin(const char *kind) {
  put_char('\0');
  put_text("mlf-fault: ");
  put_text(kind);
}

void mlf_fault_registers(const mlf_frame_t *frame, uintptr_t sp, const mlf_fault_status_t *status) {
  static const mlf_frame_t lost = {0, 0, 0, 0, 0, 0, 0, 0};
  const mlf_frame_t *const known = frame != NULL ? frame : &lost;
  put_hex(" pc=", known->pc);
  put_hex(" lr=", known->lr);
  put_hex(" sp=", (uint32_t)sp);
  put_hex(" r0=", known->r0);
  put_hex(" r1=", known->r1);
  put_hex(" r2=", known->r2);
  put_hex(" r3=", known->r3);
  put_hex(" r12=", known->r12);
  put_hex(" xpsr=", known->xpsr);
  put_hex(" cfsr=", status->cfsr);
  put_hex(" hfsr=", status->hfsr);
  put_hex(" mmfar=", status->mmfar);
  put_hex(" bfar=", status->bfar);
}

void mlf_fault_calls(uintptr_t sp, uintptr_t low, uintptr_t top, uintptr_t code_low, uintptr_t code_end) {
  uint32_t found = 0;
  for (uintptr_t at = (low + 3u) & ~(uintptr_t)3u; at < top && found < CALLS_MAX; at += 4u) {
    const uint32_t word = *(const volatile uint32_t *)at;
    if ((word & 1u) != 0u && word > code_low && word < code_end) {
      put_text(found++ == 0u ? " calls=" : ",");
      put_digits((uint32_t)(at - sp), 8);
      put_char(':');
      put_digits(word, 8);
    }
  }
}

void mlf_fault_end(void) {
  mlf_fault_context_t context = {NULL, -1};
  mlf_fault_context(&context);
  put_text(" step=");
  put_decimal(context.step);
  put_text(" model=");
  put_name(context.model);
  put_text("\n");
  put_char('\0');
}
