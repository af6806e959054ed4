/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systick.c - a 56-bit tick counter from the 24-bit SysTick: its interrupt counts the wraps.
 */
#include "cortexm.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

#define PERIOD_BITS 24u
#define PERIOD (1u << PERIOD_BITS)

static volatile uint32_t wraps;

void mlf_systick_handler(void) { wraps++; }

void SysTick_Handler(void);
__attribute__((weak)) void SysTick_Handler(void) { mlf_systick_handler(); }

void mlf_ticks_init(void) {
  SYST_CSR = 0;
  SYST_RVR = PERIOD - 1u;
  SYST_CVR = 0;
  wraps = 0;
  SYST_CSR = SYST_CSR_CLKSOURCE | SYST_CSR_TICKINT | SYST_CSR_ENABLE;
}

uint64_t mlf_ticks(void) {
  uint32_t before;
  uint32_t count;
  uint32_t pending;
  /* A wrap interrupt between the reads changes `wraps`: read again. */
  do {
    before = wraps;
    count = SYST_CVR;
    pending = SCB_ICSR & SCB_ICSR_PENDSTSET;
  } while (before != wraps);
  /* The counter goes PERIOD - 1 ... 1, 0, and the interrupt is raised on reaching 0: 0 is the first
   * tick of a period, PERIOD - 1 the second. */
  const uint32_t elapsed = (PERIOD - count) & (PERIOD - 1u);
  /* Interrupts are off and the counter wrapped before it was read: that wrap is not yet counted.
   * (Raised after the read: `elapsed` is still near its end, and the wrap belongs to the next call.) */
  if (pending != 0u && elapsed < PERIOD / 2u) {
    before++;
  }
  return ((uint64_t)before << PERIOD_BITS) + elapsed;
}

uint32_t mlf_tick_hz(void) { return MLF_TICK_HZ; }
