/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticks.c - Zephyr's timing API where the CPU has a cycle counter that counts; else the kernel's clock.
 */
#include "mlf_zephyr.h"

static uint32_t last_cycles;
static uint64_t total;

#ifdef CONFIG_TIMING_FUNCTIONS
static timing_t last;
static bool uses_timing;

/* Emulators show the registers of a counter that stands still. */
static bool counter_counts(void) {
  const timing_t before = timing_counter_get();

  for (volatile uint32_t i = 0; i < 100u; i++) {
  }
  return timing_counter_get() != before;
}
#endif

void mlf_ticks_init(void) {
  total = 0;
#ifdef CONFIG_TIMING_FUNCTIONS
  timing_init();
  timing_start();
  uses_timing = counter_counts();
  last = timing_counter_get();
#endif
  last_cycles = k_cycle_get_32();
}

/* Adds what passed since the last call: correct while calls are less than one wrap of the counter
 * apart (2^32 cycles). Called from one thread. */
uint64_t mlf_ticks(void) {
#ifdef CONFIG_TIMING_FUNCTIONS
  if (uses_timing) {
    timing_t now = timing_counter_get();

    total += timing_cycles_get(&last, &now);
    last = now;
    return total;
  }
#endif
  const uint32_t now_cycles = k_cycle_get_32();

  total += (uint32_t)(now_cycles - last_cycles);
  last_cycles = now_cycles;
  return total;
}

uint32_t mlf_tick_hz(void) {
#ifdef CONFIG_TIMING_FUNCTIONS
  if (uses_timing) {
    return (uint32_t)timing_freq_get();
  }
#endif
  return (uint32_t)sys_clock_hw_cycles_per_sec();
}
