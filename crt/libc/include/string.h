/* SPDX-License-Identifier: Apache-2.0 */
/* string.h - for compilers that come without a C library. */
#ifndef MLF_LIBC_STRING_H
#define MLF_LIBC_STRING_H

#include <stddef.h>

void* memchr(const void* data, int value, size_t size);
int memcmp(const void* a, const void* b, size_t size);
void* memcpy(void* restrict to, const void* restrict from, size_t size);
void* memmove(void* to, const void* from, size_t size);
void* memset(void* to, int value, size_t size);
char* strchr(const char* text, int character);
int strcmp(const char* a, const char* b);
char* strcpy(char* restrict to, const char* restrict from);
size_t strlen(const char* text);
int strncmp(const char* a, const char* b, size_t size);
char* strncpy(char* restrict to, const char* restrict from, size_t size);

#endif /* MLF_LIBC_STRING_H */
