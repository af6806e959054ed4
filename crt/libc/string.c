/* SPDX-License-Identifier: Apache-2.0 */
/*
 * string.c - functions of <string.h> and <stdlib.h> for compilers that come without a C library. Theirs
 * (memcpy, memmove, memset, memcmp, strlen) are not repeated here.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_attribute)
#if __has_attribute(no_builtin)
#define AS_WRITTEN __attribute__((no_builtin))
#endif
#endif
#ifndef AS_WRITTEN
#define AS_WRITTEN
#endif

AS_WRITTEN void* memchr(const void* data, int value, size_t size) {
  const uint8_t* byte = data;
  for (; size > 0u; size--, byte++) {
    if (*byte == (uint8_t)value) {
      return (void*)(uintptr_t)byte;
    }
  }
  return NULL;
}

AS_WRITTEN int strncmp(const char* a, const char* b, size_t size) {
  for (; size > 0u; size--, a++, b++) {
    if (*a != *b || *a == '\0') {
      return (int)(uint8_t)*a - (int)(uint8_t)*b;
    }
  }
  return 0;
}

AS_WRITTEN int strcmp(const char* a, const char* b) { return strncmp(a, b, SIZE_MAX); }

AS_WRITTEN char* strncpy(char* restrict to, const char* restrict from, size_t size) {
  size_t i = 0;
  for (; i < size && from[i] != '\0'; i++) {
    to[i] = from[i];
  }
  for (; i < size; i++) {
    to[i] = '\0';
  }
  return to;
}

AS_WRITTEN char* strcpy(char* restrict to, const char* restrict from) {
  size_t i = 0;
  do {
    to[i] = from[i];
  } while (from[i++] != '\0');
  return to;
}

AS_WRITTEN char* strchr(const char* text, int character) {
  for (; *text != (char)character; text++) {
    if (*text == '\0') {
      return NULL;
    }
  }
  return (char*)(uintptr_t)text;
}

int abs(int value) { return value < 0 ? -value : value; }

long labs(long value) { return value < 0 ? -value : value; }
