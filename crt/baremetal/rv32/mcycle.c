/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcycle.c - the tick counter is the core's own counter of cycles, 64 bits wide. A core without the registers of machine
 * mode has the same count under the names that all code may read.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

#if MLF_TRAP_ALIGNMENT > 0
#define READ_CYCLES "csrr %0, mcycleh\n\tcsrr %1, mcycle\n\tcsrr %2, mcycleh"
#else
#define READ_CYCLES "csrr %0, cycleh\n\tcsrr %1, cycle\n\tcsrr %2, cycleh"
#endif

static uint64_t start;

static uint64_t cycles(void) {
  uint32_t high;
  uint32_t low;
  uint32_t after;
  /* The low word may wrap between the reads: the high word then differs. */
  do {
    __asm volatile(MLF_CPU_CSR(READ_CYCLES) : "=&r"(high), "=&r"(low), "=&r"(after));
  } while (high != after);
  return ((uint64_t)high << 32) | low;
}

void mlf_ticks_init(void) { start = cycles(); }

uint64_t mlf_ticks(void) { return cycles() - start; }

uint32_t mlf_tick_hz(void) { return MLF_TICK_HZ; }
