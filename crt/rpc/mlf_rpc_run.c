/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that write, run and read a model: WRITE, RUN, READ; and the state of validity. */
#include <string.h>

#include "mlf_rpc_internal.h"

uint32_t *mlf_rpc_notes_of(const mlf_rpc_config_t *config, uint32_t index) {
  uint32_t *words = config->state;
  for (uint32_t i = 0; i < index; i++) {
    words += config->models[i]->num_inputs + 1u;
  }
  return words;
}

static int share_memory(const mlf_model_t *a, const mlf_model_t *b) {
  const uintptr_t at = (uintptr_t)a->arena;
  const uintptr_t bt = (uintptr_t)b->arena;
  return at <= bt ? bt - at < a->arena_bytes : at - bt < b->arena_bytes;
}

void mlf_rpc_forget_neighbours(const mlf_rpc_request_t *request) {
  const mlf_rpc_config_t *config = request->rpc->config;
  for (uint32_t i = 0; i < config->num_models; i++) {
    const mlf_model_t *other = config->models[i];
    if (other != request->model && share_memory(request->model, other)) {
      (void)memset(mlf_rpc_notes_of(config, i), 0, (other->num_inputs + 1u) * sizeof(uint32_t));
    }
  }
}

void mlf_rpc_forget_inputs(const mlf_rpc_request_t *request) {
  (void)memset(request->written, 0, request->model->num_inputs * sizeof(uint32_t));
}

void mlf_rpc_forget_results(const mlf_rpc_request_t *request) {
  *request->note &= 0xFFFFu & ~MLF_RPC_NOTE_OUTPUTS;
}

int mlf_rpc_all_written(const mlf_rpc_request_t *request) {
  for (uint32_t i = 0; i < request->model->num_inputs; i++) {
    if (request->written[i] != request->model->inputs[i].size_bytes) {
      return 0;
    }
  }
  return 1;
}

const mlf_tensor_t *mlf_rpc_tensor_of(const mlf_rpc_request_t *request, uint8_t direction, uint8_t index) {
  switch (direction) {
    case MLF_RPC_INPUT:
      return mlf_input(request->model, index);
    case MLF_RPC_OUTPUT:
      return mlf_output(request->model, index);
    default:
      return NULL;
  }
}

static int inside(const mlf_tensor_t *tensor, uint32_t offset, size_t size) {
  return offset <= tensor->size_bytes && size <= tensor->size_bytes - offset;
}

static uint64_t ticks_now(const mlf_rpc_config_t *config) {
  return config->ticks != NULL ? config->ticks(config->ctx) : 0;
}

#if MLF_STREAMS
uint64_t mlf_rpc_take_row_ticks(const mlf_rpc_request_t *request) {
  const uint64_t ticks = request->rpc->row_ticks;
  if (request->model->stream == NULL) {
    return 0;
  }
  request->rpc->row_ticks = 0;
  return ticks;
}

/* Bytes behind the `written` ones go into the next row, which is computed once it is complete. */
static mlf_status_t take_bytes(const mlf_rpc_request_t *request, uint32_t *written, const uint8_t *data,
                               size_t size) {
  const mlf_model_t *model = request->model;
  const uint32_t row_bytes = model->stream->row_bytes;
  mlf_status_t status = *written == 0 ? mlf_begin(model) : MLF_OK;
  if (*written == 0) {
    request->rpc->row_ticks = 0;
  }
  while (size != 0 && status == MLF_OK) {
    const uint32_t at = *written - model->stream->counters[0] * row_bytes;
    const uint32_t now = size < row_bytes - at ? (uint32_t)size : row_bytes - at;
    (void)memcpy((uint8_t *)mlf_row(model) + at, data, now);
    if (at + now == row_bytes) {
      const uint64_t start = ticks_now(request->rpc->config);
      status = mlf_rows_done(model, 1);
      request->rpc->row_ticks += ticks_now(request->rpc->config) - start;
    }
    *written += now;
    data += now;
    size -= now;
  }
  *written = status == MLF_OK ? *written : 0u;
  return status;
}

