/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - what the common sources of crt/baremetal need of a RISC-V core of 32 bits in machine mode, with a
 * platform-level interrupt controller. Each architecture has a file of this name.
 *
 * mlf_board.h gives MLF_IRQ_BASE, where the board has interrupts. Names and addresses: RISC-V privileged architecture
 * 1.12, chapter 3; RISC-V PLIC specification 1.0.0, memory map. The first context is machine mode of the first core.
 */
#ifndef MLF_CPU_H
#define MLF_CPU_H

#include <stdint.h>

#include "mlf_board.h"

/* Alignment of the trap handler's address; 0: the core has neither traps nor interrupts, nor the registers for them. */
#ifndef MLF_TRAP_ALIGNMENT
#define MLF_TRAP_ALIGNMENT 4
#endif

#define MLF_REG32(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* The instruction that copies the stack pointer to operand 0. */
#define MLF_CPU_READ_SP "mv %0, sp"

/* An instruction on control and status registers, whatever the compiler's -march says. */
#define MLF_CPU_CSR(text) ".option push\n\t.option arch, +zicsr\n\t" text "\n\t.option pop"

#define MLF_MSTATUS_MIE "8" /* bit 3 */
#define MLF_MIE_MEIE (1u << 11)

#ifdef MLF_IRQ_BASE
#define PLIC_PRIORITY(irq) MLF_REG32(MLF_IRQ_BASE + 4u * (irq))
#define PLIC_ENABLE(word) MLF_REG32(MLF_IRQ_BASE + 0x2000u + 4u * (word))
#define PLIC_THRESHOLD MLF_REG32(MLF_IRQ_BASE + 0x200000u)
#define PLIC_CLAIM MLF_REG32(MLF_IRQ_BASE + 0x200004u)
#endif

#if MLF_TRAP_ALIGNMENT > 0
/* No interrupt is taken after mlf_cpu_mask(), until mlf_cpu_unmask(). */
static inline void mlf_cpu_mask(void) {
  __asm volatile(MLF_CPU_CSR("csrci mstatus, " MLF_MSTATUS_MIE) : : : "memory");
}
static inline void mlf_cpu_unmask(void) {
  __asm volatile(MLF_CPU_CSR("csrsi mstatus, " MLF_MSTATUS_MIE) : : : "memory");
}

/* Sleep until an interrupt is pending, masked or not. */
static inline void mlf_cpu_wait(void) { __asm volatile("wfi"); }

/* Nothing may end a sleep from here on. */
static inline void mlf_cpu_silence(void) { __asm volatile(MLF_CPU_CSR("csrw mie, zero") : : : "memory"); }
#else
static inline void mlf_cpu_mask(void) { __asm volatile("" : : : "memory"); }
static inline void mlf_cpu_unmask(void) { __asm volatile("" : : : "memory"); }
static inline void mlf_cpu_wait(void) { __asm volatile("nop"); }
static inline void mlf_cpu_silence(void) {}
#endif

#ifdef MLF_IRQ_BASE
/* Let an interrupt of the device come. */
static inline void mlf_cpu_enable_irq(uint32_t irq) {
  PLIC_THRESHOLD = 0;
  PLIC_ENABLE(irq / 32u) |= 1u << (irq % 32u);
  PLIC_PRIORITY(irq) = 1; /* last: QEMU 7.2 looks for what is pending with this write, and not with the one above */
  __asm volatile(MLF_CPU_CSR("csrs mie, %0") : : "r"(MLF_MIE_MEIE) : "memory");
}
#endif

/* A call to the debugger or emulator (RISC-V semihosting 0.4): these three instructions, none of them compressed. */
static inline void mlf_cpu_semihosting(uint32_t operation, const uint32_t *block) {
  register uint32_t a0 __asm("a0") = operation;
  register const uint32_t *a1 __asm("a1") = block;
  __asm volatile(
      ".option push\n\t"
      ".option norvc\n\t"
      ".balign 16\n\t" /* in one page */
      "slli zero, zero, 0x1f\n\t"
      "ebreak\n\t"
      "srai zero, zero, 7\n\t"
      ".option pop"
      : "+r"(a0)
      : "r"(a1)
      : "memory");
}

#endif /* MLF_CPU_H */
