/* SPDX-License-Identifier: Apache-2.0 */
/* What the executor and the backend ABI share. Not for applications. */
#ifndef MLF_INTERNAL_H
#define MLF_INTERNAL_H

#include <mlf/mlf.h>

typedef struct {
  const mlf_slot_t *slot; /* next workspace slot of the running step; NULL: stack mode */
  const mlf_step_t *step; /* the running step, or the one that failed */
  uint8_t *top;           /* stack mode: first free byte */
  uint8_t *limit;         /* stack mode: end of the workspace */
  uint32_t refused_bytes; /* size of the last refused request; 0: none */
  const char *message;    /* last text given to TVMAPISetLastError */
} mlf_context_t;

extern mlf_context_t mlf_context;

/* Notes a request that is not granted (of nothing: as one byte) and returns NULL. Not in the file of its
 * callers: a compiler that sees what it returns makes it no tail call, and granting would need stack. */
void *mlf_refuse(uint32_t size_bytes);

#endif /* MLF_INTERNAL_H */
