/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - what happens when nothing can go on: one line over the UART (mlf/mlf_fault.h), then stop.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "cortexm.h"
#include "mlf/mlf_fault.h"
#include "mlf/mlf_platform.h"

#define EXC_RETURN_BASIC_FRAME (1u << 4)
#define FLOAT_FRAME_BYTES 0x48u /* s0 to s15, FPSCR and a word of nothing, above the basic frame */
#define XPSR_SKIPPED (1u << 9)  /* a word was skipped to align the stack */

extern uint32_t __mlf_stack_bottom[];
extern uint32_t __mlf_stack_top[];
extern const uint32_t __mlf_code_start[];
extern const uint32_t __mlf_code_end[];

void mlf_fault_handler(void);
void mlf_fault_report(const mlf_frame_t *frame, uint32_t exc_return);

static mlf_fault_status_t fault_status(void) {
#if MLF_HAS_FAULT_STATUS
  const mlf_fault_status_t status = {SCB_CFSR, SCB_HFSR, SCB_MMFAR, SCB_BFAR};
#else
  const mlf_fault_status_t status = {0, 0, 0, 0};
#endif
  return status;
}

/* The frame was stacked: it lies in the stack, and no error was met while it was written. */
static bool frame_is_valid(const mlf_frame_t *frame, uint32_t cfsr) {
  const uintptr_t address = (uintptr_t)frame;
  const uintptr_t bottom = (uintptr_t)__mlf_stack_bottom;
  const uintptr_t top = (uintptr_t)__mlf_stack_top;
  if (address % 4u != 0u || address < bottom || address >= top || top - address < sizeof *frame) {
    return false;
  }
  /* A frame that would cross the limit is not written; the stack pointer is set to the limit. */
  const bool crossed = (cfsr & SCB_CFSR_STKOF) != 0u && address == bottom;
  return (cfsr & (SCB_CFSR_STKERR | SCB_CFSR_MSTKERR)) == 0u && !crossed;
}

__attribute__((noreturn)) static void report(uint32_t exception, const mlf_frame_t *frame, uintptr_t sp) {
  const mlf_fault_status_t status = fault_status();
  const uintptr_t bottom = (uintptr_t)__mlf_stack_bottom;
  const uintptr_t top = (uintptr_t)__mlf_stack_top;
  __asm volatile("cpsid i" : : : "memory");
  mlf_uart_init();
  mlf_fault_begin(mlf_fault_kind(exception));
  mlf_fault_registers(frame, sp, &status);
  mlf_fault_calls(sp, sp >= bottom && sp < top ? sp : bottom, top, (uintptr_t)__mlf_code_start,
                  (uintptr_t)__mlf_code_end);
  mlf_fault_end();
  mlf_platform_exit(134);
}

__attribute__((used, noreturn)) void mlf_fault_report(const mlf_frame_t *frame, uint32_t exc_return) {
  const uint32_t cfsr = fault_status().cfsr;
  const bool valid = frame_is_valid(frame, cfsr);
  uint32_t exception;
  uintptr_t sp = (uintptr_t)frame;
  __asm volatile("mrs %0, ipsr" : "=r"(exception));
  if (!valid || (cfsr & SCB_CFSR_STKOF) != 0u) {
    exception = MLF_FAULT_STACK_OVERFLOW;
  }
  if (valid) {
    sp += sizeof *frame + ((frame->xpsr & XPSR_SKIPPED) != 0u ? 4u : 0u) +
          ((exc_return & EXC_RETURN_BASIC_FRAME) != 0u ? 0u : FLOAT_FRAME_BYTES);
  }
  report(exception, valid ? frame : NULL, sp);
}

/* Entry of every exception that is not expected. Hands on the stacked frame and EXC_RETURN; when the
 * stack is used up, the report runs on a fresh one (the program that owned it is lost anyway). */
__attribute__((naked, used)) void mlf_fault_handler(void) {
  __asm volatile(
      ".syntax unified\n\t"
#if MLF_HAS_STACK_LIMIT
      "movs r2, #0\n\t"
      "msr msplim, r2\n\t"
#endif
      "mrs r0, msp\n\t"
      "mov r1, lr\n\t"
      "movs r2, #4\n\t"
      "tst r1, r2\n\t"
      "beq 1f\n\t"
      "mrs r0, psp\n"
      "1:\n\t"
      "ldr r3, =__mlf_stack_bottom\n\t"
      "mov r2, sp\n\t"
      "subs r2, r2, r3\n\t"
      "bcc 2f\n\t"
      "lsrs r2, r2, #9\n\t" /* 512 bytes are enough for the report */
      "bne 3f\n"
      "2:\n\t"
      "ldr r3, =__mlf_stack_top\n\t"
      "mov sp, r3\n"
      "3:\n\t"
      "ldr r3, =mlf_fault_report\n\t"
      "bx r3\n\t"
      ".ltorg\n\t");
}

/* The C library's way out (a failed assertion, a broken invariant) ends here too. */
void abort(void) {
  mlf_frame_t frame = {0, 0, 0, 0, 0, 0, 0, 0};
  frame.lr = (uint32_t)(uintptr_t)__builtin_return_address(0);
  frame.pc = frame.lr;
  report(MLF_FAULT_ABORT, &frame, (uintptr_t)__builtin_dwarf_cfa());
}
