/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - memcpy() and memset() of an image without a server, in place of the C library's: a third of their
 * bytes. Four words at a time where the addresses allow it. Built with -fno-builtin: otherwise a compiler turns the
 * loops into calls of the functions themselves.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __ARM_FEATURE_UNALIGNED /* single loads and stores take any address */
#define WORDS_AT(address) 1
typedef uint32_t __attribute__((may_alias, aligned(1))) word_t;
#else
#define WORDS_AT(address) (((address) & 3u) == 0u)
typedef uint32_t __attribute__((may_alias)) word_t;
#endif

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int value, size_t size);

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  uint8_t *target = to;
  const uint8_t *source = from;
  if (WORDS_AT((uintptr_t)target | (uintptr_t)source)) {
    for (const uint8_t *const end = source + (size & ~(size_t)15u); source != end;) {
      word_t *const y = (word_t *)target;
      const word_t *const x = (const word_t *)source;
      y[0] = x[0];
      y[1] = x[1];
      y[2] = x[2];
      y[3] = x[3];
      target += 16;
      source += 16;
    }
  }
  for (const uint8_t *const end = (const uint8_t *)from + size; source != end;) {
    *target++ = *source++;
  }
  return to;
}

void *memset(void *to, int value, size_t size) {
  const uint32_t word = (uint8_t)value * 0x01010101u;
  uint8_t *target = to;
  uint8_t *const last = target + size;
  if (WORDS_AT((uintptr_t)target)) {
    for (uint8_t *const end = target + (size & ~(size_t)15u); target != end;) {
      word_t *const y = (word_t *)target;
      y[0] = word;
      y[1] = word;
      y[2] = word;
      y[3] = word;
      target += 16;
    }
  }
  while (target != last) {
    *target++ = (uint8_t)word;
  }
  return to;
}
