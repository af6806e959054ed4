/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit.c - the end: through semihosting when built with MLF_SEMIHOSTING=1, else a sleeping CPU.
 */
#include "cortexm.h"
#include "mlf/mlf_platform.h"

#define SYS_EXIT_EXTENDED 0x20u
#define ADP_STOPPED_APPLICATION_EXIT 0x20026u

#if MLF_SEMIHOSTING
static void semihosting_exit(uint32_t status) {
  const uint32_t block[2] = {ADP_STOPPED_APPLICATION_EXIT, status};
  register uint32_t operation __asm("r0") = SYS_EXIT_EXTENDED;
  register const uint32_t *argument __asm("r1") = block;
  __asm volatile("bkpt 0xAB" : "+r"(operation) : "r"(argument) : "memory");
}
#endif

void mlf_platform_exit(int32_t status) {
#if MLF_SEMIHOSTING
  semihosting_exit((uint32_t)status);
#else
  (void)status;
#endif
  __asm volatile("cpsid i" : : : "memory");
  /* A pending tick would end every sleep at once. */
  SYST_CSR = 0;
  SCB_ICSR = SCB_ICSR_PENDSTCLR;
  for (;;) {
    __asm volatile("wfi");
  }
}
