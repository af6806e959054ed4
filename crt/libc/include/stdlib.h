/* SPDX-License-Identifier: Apache-2.0 */
/* stdlib.h - for compilers that come without a C library. There is no heap. */
#ifndef MLF_LIBC_STDLIB_H
#define MLF_LIBC_STDLIB_H

#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

_Noreturn void abort(void);
int abs(int value);
long labs(long value);
void free(void* block);
void* malloc(size_t size);

#endif /* MLF_LIBC_STDLIB_H */
