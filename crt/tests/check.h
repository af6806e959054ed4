/* SPDX-License-Identifier: Apache-2.0 */
/* The least a C test needs: a check that says where it failed, and numbers that repeat. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long check_count;

#define CHECK(condition)                                                      \
  do {                                                                        \
    check_count++;                                                            \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static uint32_t random_state = 2463534242u;

static inline uint32_t random_below(uint32_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  return random_state % limit;
}

#endif /* CHECK_H */
