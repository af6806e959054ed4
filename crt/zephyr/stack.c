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
    nonce = (boots ^ (k_cycle_get_32() << 8)) | 1u;
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

uint8_t *mlf_stack_bottom(void) {
  mlf_zephyr_stack.bottom = k_current_get()->stack_info.start;
  mlf_zephyr_stack.top = mlf_zephyr_stack.bottom + k_current_get()->stack_info.size;
  return (uint8_t *)mlf_zephyr_stack.bottom;
}

uint8_t *mlf_stack_top(void) { return mlf_stack_bottom() + k_current_get()->stack_info.size; }

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
