/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.c - the stack of the calling thread (the application's main thread), boots, and the end.
 */
#include "mlf_zephyr.h"

#ifdef CONFIG_ARCH_POSIX
#include <stdlib.h>
#endif

/* Left alone by start-up: the count goes on over resets for as long as the RAM has power. */
static __noinit uint32_t boots;
static uint32_t nonce;

uint32_t mlf_boot_nonce(void) {
  if (nonce == 0u) {
    boots++;
    nonce = ((boots << 1) ^ (k_cycle_get_32() << 8)) | 1u;
  }
  return nonce;
}

#ifdef CONFIG_ARCH_POSIX

/* Threads run on stacks of the host. */
uint8_t *mlf_stack_bottom(void) { return NULL; }
uint8_t *mlf_stack_top(void) { return NULL; }
uint8_t *mlf_stack_pointer(void) { return NULL; }

#else

struct mlf_zephyr_stack mlf_zephyr_stack;

/* Bytes above stack_info.start that are not the thread's to write, now or later. */
static size_t kept_bytes(const struct k_thread *thread) {
  size_t kept = 0;

#ifdef CONFIG_STACK_SENTINEL
  kept = sizeof(uint32_t);
#endif
#if defined(CONFIG_CPU_CORTEX_M) && defined(CONFIG_MPU_STACK_GUARD) && defined(CONFIG_FPU_SHARING)
#if MPU_GUARD_ALIGN_AND_SIZE_FLOAT > MPU_GUARD_ALIGN_AND_SIZE
  /* The guard grows at the switch to a thread that has used floating point; start moves up with it. */
  if ((thread->arch.mode & Z_ARM_MODE_MPU_GUARD_FLOAT_Msk) == 0u) {
    kept += MPU_GUARD_ALIGN_AND_SIZE_FLOAT - MPU_GUARD_ALIGN_AND_SIZE;
  }
#endif
#endif
  (void)thread;
  return kept;
}

uint8_t *mlf_stack_bottom(void) {
  const struct k_thread *thread = k_current_get();
  const unsigned int key = irq_lock(); /* no switch moves the start meanwhile */
  const uintptr_t start = thread->stack_info.start;
  const uintptr_t bottom = start + kept_bytes(thread);

  mlf_zephyr_stack.thread = thread;
  mlf_zephyr_stack.bottom = start;
  mlf_zephyr_stack.top = start + thread->stack_info.size;
  irq_unlock(key);
  return (uint8_t *)bottom;
}

uint8_t *mlf_stack_top(void) {
  (void)mlf_stack_bottom();
  return (uint8_t *)mlf_zephyr_stack.top;
}

/* Not inlined: the frame must lie below the caller's. */
__attribute__((noinline)) uint8_t *mlf_stack_pointer(void) { return __builtin_frame_address(0); }

#endif

void mlf_platform_exit(int32_t status) {
#ifdef CONFIG_ARCH_POSIX
  extern void posix_exit(int exit_code);

  posix_exit((int)status);
#else
  (void)status;
#endif
  (void)irq_lock();
  for (;;) {
    /* Nothing is left to do; interrupts stay off. */
  }
}
