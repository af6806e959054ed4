/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - what the common sources of crt/baremetal need of a Cortex-M. Each architecture has a file of this name.
 */
#ifndef MLF_CPU_H
#define MLF_CPU_H

#include <stdint.h>

#include "cortexm.h"

/* The instruction that copies the stack pointer to operand 0. */
#define MLF_CPU_READ_SP "mov %0, sp"

/* No interrupt is taken after mlf_cpu_mask(), until mlf_cpu_unmask(). */
static inline void mlf_cpu_mask(void) { __asm volatile("cpsid i" : : : "memory"); }
static inline void mlf_cpu_unmask(void) { __asm volatile("cpsie i" : : : "memory"); }

/* Sleep until an interrupt is pending, masked or not. */
static inline void mlf_cpu_wait(void) { __asm volatile("wfi"); }

/* Let an interrupt of the device come. */
static inline void mlf_cpu_enable_irq(uint32_t irq) { NVIC_ISER(irq / 32u) = 1u << (irq % 32u); }

/* Nothing of the core itself may end a sleep from here on: a pending tick would end every one at once. */
static inline void mlf_cpu_silence(void) {
  SYST_CSR = 0;
  SCB_ICSR = SCB_ICSR_PENDSTCLR;
}

/* A call to the debugger or emulator (Arm's semihosting specification). */
static inline void mlf_cpu_semihosting(uint32_t operation, const uint32_t *block) {
  register uint32_t r0 __asm("r0") = operation;
  register const uint32_t *r1 __asm("r1") = block;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

#endif /* MLF_CPU_H */
