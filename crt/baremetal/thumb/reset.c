/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reset.c - the reset handler of a bare Cortex-M: switches on what the core has, then starts the program.
 */
#include <stdint.h>

#include "cortexm.h"
#include "mlf_board.h"
#include "startup.h"

extern uint32_t __mlf_stack_bottom[];
extern uint32_t __mlf_stack_guard[]; /* 32 kB that nothing uses, right below the stack; NULL: none */

void mlf_reset_handler(void);

#if MLF_HAS_STACK_GUARD
/* An overflow of the stack is a fault at once, also where the bus would ignore the access. */
static void guard_stack(void) {
  const uintptr_t guard = (uintptr_t)__mlf_stack_guard;
  if (guard != 0u && MPU_TYPE != 0u) {
    MPU_RNR = 0;
    MPU_RBAR = guard;
    MPU_RASR = MPU_RASR_NO_ACCESS | MPU_RASR_SIZE_32K | MPU_RASR_ENABLE;
    MPU_CTRL = MPU_CTRL_PRIVDEFENA | MPU_CTRL_ENABLE;
  }
}
#endif

#if MLF_CACHES
/* The caches hold nothing valid at reset: invalidate both, then switch them on. */
void mlf_cpu_enable_caches(void) {
  SCB_ICIALLU = 0;
  SCB_CSSELR = 0; /* level 1, data */
  __asm volatile("dsb\n\tisb" : : : "memory");
  SCB_CCR |= SCB_CCR_IC;
  const uint32_t size = SCB_CCSIDR;
  for (uint32_t set = 0; set <= SCB_CCSIDR_SETS(size); set++) {
    for (uint32_t way = 0; way <= SCB_CCSIDR_WAYS(size); way++) {
      SCB_DCISW = SCB_DCISW_LINE(set, way);
    }
  }
  __asm volatile("dsb" : : : "memory");
  SCB_CCR |= SCB_CCR_DC;
  __asm volatile("dsb\n\tisb" : : : "memory");
}
#endif

__attribute__((noreturn, used)) void mlf_reset_handler(void) {
#if MLF_HAS_CP10
  SCB_CPACR |= SCB_CPACR_CP10_CP11;
#endif
#if MLF_HAS_STACK_LIMIT
  __asm volatile("msr msplim, %0" : : "r"(__mlf_stack_bottom));
#endif
#if MLF_HAS_STACK_GUARD
  guard_stack();
#endif
#if MLF_HAS_FAULT_STATUS
  SCB_SHCSR |= SCB_SHCSR_FAULTS;
#endif
  __asm volatile("dsb\n\tisb" : : : "memory");
  mlf_start_main();
}
