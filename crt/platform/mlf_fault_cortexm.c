/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of a fault on Cortex-M: the same on bare metal and below an RTOS. */
#include "mlf/mlf_fault.h"

#define EXC_RETURN_BASIC_FRAME (1u << 4)
#define FLOAT_FRAME_BYTES 0x48u /* s0 to s15, FPSCR and a reserved word, above the basic frame */
#define XPSR_PADDED (1u << 9)   /* a word was skipped to align the stack */

void mlf_fault_read_status(mlf_fault_status_t *out_status) {
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
  out_status->cfsr = 0;
  out_status->hfsr = 0;
  out_status->mmfar = 0;
  out_status->bfar = 0;
#else
  const volatile uint32_t *const scb = (const volatile uint32_t *)0xE000ED00u;
  out_status->cfsr = scb[0x28u / 4u];
  out_status->hfsr = scb[0x2Cu / 4u];
  out_status->mmfar = scb[0x34u / 4u];
  out_status->bfar = scb[0x38u / 4u];
#endif
}

uintptr_t mlf_fault_sp(const mlf_frame_t *frame, uint32_t exc_return) {
  return (uintptr_t)frame + sizeof *frame + ((frame->xpsr & XPSR_PADDED) != 0u ? 4u : 0u) +
         ((exc_return & EXC_RETURN_BASIC_FRAME) != 0u ? 0u : FLOAT_FRAME_BYTES);
}

void mlf_fault_registers(const mlf_frame_t *frame, uintptr_t sp, const mlf_fault_status_t *status) {
  const uint32_t pointer = (uint32_t)sp;
  const uint32_t *const words = (const uint32_t *)frame;
  mlf_fault_text(" pc=\7 lr=\6 sp=", words);
  mlf_fault_text("\1 r0=", &pointer);
  mlf_fault_text("\1 r1=\2 r2=\3 r3=\4 r12=\5 xpsr=\10", words);
  mlf_fault_text(" cfsr=\1 hfsr=\2 mmfar=\3 bfar=\4", (const uint32_t *)status);
}
