/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that run a model step by step and look at it in between: STEP, ADVANCE, PEEK. */
#include <mlf/mlf_crc32.h>

#include "mlf_rpc_internal.h"

#if MLF_OBSERVE
/* Bytes of the reply to ADVANCE in front of the ticks of each step. */
#define ADVANCE_BYTES (4u + 2u + 4u + 8u)
#define TICKS_BYTES 8u

static uint64_t no_ticks(void *ctx) {
  (void)ctx;
  return 0;
}

static uint32_t position_of(const mlf_rpc_request_t *request) {
  return *request->note >> MLF_RPC_NOTE_POSITION_SHIFT;
}

static const mlf_observed_t *observed_of(const mlf_model_t *model, uint32_t step) {
  static const mlf_observed_t unknown = {NULL, 0, 0, 0};
  return model->observed != NULL ? &model->observed[step] : &unknown;
}

int32_t mlf_rpc_do_step(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const mlf_model_t *model = request->model;
  const uint32_t step = mlf_rpc_u16(request->body);
  if (step >= model->num_steps) {
    return MLF_RPC_E_STEP;
  }
  const mlf_observed_t *observed = observed_of(model, step);
  mlf_rpc_put_u16(out, observed->number);
  mlf_rpc_put_u16(out, observed->num_inputs);
  mlf_rpc_put_u16(out, observed->num_outputs);
  mlf_rpc_put_name(out, 0, model->step_names != NULL ? model->step_names[step] : NULL);
  return MLF_OK;
}

/* The inputs are there, and all that a run changes is forgotten. */
static void begin(const mlf_rpc_request_t *request) {
  mlf_rpc_forget_neighbours(request);
  mlf_rpc_forget_results(request);
  if (request->model->inputs_kept == 0) {
    mlf_rpc_forget_inputs(request);
  }
}

static uint32_t crc_of_outputs(const mlf_model_t *model, uint32_t step) {
  const mlf_observed_t *observed = observed_of(model, step);
  const uint32_t end = (uint32_t)observed->num_inputs + observed->num_outputs;
  uint32_t crc = 0;
  for (uint32_t i = observed->num_inputs; i < end; i++) {
    crc = mlf_crc32(crc, observed->arguments[i].data, observed->arguments[i].size_bytes);
  }
  return crc;
}

int32_t mlf_rpc_do_advance(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const mlf_model_t *model = request->model;
  const uint32_t first = mlf_rpc_u16(request->body);
  uint32_t count = mlf_rpc_u16(&request->body[2]);
  void *const ctx = request->rpc->config->ctx;
  const mlf_ticks_t ticks = request->rpc->config->ticks != NULL ? request->rpc->config->ticks : no_ticks;
  if (count == 0 || first > model->num_steps || count > model->num_steps - first) {
    return MLF_E_ARGUMENT;
  }
  if (first == 0 ? !mlf_rpc_all_written(request) : first != position_of(request)) {
    return MLF_E_STATE;
  }
  if (first == 0) {
    begin(request);
  }
  const size_t room = (out->left - ADVANCE_BYTES) / TICKS_BYTES;
  mlf_rpc_out_t head = {out->next, ADVANCE_BYTES, 0};
  mlf_status_t status = MLF_OK;
  uint32_t step = first;
  out->next += ADVANCE_BYTES;
  out->left -= ADVANCE_BYTES;
  count = count < room ? count : (uint32_t)room;
  const uint64_t start = ticks(ctx);
  const uint64_t nothing = ticks(ctx) - start;
  while (status == MLF_OK && step < first + count) {
    uint64_t taken = 0;
    status = mlf_run_step(model, step, ticks, ctx, &taken);
    if (status == MLF_OK) {
      taken += step == 0 ? mlf_rpc_take_row_ticks(request) : 0u;
      mlf_rpc_put_u64(out, taken);
      step++;
    }
  }
  mlf_rpc_check_guards(request);
  const uint32_t position = status == MLF_OK ? step : 0;
  *request->note = (*request->note & 0xFFFFu) | position << MLF_RPC_NOTE_POSITION_SHIFT;
  *request->note |= position == model->num_steps ? MLF_RPC_NOTE_OUTPUTS : 0u;
  mlf_rpc_put_u32(&head, status == MLF_OK ? UINT32_MAX : (uint32_t)mlf_failed_step(model));
  mlf_rpc_put_u16(&head, (uint16_t)step);
  mlf_rpc_put_u32(&head, status == MLF_OK ? crc_of_outputs(model, step - 1u) : 0u);
  mlf_rpc_put_u64(&head, nothing);
  return status;
}

int32_t mlf_rpc_do_peek(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const mlf_model_t *model = request->model;
  const uint32_t step = mlf_rpc_u16(request->body);
  const uint8_t direction = request->body[2];
  const uint32_t index = mlf_rpc_u16(&request->body[3]);
  const uint32_t offset = mlf_rpc_u32(&request->body[5]);
  const uint16_t size = mlf_rpc_u16(&request->body[9]);
  if (step >= model->num_steps) {
    return MLF_RPC_E_STEP;
  }
  const mlf_observed_t *observed = observed_of(model, step);
  const uint32_t count = direction == MLF_RPC_INPUT ? observed->num_inputs : observed->num_outputs;
  if (direction > MLF_RPC_OUTPUT || index >= count) {
    return MLF_RPC_E_TENSOR;
  }
  const mlf_argument_t *argument =
      &observed->arguments[direction == MLF_RPC_INPUT ? index : observed->num_inputs + index];
  if (offset > argument->size_bytes || size > argument->size_bytes - offset) {
    return MLF_RPC_E_RANGE;
  }
  const uint32_t wanted = direction == MLF_RPC_INPUT ? step : step + 1u;
  if (position_of(request) != wanted || (wanted == 0 && !mlf_rpc_all_written(request))) {
    return MLF_E_STATE;
  }
  if (size != 0) {
    mlf_rpc_put_bytes(out, (const uint8_t *)argument->data + offset, size);
  }
  return MLF_OK;
}
#endif
