/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - a fatal error: one line over the UART (mlf/mlf_fault.h), then stop. Entered from vectors.c.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "cortexm.h"
#include "mlf/mlf_fault.h"
#include "mlf/mlf_platform.h"

extern uint32_t __mlf_stack_bottom[];
extern uint32_t __mlf_stack_top[];
extern const uint32_t __mlf_code_start[];
extern const uint32_t __mlf_code_end[];

void mlf_fault_report(const mlf_frame_t *frame, uint32_t exc_return);

/* The frame was stacked: it lies in the stack, and no error was met while it was written. */
static bool frame_is_valid(const mlf_frame_t *frame, uint32_t cfsr) {
  const uintptr_t address = (uintptr_t)frame;
  const uintptr_t bottom = (uintptr_t)__mlf_stack_bottom;
  const uintptr_t top = (uintptr_t)__mlf_stack_top;
  if (address % 4u != 0u || address < bottom || address >= top || top - address < sizeof *frame) {
    return false;
  }
#if MLF_HAS_STACK_LIMIT
  /* A frame that would cross the limit is not written; the stack pointer is set to the limit. */
  if ((cfsr & MLF_CFSR_STKOF) != 0u && address == bottom) {
    return false;
  }
#endif
  return (cfsr & MLF_CFSR_STACKING) == 0u;
}

__attribute__((noreturn)) static void report(uint32_t exception, const mlf_frame_t *frame, uintptr_t sp,
                                              const mlf_fault_status_t *status) {
  const uintptr_t bottom = (uintptr_t)__mlf_stack_bottom;
  const uintptr_t top = (uintptr_t)__mlf_stack_top;
  __asm volatile("cpsid i" : : : "memory");
  mlf_uart_init();
  mlf_fault_begin_exception(exception);
  mlf_fault_registers(frame, sp, status);
  mlf_fault_calls(sp, sp >= bottom && sp < top ? sp : bottom, top, (uintptr_t)__mlf_code_start,
                  (uintptr_t)__mlf_code_end);
  mlf_fault_end();
  mlf_platform_exit(134);
}

__attribute__((used, noreturn)) void mlf_fault_report(const mlf_frame_t *frame, uint32_t exc_return) {
  mlf_fault_status_t status;
  uint32_t exception;
  mlf_fault_read_status(&status);
  const bool valid = frame_is_valid(frame, status.cfsr);
  __asm volatile("mrs %0, ipsr" : "=r"(exception));
  if (!valid || (MLF_HAS_STACK_LIMIT && (status.cfsr & MLF_CFSR_STKOF) != 0u)) {
    exception = MLF_FAULT_STACK_OVERFLOW;
  }
  report(exception, valid ? frame : NULL, valid ? mlf_fault_sp(frame, exc_return) : (uintptr_t)frame, &status);
}

/* Called by the C library: a failed assertion, a broken invariant. */
void abort(void) {
  mlf_frame_t frame = {0, 0, 0, 0, 0, 0, 0, 0};
  frame.lr = (uint32_t)(uintptr_t)__builtin_return_address(0);
  mlf_fault_status_t status;
  frame.pc = frame.lr;
  mlf_fault_read_status(&status);
  report(MLF_FAULT_ABORT, &frame, (uintptr_t)__builtin_dwarf_cfa(), &status);
}
