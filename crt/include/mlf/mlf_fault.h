/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_fault.h - the line that a target prints on a fatal error. For the platforms' fault handlers: an
 * application needs only mlf_fault_context() of mlf_platform.h.
 *
 * The line (all numbers in hexadecimal; unknown fields are left out or 0):
 *   mlf-fault: <kind> pc=.. lr=.. sp=.. r0=.. r1=.. r2=.. r3=.. r12=.. xpsr=.. cfsr=.. hfsr=.. mmfar=..
 *              bfar=.. calls=<offset>:<address>,.. step=<n> model=<name>
 * `kind` is the number of the exception (3 hardfault, 4 memfault, 5 busfault, 6 usagefault, 7 securefault; 0 and 1
 * stand for abort() and a stack overflow), or a word on hosts; `step` is ffffffff for none. `mlf-sdk triage` tells
 * what a line means.
 * On RISC-V: pc, ra, sp, a0 to a7, t0 to t6, mcause, mtval, then calls, step and model; the kind of an exception or
 * interrupt is `trap`, and mcause tells which.
 * `calls` holds the words of the stack that may be return addresses, each with its offset from sp in bytes:
 * with the image, they give the call path. A zero byte precedes and follows the line, which makes it a frame
 * of its own on a console that carries frames.
 */
#ifndef MLF_MLF_FAULT_H
#define MLF_MLF_FAULT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __riscv
/* What the entry of a trap saves (crt/baremetal/rv32/reset.S). */
typedef struct {
  uint32_t ra, t0, t1, t2, a0, a1, a2, a3, a4, a5, a6, a7, t3, t4, t5, t6, pc, sp;
} mlf_frame_t;

/* The cause of a trap, and the address or instruction that belongs to it. */
typedef struct {
  uint32_t mcause, mtval;
} mlf_fault_status_t;
#else
/* The basic frame that the CPU stacks on entry of an exception. */
typedef struct {
  uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
} mlf_frame_t;

/* The fault status registers; all 0 on Armv6-M and Armv8-M Baseline, which have none. */
typedef struct {
  uint32_t cfsr, hfsr, mmfar, bfar;
} mlf_fault_status_t;
#endif

/* In place of the number of an exception. */
#define MLF_FAULT_ABORT 0u          /* abort() was called */
#define MLF_FAULT_STACK_OVERFLOW 1u /* the stack is used up (the number of Reset) */
#define MLF_FAULT_HARD 3u           /* the number of HardFault */

/* Begin the line with a kind, or with the number of an exception. The UART must be initialised. */
void mlf_fault_begin(const char *kind);
void mlf_fault_begin_exception(uint32_t exception);

/* Print a text. A character below ' ' stands for a word in hexadecimal: \1 for words[0], \2 for words[1]...; of NULL,
 * all are 0. */
void mlf_fault_text(const char *text, const uint32_t *words);

/* Print words of a stack, from `low` up to `top`, that may be return addresses into the code (on Cortex-M they are
 * odd): 24 at most, of which the last 12 are no repetitions. All of it must be readable. */
void mlf_fault_calls(uintptr_t sp, uintptr_t low, uintptr_t top, uintptr_t code_low, uintptr_t code_end);

/* The model and the step that run, by mlf_fault_context(); ends the line. */
void mlf_fault_end(void);

#ifdef __riscv

/* ---- RISC-V (baremetal/rv32/fault.c)----------------------------------------------------------- */

/* Read mcause and mtval. */
void mlf_fault_read_status(mlf_fault_status_t *out_status);

/* Print registers and status. */
void mlf_fault_registers(const mlf_frame_t *frame, const mlf_fault_status_t *status);

#else

/* ---- Cortex-M (mlf_fault_cortexm.c) --------------------------------------------------------- */

/* Bits of cfsr: the frame could not be stacked; the stack pointer met its limit (Armv8-M). */
#define MLF_CFSR_STACKING ((1u << 4) | (1u << 12))
#define MLF_CFSR_STKOF (1u << 20)

/* Read the fault status registers; all 0 on Armv6-M and Armv8-M Baseline. */
void mlf_fault_read_status(mlf_fault_status_t *out_status);

/* The stack pointer of the code that faulted: just above what the CPU stacked at `frame`, which must be
 * valid. `exc_return` is the value of LR on entry of the handler. */
uintptr_t mlf_fault_sp(const mlf_frame_t *frame, uint32_t exc_return);

/* Print registers and status. `frame` NULL: the registers are lost, and printed as 0. `sp` is the stack pointer
 * of the code that faulted. */
void mlf_fault_registers(const mlf_frame_t *frame, uintptr_t sp, const mlf_fault_status_t *status);

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MLF_FAULT_H */
