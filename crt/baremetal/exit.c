/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit.c - the end: through semihosting when built with MLF_SEMIHOSTING=1, by a register where mlf_board.h gives
 * MLF_EXIT_REGISTER, else a sleeping CPU.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

#define SYS_EXIT_EXTENDED 0x20u
#define ADP_STOPPED_APPLICATION_EXIT 0x20026u

void mlf_platform_exit(int32_t status) {
#if MLF_SEMIHOSTING
  const uint32_t block[2] = {ADP_STOPPED_APPLICATION_EXIT, (uint32_t)status};
  mlf_cpu_semihosting(SYS_EXIT_EXTENDED, block);
#elif defined MLF_EXIT_REGISTER
  MLF_REG32(MLF_EXIT_REGISTER) = (uint32_t)status;
#else
  (void)status;
#endif
  mlf_cpu_mask();
  mlf_cpu_silence();
  for (;;) {
    mlf_cpu_wait();
  }
}
