/* SPDX-License-Identifier: Apache-2.0 */
/* stdio.h - for compilers that come without a C library: sources include it, and call nothing of it. */
#ifndef MLF_LIBC_STDIO_H
#define MLF_LIBC_STDIO_H

#include <stddef.h>

#endif /* MLF_LIBC_STDIO_H */
