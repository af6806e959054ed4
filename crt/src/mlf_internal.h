/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the executor and the backend ABI. Not for applications. */
#ifndef MLF_INTERNAL_H
#define MLF_INTERNAL_H

#include <mlf/mlf.h>

typedef struct {
  const void *step;         /* the running one: its mlf_step_t, or the mark of a sequence; NULL: no model runs.
                             * First: ldrex has no offset */
  const mlf_slot_t *slot;   /* next workspace slot of the running step; NULL: stack mode */
  const void *failed;       /* the step at which the last run failed; NULL: it did not */
  uint32_t refused_bytes;   /* size of the last refused request of this run; 0: none */
  uint8_t *top;             /* stack mode: first free byte */
  uint8_t *limit;           /* stack mode: end of the workspace */
  const char *message;      /* last text given to TVMAPISetLastError */
} mlf_context_t;

extern mlf_context_t mlf_context;

#if MLF_SEQUENCES
/* Marks of a sequence's steps: addresses from that of its code on, which has more bytes than steps. */
static inline const uint8_t *mlf_first_mark(const mlf_model_t *model) {
  return (const uint8_t *)(uintptr_t)model->sequence;
}
#endif

/* What stands for the first step of a model. */
static inline const void *mlf_first_step(const mlf_model_t *model) {
#if MLF_SEQUENCES
  if (!MLF_STEP_TABLES || model->sequence != NULL) {
    return mlf_first_mark(model);
  }
#endif
  return model->steps;
}

/* Take the executor for a run that begins with `step`; returns 0 when a model runs already.
 *
 * An interrupt handler that runs a model between the load and the store has ended, and has released the
 * executor, before the store: that is correct without an atomic access. Another thread may still be in its
 * run then: where the core has exclusive accesses, these close the window. */
static inline int mlf_claim(const void *step) {
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_4) || defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8)
  const void *none = NULL;
  if (!__atomic_compare_exchange_n(&mlf_context.step, &none, step, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    return 0;
  }
#else
  if (mlf_context.step != NULL) {
    return 0;
  }
  mlf_context.step = step;
#endif
  __atomic_signal_fence(__ATOMIC_SEQ_CST); /* no instruction: all else is written after the claim */
  mlf_context.failed = NULL;
  mlf_context.refused_bytes = 0;
  return 1;
}

static inline void mlf_release(void) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  mlf_context.step = NULL;
}

/* The status of a run whose running step returned non-zero. */
static inline mlf_status_t mlf_note_failure(void) {
  mlf_context.failed = mlf_context.step;
  return mlf_context.refused_bytes != 0 ? MLF_E_WORKSPACE : MLF_E_KERNEL;
}

/* Record a request that is not granted (one of 0 bytes as 1) and return NULL. Not in the file of its
 * callers: a compiler that sees its result makes no tail call of it, and granting would need stack. */
void *mlf_refuse(uint32_t size_bytes);

#endif /* MLF_INTERNAL_H */
