/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.c - the bounds of the stack, from the linker script, and where it stands.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"

extern uint8_t __mlf_stack_bottom[];
extern uint8_t __mlf_stack_top[];

uint8_t *mlf_stack_bottom(void) { return __mlf_stack_bottom; }

uint8_t *mlf_stack_top(void) { return __mlf_stack_top; }

/* Not inlined: a caller that inlined it might read the register before it made its own frame. */
__attribute__((noinline)) uint8_t *mlf_stack_pointer(void) {
  uint8_t *pointer;
  __asm volatile(MLF_CPU_READ_SP : "=r"(pointer));
  return pointer;
}