/* A piece of an input that is streamed: what came already is passed over. */
static mlf_status_t write_rows(const mlf_rpc_request_t *request, uint32_t *written, uint32_t offset, size_t size) {
  const uint32_t seen = *written - offset;
  if (offset == 0 && size == 0) { /* the host begins anew */
    *written = 0;
  }
  if (size <= seen) {
    return MLF_OK;
  }
  mlf_rpc_forget_neighbours(request);
  mlf_rpc_forget_results(request);
  const mlf_status_t status = take_bytes(request, written, &request->body[5 + seen], size - seen);
  mlf_rpc_check_guards(request);
  return status;
}
#endif

int32_t mlf_rpc_do_write(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const uint8_t index = request->body[0];
  const uint32_t offset = mlf_rpc_u32(&request->body[1]);
  const size_t size = request->size - 5u;
  const mlf_tensor_t *tensor = mlf_input(request->model, index);
  if (tensor == NULL) {
    return MLF_RPC_E_TENSOR;
  }
  if (!inside(tensor, offset, size)) {
    return MLF_RPC_E_RANGE;
  }
  uint32_t *written = &request->written[index];
  if (offset > *written) {
    mlf_rpc_put_u32(out, *written);
    return MLF_RPC_E_GAP;
  }
#if MLF_STREAMS
  if (mlf_rpc_is_streamed(request->model, tensor) != 0) {
    const mlf_status_t status = write_rows(request, written, offset, size);
    if (status == MLF_OK) {
      mlf_rpc_put_u32(out, *written);
    }
    return status;
  }
#endif
  if (size != 0) {
    mlf_rpc_forget_neighbours(request);
    *request->note &= request->model->inputs_kept == 0 ? 0xFFFFu & ~MLF_RPC_NOTE_OUTPUTS : 0xFFFFu;
    (void)memcpy((uint8_t *)tensor->data + offset, &request->body[5], size);
  }
  if (offset + (uint32_t)size > *written) {
    *written = offset + (uint32_t)size;
  }
  mlf_rpc_put_u32(out, *written);
  return MLF_OK;
}

int32_t mlf_rpc_do_run(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const mlf_model_t *model = request->model;
  const uint32_t count = mlf_rpc_u32(request->body);
  if (count == 0 || (count > 1 && model->inputs_kept == 0)) {
    return MLF_E_ARGUMENT;
  }
  if (!mlf_rpc_all_written(request)) {
    return MLF_E_STATE;
  }
  mlf_rpc_forget_neighbours(request);
  mlf_rpc_forget_results(request);
  if (model->inputs_kept == 0) {
    mlf_rpc_forget_inputs(request);
  }
  mlf_status_t status = MLF_OK;
  uint32_t done = 0;
  const uint64_t start = ticks_now(request->rpc->config);
  while (done < count) {
    status = mlf_run(model);
    if (status != MLF_OK) {
      break;
    }
    done++;
  }
  const uint64_t ticks = ticks_now(request->rpc->config) - start + mlf_rpc_take_row_ticks(request);
  mlf_rpc_check_guards(request);
  if (status == MLF_OK) {
    *request->note |= MLF_RPC_NOTE_OUTPUTS;
  }
  mlf_rpc_put_u32(out, status == MLF_OK ? UINT32_MAX : (uint32_t)mlf_failed_step(model));
  mlf_rpc_put_u32(out, done);
  mlf_rpc_put_u64(out, ticks);
  return status;
}

int32_t mlf_rpc_do_read(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const uint8_t direction = request->body[0];
  const uint8_t index = request->body[1];
  const uint32_t offset = mlf_rpc_u32(&request->body[2]);
  const uint16_t size = mlf_rpc_u16(&request->body[6]);
  const mlf_tensor_t *tensor = mlf_rpc_tensor_of(request, direction, index);
  if (tensor == NULL) {
    return MLF_RPC_E_TENSOR;
  }
  if (!inside(tensor, offset, size)) {
    return MLF_RPC_E_RANGE;
  }
  if (direction == MLF_RPC_OUTPUT ? (*request->note & MLF_RPC_NOTE_OUTPUTS) == 0
                                  : request->written[index] != tensor->size_bytes ||
                                        mlf_rpc_is_streamed(request->model, tensor)) {
    return MLF_E_STATE;
  }
  if (size != 0) {
    mlf_rpc_put_bytes(out, (const uint8_t *)tensor->data + offset, size);
  }
  return MLF_OK;
}
