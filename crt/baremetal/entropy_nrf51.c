/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entropy_nrf51.c - mlf_entropy() by the random number generator of the nRF51 and nRF52 families: thermal noise, with
 * the correction of its bias switched on.
 *
 * mlf_board.h gives MLF_ENTROPY_BASE.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

#define RNG_TASKS_START MLF_REG32(MLF_ENTROPY_BASE + 0x000u)
#define RNG_TASKS_STOP MLF_REG32(MLF_ENTROPY_BASE + 0x004u)
#define RNG_EVENTS_VALRDY MLF_REG32(MLF_ENTROPY_BASE + 0x100u)
#define RNG_CONFIG MLF_REG32(MLF_ENTROPY_BASE + 0x504u)
#define RNG_VALUE MLF_REG32(MLF_ENTROPY_BASE + 0x508u)
#define RNG_CONFIG_CORRECT 1u

/* A byte takes less than a millisecond; a generator that gives none for this many readings has failed. */
#define MOST_READINGS 1000000u

static int take_byte(uint8_t *out) {
  for (uint32_t i = 0; i < MOST_READINGS; i++) {
    if (RNG_EVENTS_VALRDY != 0u) {
      *out = (uint8_t)RNG_VALUE;
      RNG_EVENTS_VALRDY = 0;
      return 0;
    }
  }
  return -1;
}

int mlf_entropy(uint8_t *out, size_t size) {
  int failed = 0;
  RNG_CONFIG = RNG_CONFIG_CORRECT;
  RNG_EVENTS_VALRDY = 0;
  RNG_TASKS_START = 1;
  while (size-- != 0u && failed == 0) {
    failed = take_byte(&out[size]);
  }
  RNG_TASKS_STOP = 1;
  return failed;
}
