/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an input that come one after the other. The first step computes what they allow; the others follow when all
 * of them came. */
#include <string.h>

#include "mlf_internal.h"

#if MLF_STREAMS
static int is_open(const mlf_stream_t *stream) { return stream != NULL && *stream->phase == MLF_STREAM_OPEN; }

/* Rows in the ring. */
static uint32_t held(const mlf_stream_t *stream) { return stream->counters[0] - stream->counters[1]; }

mlf_status_t mlf_begin(const mlf_model_t *model) {
  const mlf_stream_t *const stream = model->stream;
  if (stream == NULL) {
    return MLF_E_STATE;
  }
  if (!mlf_claim(mlf_first_step(model))) {
    return MLF_E_BUSY;
  }
  (void)memset(stream->counters, 0, stream->counter_bytes);
  *stream->phase = MLF_STREAM_OPEN;
  mlf_release();
  return MLF_OK;
}

void *mlf_row(const mlf_model_t *model) {
  const mlf_stream_t *const stream = model->stream;
  return is_open(stream) ? stream->ring + held(stream) * stream->row_bytes : NULL;
}

uint32_t mlf_rows_free(const mlf_model_t *model) {
  const mlf_stream_t *const stream = model->stream;
  if (!is_open(stream)) {
    return 0;
  }
  const uint32_t due = stream->rows - stream->counters[0];
  const uint32_t room = stream->ring_rows - held(stream);
  return due < room ? due : room;
}

mlf_status_t mlf_rows_done(const mlf_model_t *model, uint32_t count) {
  const mlf_stream_t *const stream = model->stream;
  if (!is_open(stream)) {
    return MLF_E_STATE;
  }
  if (count == 0 || count > mlf_rows_free(model)) {
    return MLF_E_ARGUMENT;
  }
  if (!mlf_claim(mlf_first_step(model))) {
    return MLF_E_BUSY;
  }
  stream->counters[0] += count;
  stream->compute();
  if (stream->counters[0] == stream->rows) {
    *stream->phase = MLF_STREAM_FULL;
  }
  mlf_release();
  return MLF_OK;
}

mlf_status_t mlf_finish(const mlf_model_t *model) {
  const mlf_stream_t *const stream = model->stream;
  return stream != NULL && *stream->phase == MLF_STREAM_FULL ? mlf_run(model) : MLF_E_STATE;
}

mlf_status_t mlf_feed(const mlf_model_t *model, const void *rows, uint32_t count) {
  const mlf_stream_t *const stream = model->stream;
  const uint8_t *from = rows;
  if (!is_open(stream)) {
    return MLF_E_STATE;
  }
  if (count > stream->rows - stream->counters[0]) {
    return MLF_E_ARGUMENT;
  }
  while (count != 0) {
    const uint32_t room = mlf_rows_free(model);
    const uint32_t now = count < room ? count : room;
    (void)memcpy(mlf_row(model), from, now * stream->row_bytes);
    const mlf_status_t status = mlf_rows_done(model, now);
    if (status != MLF_OK) {
      return status;
    }
    from += now * stream->row_bytes;
    count -= now;
  }
  return MLF_OK;
}

mlf_status_t mlf_run_rows(const mlf_model_t *model, const void *input) {
  mlf_status_t status = mlf_begin(model);
  if (status == MLF_OK) {
    status = mlf_feed(model, input, model->stream->rows);
  }
  return status == MLF_OK ? mlf_finish(model) : status;
}

int32_t mlf_stream_take(const mlf_stream_t *stream) {
  if (*stream->phase != MLF_STREAM_FULL) {
    return 1;
  }
  *stream->phase = MLF_STREAM_IDLE;
  return 0;
}
#endif
