/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of MLPerf Tiny's protocol as a program of the host: commands on standard input, answers on
 * standard output. mlperf_host LOADER RESULTS LOADER: copy, minus_128, float, signed (float of int8),
 * quantised (int8) or unsigned (quantised to uint8). RESULTS: values, softmax or error. The model has eight
 * elements and gives its input back, but for an input whose first byte is 0xEE: it fails. A tick is a third
 * of a microsecond.
 */
#include <mlf/mlf_platform.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mlf_mlperf.h"

#define ELEMENTS 8u

static uint8_t data_in[4u * ELEMENTS] __attribute__((aligned(4)));
static uint8_t data_out[4u * ELEMENTS] __attribute__((aligned(4)));
static uint64_t now = UINT64_C(0x300000000); /* beyond 32 bits */
static const int64_t shape[1] = {ELEMENTS};
static mlf_tensor_t input = {"in", data_in, shape, ELEMENTS, 1, MLF_INT, 8, 1};
static mlf_tensor_t output = {"out", data_out, shape, ELEMENTS, 1, MLF_INT, 8, 1};

static int32_t kernel(void *args, int32_t *type_codes, int32_t num_args, void *ret_value,
                      int32_t *ret_type_code, void *resource) {
  (void)args, (void)type_codes, (void)num_args, (void)ret_value, (void)ret_type_code, (void)resource;
  memcpy(data_out, data_in, input.size_bytes);
  now += 3000; /* a run takes a millisecond */
  return data_in[0] == 0xEEu ? -1 : 0;
}

static const mlf_slot_t no_slots[1] = {MLF_SLOT_END};
static const mlf_step_t steps[1] = {{kernel, NULL, no_slots, 0}};
static const int32_t type_codes[1] = {7};
static const mlf_model_t model = {
    .name = "host",
    .inputs = &input,
    .outputs = &output,
    .steps = steps,
    .type_codes = type_codes,
    .num_steps = 1,
    .num_inputs = 1,
    .num_outputs = 1,
    .inputs_kept = 1,
};

void mlf_uart_write(const uint8_t *data, size_t size) {
  now += 1000000; /* slow: it must not be measured */
  while (size != 0) {
    const ssize_t done = write(STDOUT_FILENO, data, size);
    if (done <= 0) {
      _exit(1);
    }
    data += done;
    size -= (size_t)done;
  }
}

uint64_t mlf_ticks(void) { return now; }

uint32_t mlf_tick_hz(void) { return 3000000u; }

static void set_type(uint8_t code, uint8_t bits) {
  input.type_code = output.type_code = code;
  input.bits = output.bits = bits;
  input.size_bytes = output.size_bytes = ELEMENTS * bits / 8u;
}

int main(int argc, char **argv) {
  static const mlf_mlperf_scale_t scale = {0.25f, -7};
  static mlf_mlperf_t server;
  static mlf_mlperf_config_t config = {
      .model = &model,
      .vendor = "vendor",
      .profile = "profile",
      .id = "test01",
      .sent = {0.5f, 0},
      .input = {0.25f, -7},
      .outputs = &scale,
  };
  uint8_t received[64];
  const char *loader = argc > 1 ? argv[1] : "copy";
  const char *results = argc > 2 ? argv[2] : "values";

  config.buffer_bytes = ELEMENTS;
  config.load = mlf_mlperf_load_copy;
  if (strcmp(loader, "floats") == 0) { /* float32 as it is */
    set_type(MLF_FLOAT, 32);
    config.buffer_bytes = 4u * ELEMENTS;
  } else if (strcmp(loader, "words") == 0) { /* int16 as it is */
    set_type(MLF_INT, 16);
    config.buffer_bytes = 2u * ELEMENTS;
  } else if (strcmp(loader, "minus_128") == 0) {
    config.load = mlf_mlperf_load_minus_128;
  } else if (strcmp(loader, "float") == 0 || strcmp(loader, "signed") == 0) {
    set_type(MLF_FLOAT, 32);
    config.sent.zero_point = strcmp(loader, "signed") == 0 ? 83 : 0;
    config.load = mlf_mlperf_load_float;
  } else if (strcmp(loader, "quantised") == 0 || strcmp(loader, "unsigned") == 0) {
    set_type(strcmp(loader, "unsigned") == 0 ? MLF_UINT : MLF_INT, 8);
    config.buffer_bytes = 4u * ELEMENTS;
    config.load = mlf_mlperf_load_quantised;
  }
  config.results = strcmp(results, "softmax") == 0 ? mlf_mlperf_results_softmax
                   : strcmp(results, "error") == 0 ? mlf_mlperf_results_error
                                                   : mlf_mlperf_results_values;
  config.buffer = malloc(config.buffer_bytes); /* of its own: one byte too far is seen */
  mlf_mlperf_init(&server, &config);
  for (;;) {
    const ssize_t size = read(STDIN_FILENO, received, sizeof received);
    if (size <= 0) {
      free(config.buffer);
      return 0;
    }
    mlf_mlperf_feed(&server, received, (size_t)size);
  }
}
