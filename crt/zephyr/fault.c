/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - a fatal error: one line over the UART (mlf/mlf_fault.h), then stop.
 */
#include <mlf/mlf_fault.h>

#include "mlf_zephyr.h"

#if KERNEL_VERSION_NUMBER >= 0x030700
typedef struct arch_esf mlf_esf_t;
#else
typedef z_arch_esf_t mlf_esf_t;
#endif

#ifdef CONFIG_CPU_CORTEX_M

#define EXC_RETURN_PSP (1u << 2)
#define SIGNATURE 0xFEFA125Au /* of more state below the frame, from the Secure to the Non-secure state */
#define SIGNATURE_MASK 0xFFFFFFFEu
#define MORE_STATE_BYTES 0x28u

/* State that Zephyr's handler clears or does not pass on, read before it runs. */
static struct {
  mlf_fault_status_t status;
  uint32_t frame;
  uint32_t exc_return;
} seen;

/* Zephyr's entry of a fault; the linker leads its callers to __wrap_z_arm_fault (CMakeLists.txt). */
void __real_z_arm_fault(uint32_t msp, uint32_t psp, uint32_t exc_return, void *callee_regs);
void __wrap_z_arm_fault(uint32_t msp, uint32_t psp, uint32_t exc_return, void *callee_regs);

void __wrap_z_arm_fault(uint32_t msp, uint32_t psp, uint32_t exc_return, void *callee_regs) {
  mlf_fault_read_status(&seen.status);
  seen.exc_return = exc_return;
  seen.frame = (exc_return & EXC_RETURN_PSP) != 0u ? psp : msp;
  __real_z_arm_fault(msp, psp, exc_return, callee_regs);
}

/* True when the thread whose stack is known faulted, not an interrupt or another thread. */
static bool is_known_stack(void) {
  return (seen.exc_return & EXC_RETURN_PSP) != 0u && k_current_get() == mlf_zephyr_stack.thread;
}

/* True when the frame was stacked: not when the stack was used up. */
static bool frame_is_valid(uint32_t frame) {
  const uint32_t bottom = mlf_zephyr_stack.bottom;

  if ((seen.status.cfsr & MLF_CFSR_STACKING) != 0u || frame % 4u != 0u) {
    return false;
  }
  if (!is_known_stack()) {
    return (seen.status.cfsr & MLF_CFSR_STKOF) == 0u;
  }
  return frame >= bottom && ((seen.status.cfsr & MLF_CFSR_STKOF) == 0u || frame > bottom);
}

static uint32_t exception_of(unsigned int reason) {
  uint32_t exception;

  __asm__ volatile("mrs %0, ipsr" : "=r"(exception));
  if (reason == K_ERR_STACK_CHK_FAIL || (seen.status.cfsr & MLF_CFSR_STKOF) != 0u ||
      (seen.exc_return != 0u && !frame_is_valid(seen.frame))) {
    exception = MLF_FAULT_STACK_OVERFLOW;
  } else if (reason == K_ERR_KERNEL_OOPS || reason == K_ERR_KERNEL_PANIC) {
    exception = MLF_FAULT_ABORT;
  }
  /* Newer versions have reasons of their own for each fault; the CPU's number is the same in all. */
  return exception;
}

/* Print the registers, and the return addresses on the stack of the thread that faulted where its bounds are
 * known. */
static void put_state(void) {
  extern const char __text_region_start[], __text_region_end[];
  const uint32_t bottom = mlf_zephyr_stack.bottom;
  const uint32_t top = mlf_zephyr_stack.top;
  uint32_t sp = seen.frame;
  const mlf_frame_t *frame;

  if (seen.exc_return == 0u) {
    return; /* no fault: a panic, an oops */
  }
  if (!frame_is_valid(sp)) {
    mlf_fault_registers(NULL, sp, &seen.status);
    if (!is_known_stack()) {
      return;
    }
    mlf_fault_calls(sp, bottom, top, (uintptr_t)__text_region_start, (uintptr_t)__text_region_end);
    return;
  }
  if ((*(const uint32_t *)sp & SIGNATURE_MASK) == SIGNATURE) {
    sp += MORE_STATE_BYTES;
  }
  frame = (const mlf_frame_t *)sp;
  sp = mlf_fault_sp(frame, seen.exc_return);
  mlf_fault_registers(frame, sp, &seen.status);
  if (is_known_stack() && sp < top) {
    mlf_fault_calls(sp, sp, top, (uintptr_t)__text_region_start, (uintptr_t)__text_region_end);
  }
}

#else

static uint32_t exception_of(unsigned int reason) {
  switch (reason) {
    case K_ERR_STACK_CHK_FAIL:
      return MLF_FAULT_STACK_OVERFLOW;
    case K_ERR_KERNEL_OOPS:
    case K_ERR_KERNEL_PANIC:
      return MLF_FAULT_ABORT;
    default:
      return MLF_FAULT_HARD;
  }
}

static void put_state(void) {}

#endif

/* Zephyr's place for what an application does about a fatal error. */
void k_sys_fatal_error_handler(unsigned int reason, const mlf_esf_t *esf) {
  mlf_fault_begin_exception(exception_of(reason));
  if (esf != NULL) {
    put_state();
  }
  mlf_fault_end();
  mlf_platform_exit(134);
}
