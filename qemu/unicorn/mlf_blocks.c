/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_blocks.c - a hook of Unicorn's blocks that counts the instructions of Thumb code, and stops the emulation before
 * a block at a mark, or when so many were executed. Called by Unicorn itself: in Python it would take most of the time.
 */
#include <stdint.h>

#define MARKS 64u

typedef struct {
  uint64_t count; /* instructions so far */
  uint64_t limit; /* stop once count has reached it */
  const uint8_t *code;
  uint64_t base, size;
  int (*stop)(void *engine);
  uint32_t passes; /* 1: this block was stopped at, and runs now */
  uint32_t num_marks;
  uint32_t marks[MARKS];
} mlf_blocks_t;

__attribute__((visibility("default"))) void mlf_block(void *engine, uint64_t address, uint32_t size, void *user);

void mlf_block(void *engine, uint64_t address, uint32_t size, void *user) {
  mlf_blocks_t *const own = user;
  if (own->passes == 0u) {
    uint32_t stops = own->count >= own->limit;
    for (uint32_t i = 0; i < own->num_marks; i++) {
      stops |= own->marks[i] == (uint32_t)address;
    }
    if (stops != 0u) {
      own->passes = 1;
      (void)own->stop(engine);
      return;
    }
  }
  own->passes = 0;
  if (address < own->base || address - own->base + size > own->size) {
    return;
  }
  const uint8_t *at = own->code + (address - own->base);
  const uint8_t *const end = at + size;
  while (at < end) { /* of four bytes: the first five bits are 11101, 11110 or 11111 */
    at += at[1] >> 3 >= 0x1Du ? 4 : 2;
    own->count++;
  }
}
