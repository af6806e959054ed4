/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of a fault on RISC-V, in machine mode. */
#include "mlf/mlf_fault.h"

void mlf_fault_read_status(mlf_fault_status_t *out_status) {
  __asm volatile(
      ".option push\n\t"
      ".option arch, +zicsr\n\t"
      "csrr %0, mcause\n\t"
      "csrr %1, mtval\n\t"
      ".option pop"
      : "=r"(out_status->mcause), "=r"(out_status->mtval));
}

void mlf_fault_registers(const mlf_frame_t *frame, const mlf_fault_status_t *status) {
  mlf_fault_text(" pc=\21 ra=\1 sp=\22", (const uint32_t *)frame);
  mlf_fault_text(" a0=\5 a1=\6 a2=\7 a3=\10 a4=\11 a5=\12 a6=\13 a7=\14", (const uint32_t *)frame);
  mlf_fault_text(" t0=\2 t1=\3 t2=\4 t3=\15 t4=\16 t5=\17 t6=\20", (const uint32_t *)frame);
  mlf_fault_text(" mcause=\1 mtval=\2", (const uint32_t *)status);
}
