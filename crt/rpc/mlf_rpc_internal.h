/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_rpc_internal.h - shared by the files of the server. Not for applications. */
#ifndef MLF_RPC_INTERNAL_H
#define MLF_RPC_INTERNAL_H

#include "mlf_rpc.h"

/* ---- numbers and replies -------------------------------------------------------------------- */

static inline uint16_t mlf_rpc_u16(const uint8_t *data) { return (uint16_t)(data[0] | data[1] << 8); }

static inline uint32_t mlf_rpc_u32(const uint8_t *data) {
  return (uint32_t)mlf_rpc_u16(data) | (uint32_t)mlf_rpc_u16(&data[2]) << 16;
}

/* Flags and name: as much of the name as fits, cut between two characters. NULL is the empty name. */
void mlf_rpc_put_name(mlf_rpc_out_t *out, uint8_t flags, const char *name);

/* Bytes of the authentication code at the end of the messages of a secured session. */
#if MLF_RPC_SECURE
#define MLF_RPC_TAG_SIZE MLF_MAC_BYTES
#else
#define MLF_RPC_TAG_SIZE 0u
#endif

/* ---- notes on the models -------------------------------------------------------------------- */

/* State of a model in config->state: for each input one word with the number of bytes that are written from its
 * beginning on, then one word of these flags and, above them, the pattern and the position. */
#define MLF_RPC_NOTE_OUTPUTS 1u         /* the outputs are those of a complete run */
#define MLF_RPC_NOTE_PAINTED 2u         /* the arena was painted with the pattern */
#define MLF_RPC_NOTE_PATTERN_SHIFT 8u   /* 8 bits */
#define MLF_RPC_NOTE_POSITION_SHIFT 16u /* to the top: steps that ADVANCE has run since the beginning */

/* A request that names a model. */
typedef struct {
  mlf_rpc_t *rpc;
  const mlf_model_t *model;
  uint32_t *written; /* an element an input */
  uint32_t *note;
  const uint8_t *body; /* behind the model's index */
  size_t size;
} mlf_rpc_request_t;

uint32_t *mlf_rpc_notes_of(const mlf_rpc_config_t *config, uint32_t index);

/* After a run: note a guard that does not hold the pattern of PREPARE any more. */
void mlf_rpc_check_guards(const mlf_rpc_request_t *request);

/* The arena is about to change: clear the state of other models that share it. */
void mlf_rpc_forget_neighbours(const mlf_rpc_request_t *request);
void mlf_rpc_forget_inputs(const mlf_rpc_request_t *request);

/* The outputs are not valid any more, and no step can be looked at. */
void mlf_rpc_forget_results(const mlf_rpc_request_t *request);

/* Non-zero when all inputs are complete. */
int mlf_rpc_all_written(const mlf_rpc_request_t *request);

/* Ticks of the rows that were written for this run, which count no more; 0: its inputs are whole. */
#if MLF_STREAMS
uint64_t mlf_rpc_take_row_ticks(const mlf_rpc_request_t *request);
#else
#define mlf_rpc_take_row_ticks(request) ((void)(request), 0u)
#endif

/* Non-zero for the input whose rows are computed as they are written. */
static inline int mlf_rpc_is_streamed(const mlf_model_t *model, const mlf_tensor_t *tensor) {
  return MLF_STREAMS && model->stream != NULL && tensor == &model->inputs[model->stream->input];
}

/* NULL when there is no such direction or tensor. */
const mlf_tensor_t *mlf_rpc_tensor_of(const mlf_rpc_request_t *request, uint8_t direction, uint8_t index);

/* Bytes of the stack that is measured; 0: none is. */
size_t mlf_rpc_stack_size(const mlf_rpc_config_t *config);

/* ---- requests: each returns a status and puts the rest of its reply's body in `out` ---------- */

int32_t mlf_rpc_do_hello(const mlf_rpc_config_t *config, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_build(const mlf_rpc_config_t *config, mlf_rpc_out_t *out);
#if MLF_RPC_SECURE
int32_t mlf_rpc_do_challenge(mlf_rpc_t *rpc, const uint8_t *body, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_open(const mlf_rpc_t *rpc, const uint8_t *body);

/* Non-zero when a request may be carried out: it has a good code, or needs none. `out_size` is its size
 * without the code. */
int mlf_rpc_is_admitted(mlf_rpc_t *rpc, const uint8_t *request, size_t size, uint16_t ahead, size_t *out_size);
#endif
int32_t mlf_rpc_do_model(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_tensor(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_write(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_run(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_read(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_stats(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_prepare(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
#if MLF_OBSERVE
int32_t mlf_rpc_do_step(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_advance(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
int32_t mlf_rpc_do_peek(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
#endif

#endif /* MLF_RPC_INTERNAL_H */
