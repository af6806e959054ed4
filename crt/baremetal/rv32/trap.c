/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trap.c - interrupts to their handlers, exceptions to a report: one line over the UART (mlf/mlf_fault.h), then stop.
 *
 * Every handler is weak: an application defines a function of its name, and the linker takes it
 * (mlf/mlf_platform.h, "interrupts"). A handler that nobody defines reports a fault.
 *
 * mlf_board.h gives MLF_NUM_IRQS and MLF_IRQ_HANDLERS(X): X(number, name) for each interrupt of the device.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "cpu.h"
#include "mlf/mlf_fault.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

#define INTERRUPT (1u << 31)
#define MACHINE_SOFTWARE (INTERRUPT | 3u)
#define MACHINE_TIMER (INTERRUPT | 7u)
#define MACHINE_EXTERNAL (INTERRUPT | 11u)
#define LOAD_ACCESS_FAULT 5u
#define STORE_ACCESS_FAULT 7u

typedef void (*mlf_handler_t)(void);

extern uint32_t __mlf_stack_bottom[];
extern uint32_t __mlf_stack_top[];
extern uint32_t __mlf_stack_guard[]; /* 32 kB that nothing uses, right below the stack; NULL: none */
extern const uint32_t __mlf_code_start[];
extern const uint32_t __mlf_code_end[];

void mlf_trap(const mlf_frame_t *frame, uint32_t cause);
void mlf_fault_handler(void);

static const mlf_frame_t *trapped; /* the frame of the trap that is handled */

static bool is_stack_used_up(const mlf_frame_t *frame, const mlf_fault_status_t *status) {
  const uintptr_t bottom = (uintptr_t)__mlf_stack_bottom;
  const uintptr_t guard = (uintptr_t)__mlf_stack_guard;
  if (frame->sp < bottom || frame->sp > (uintptr_t)__mlf_stack_top) {
    return true;
  }
  const bool is_access = status->mcause == LOAD_ACCESS_FAULT || status->mcause == STORE_ACCESS_FAULT;
  return is_access && guard != 0u && status->mtval >= guard && status->mtval < bottom;
}

__attribute__((noreturn)) static void report(const mlf_frame_t *frame, const mlf_fault_status_t *status) {
  const uintptr_t bottom = (uintptr_t)__mlf_stack_bottom;
  const uintptr_t top = (uintptr_t)__mlf_stack_top;
  const uintptr_t sp = frame->sp;
  mlf_uart_init();
  mlf_fault_registers(frame, status);
  mlf_fault_calls(sp, sp >= bottom && sp < top ? sp : bottom, top, (uintptr_t)__mlf_code_start,
                  (uintptr_t)__mlf_code_end);
  mlf_fault_end();
  mlf_platform_exit(134);
}

/* In place of the handler of an interrupt that has none, and of every exception. */
__attribute__((used)) void mlf_fault_handler(void) {
  mlf_fault_status_t status;
  mlf_cpu_mask();
  mlf_fault_read_status(&status);
  if (is_stack_used_up(trapped, &status)) {
    mlf_fault_begin_exception(MLF_FAULT_STACK_OVERFLOW);
  } else {
    mlf_fault_begin("trap");
  }
  report(trapped, &status);
}

#define WEAK __attribute__((weak, alias("mlf_fault_handler")))
#define DECLARE(irq, name) void name(void) WEAK;
#define VECTOR(irq, name) [2u + (irq)] = name,

void MachineSoftware_Handler(void) WEAK;
void MachineTimer_Handler(void) WEAK;
MLF_IRQ_HANDLERS(DECLARE)

extern const mlf_handler_t mlf_vectors[2u + MLF_NUM_IRQS];
const mlf_handler_t mlf_vectors[2u + MLF_NUM_IRQS] = {
    MachineSoftware_Handler,
    MachineTimer_Handler,
    MLF_IRQ_HANDLERS(VECTOR) /* the device's, from 2 on */
};

__attribute__((used)) void mlf_trap(const mlf_frame_t *frame, uint32_t cause) {
  trapped = frame;
#ifdef MLF_IRQ_BASE
  if (cause == MACHINE_EXTERNAL) { /* until it is completed, the controller holds the next ones back */
    const uint32_t irq = PLIC_CLAIM;
    if (irq != 0u && irq < MLF_NUM_IRQS) {
      mlf_vectors[2u + irq]();
    }
    PLIC_CLAIM = irq;
    return;
  }
#endif
  if (cause == MACHINE_SOFTWARE || cause == MACHINE_TIMER) {
    mlf_vectors[cause == MACHINE_TIMER ? 1 : 0]();
    return;
  }
  mlf_fault_handler();
}

/* Called by the C library: a failed assertion, a broken invariant. */
void abort(void) {
  mlf_frame_t frame = {0};
  mlf_fault_status_t status = {0};
  frame.ra = (uint32_t)(uintptr_t)__builtin_return_address(0);
  frame.pc = frame.ra;
  frame.sp = (uint32_t)(uintptr_t)__builtin_dwarf_cfa();
  mlf_cpu_mask();
  mlf_fault_begin_exception(MLF_FAULT_ABORT);
  report(&frame, &status);
}
