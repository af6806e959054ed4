/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf/mlf_fault.h"

#include "mlf/mlf_platform.h"

#define MODEL_NAME_MAX 64u
#define CALLS_MAX 24u

/* The lowest bit of a return address. */
#ifdef __riscv
#define MLF_RETURN_BIT 0u
#else
#define MLF_RETURN_BIT 1u
#endif

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

OUT_OF_LINE void mlf_fault_text(const char *text, const uint32_t *words) {
  for (; *text != '\0'; text++) {
    if (*text >= ' ') {
      put_char(*text);
      continue;
    }
    const uint32_t word = words != NULL ? words[*text - 1] : 0u;
    for (uint32_t shift = 32u; shift != 0u;) {
      shift -= 4u;
      const uint32_t digit = (word >> shift) & 15u;
      put_char((char)(digit + (digit < 10u ? '0' : 'a' - 10u)));
    }
  }
}

void mlf_fault_begin(const char *kind) {
  put_char('\0');
  mlf_fault_text("mlf-fault: ", NULL);
  mlf_fault_text(kind, NULL);
}

void mlf_fault_begin_exception(uint32_t exception) {
  put_char('\0');
  mlf_fault_text("mlf-fault: \1", &exception);
}

/* The first place from `low` on that holds a word; `at` if there is none before it. */
static uintptr_t first_of(uintptr_t low, uintptr_t at, uint32_t word) {
  while (low < at && *(const volatile uint32_t *)low != word) {
    low += 4u;
  }
  return low;
}

/* In the second half of the list a word is printed once, so that a recursion leaves room for what called it. */
void mlf_fault_calls(uintptr_t sp, uintptr_t low, uintptr_t top, uintptr_t code_low, uintptr_t code_end) {
  const char *text = " calls=\1:\2";
  uint32_t left = CALLS_MAX;
  low = (low + 3u) & ~(uintptr_t)3u;
  for (uintptr_t at = low; at < top && left != 0u; at += 4u) {
    const uint32_t word = *(const volatile uint32_t *)at;
    if ((word & 1u) == MLF_RETURN_BIT && word > code_low && word < code_end &&
        (left > CALLS_MAX / 2u || first_of(low, at, word) == at)) {
      const uint32_t call[2] = {(uint32_t)(at - sp), word};
      mlf_fault_text(text, call);
      text = ",\1:\2";
      left--;
    }
  }
}

/* A name is for people and may hold anything: what could end the line or the frame is shown as '?'. */
void mlf_fault_end(void) {
  mlf_fault_context_t context = {NULL, -1};
  mlf_fault_context(&context);
  const char *name = context.model;
  mlf_fault_text(" step=\1 model=", (const uint32_t *)&context.step);
  if (name == NULL || *name == '\0') {
    name = "-";
  }
  for (size_t i = 0; i < MODEL_NAME_MAX && *name != '\0'; i++, name++) {
    put_char(*name > ' ' && *name != '\x7f' ? *name : '?');
  }
  put_char('\n');
  put_char('\0');
}
