/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device with large tensors, as a program of the host: one model that copies its input.
 *   rpc_bulk [WINDOW_BYTES]
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mlf_rpc.h"

#define TENSOR_BYTES 32768u

static uint8_t arena[2u * TENSOR_BYTES];
static const int64_t shape[] = {TENSOR_BYTES};
static const mlf_tensor_t inputs[] = {{.name = "data",
                                       .data = arena,
                                       .shape = shape,
                                       .size_bytes = TENSOR_BYTES,
                                       .ndim = 1,
                                       .type_code = 1,
                                       .bits = 8,
                                       .lanes = 1}};
static const mlf_tensor_t outputs[] = {{.name = "copy",
                                        .data = &arena[TENSOR_BYTES],
                                        .shape = shape,
                                        .size_bytes = TENSOR_BYTES,
                                        .ndim = 1,
                                        .type_code = 1,
                                        .bits = 8,
                                        .lanes = 1}};
static const mlf_model_t copy = {.name = "copy",
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .arena = arena,
                                 .arena_bytes = sizeof arena,
                                 .num_inputs = 1,
                                 .num_outputs = 1,
                                 .inputs_kept = 1};
static const mlf_model_t *const models[] = {&copy};

mlf_status_t mlf_run(const mlf_model_t *model) {
  (void)model;
  memcpy(&arena[TENSOR_BYTES], arena, TENSOR_BYTES);
  return MLF_OK;
}

int32_t mlf_failed_step(const mlf_model_t *model) {
  (void)model;
  return -1;
}

const mlf_tensor_t *mlf_input(const mlf_model_t *model, uint32_t index) {
  return index < model->num_inputs ? &model->inputs[index] : NULL;
}

const mlf_tensor_t *mlf_output(const mlf_model_t *model, uint32_t index) {
  return index < model->num_outputs ? &model->outputs[index] : NULL;
}

static void write_all(void *ctx, const uint8_t *data, size_t size) {
  (void)ctx;
  while (size != 0) {
    const ssize_t done = write(STDOUT_FILENO, data, size);
    if (done <= 0) {
      _exit(1);
    }
    data += done;
    size -= (size_t)done;
  }
}

int main(int argc, char **argv) {
  static uint32_t state[MLF_RPC_STATE_WORDS(1, 1)];
  static mlf_rpc_t rpc;
  static uint8_t buffer[256];
  static mlf_rpc_config_t config = {
      .models = models,
      .num_models = 1,
      .state = state,
      .state_words = sizeof state / sizeof state[0],
      .write = write_all,
      .window_bytes = 65535,
      .boot_nonce = 1,
  };
  if (argc > 1) {
    config.window_bytes = (uint16_t)strtoul(argv[1], NULL, 10);
  }
  if (mlf_rpc_init(&rpc, &config) != MLF_OK) {
    return 1;
  }
  for (;;) {
    const ssize_t size = read(STDIN_FILENO, buffer, sizeof buffer);
    if (size <= 0) {
      return 0;
    }
    mlf_rpc_feed(&rpc, buffer, (size_t)size);
  }
}
