/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticks.c - Zephyr's timing API where the CPU has a cycle counter that counts; else the kernel's clock.
 */
#include "mlf_zephyr.h"

static uint32_t hz;
static uint32_t last_cycles;
static int64_t last_uptime;
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
  hz = 0;
#ifdef CONFIG_TIMING_FUNCTIONS
  timing_init();
  timing_start();
  uses_timing = counter_counts();
  last = timing_counter_get();
#endif
  last_cycles = k_cycle_get_32();
  last_uptime = k_uptime_ticks();
  hz = mlf_tick_hz();
}

/* The low 32 bits of the cycles since the last call. */
static uint32_t counted(void) {
#ifdef CONFIG_TIMING_FUNCTIONS
  if (uses_timing) {
    timing_t now = timing_counter_get();
    const uint32_t cycles = (uint32_t)timing_cycles_get(&last, &now);

    last = now;
    return cycles;
  }
#endif
  const uint32_t now_cycles = k_cycle_get_32();
  const uint32_t cycles = now_cycles - last_cycles;

  last_cycles = now_cycles;
  return cycles;
}

/* Adds what passed since the last call; the kernel's clock tells how often the counter wrapped. Called
 * from one thread. */
uint64_t mlf_ticks(void) {
  const uint32_t cycles = counted();
  const int64_t uptime = k_uptime_ticks();
  const uint64_t passed = (uint64_t)(uptime - last_uptime) * hz / CONFIG_SYS_CLOCK_TICKS_PER_SEC;

  last_uptime = uptime;
  total += cycles;
  if (passed > cycles) {
    total += (passed - cycles + (UINT64_C(1) << 31)) >> 32 << 32; /* whole wraps: the nearest number */
  }
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
