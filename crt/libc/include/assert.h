/* SPDX-License-Identifier: Apache-2.0 */
/* assert.h - for compilers that come without a C library: a false assertion is a fault. */
#ifndef MLF_LIBC_ASSERT_H
#define MLF_LIBC_ASSERT_H

#include <stdlib.h>

#define static_assert _Static_assert

#endif /* MLF_LIBC_ASSERT_H */

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : abort())
#endif
