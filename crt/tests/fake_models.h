/* SPDX-License-Identifier: Apache-2.0 */
/* Models without kernels for the tests of the RPC server; tests/wire/models.py describes the same. */
#ifndef FAKE_MODELS_H
#define FAKE_MODELS_H

#include "mlf/mlf.h"

#define FAKE_NUM_MODELS 4u
#define FAKE_TOTAL_INPUTS 4u
#define FAKE_TICKS_PER_CALL 1000u

/* 0: two inputs, not kept. 1: more than a payload, kept, a long name. 2: shares the arena of 0.
 * 3: no arena, no inputs, no name, outputs of odd shapes. */
extern const mlf_model_t *const fake_models[FAKE_NUM_MODELS];
extern uint8_t fake_guards[2][MLF_GUARD_BYTES]; /* of 3 */
extern uint32_t fake_runs;        /* runs started */
extern void (*fake_on_run)(void); /* called when one starts; may be NULL */

uint64_t fake_ticks(void *ctx);

#endif /* FAKE_MODELS_H */
