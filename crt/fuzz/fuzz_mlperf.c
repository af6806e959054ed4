/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the server of MLPerf Tiny's serial protocol. The first byte chooses how inputs are loaded and
 * results are written, and how many bytes arrive at a time; the rest is the line. Every '%' must be answered
 * by exactly one m-ready, at the end of its answer, whatever the line holds.
 */
#include <mlf/mlf_platform.h>
#include <stdlib.h>
#include <string.h>

#include "mlf_mlperf.h"

#define ELEMENTS 6u
#define MOST_RUNS 200u /* of one input: a command may ask for 2^31 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t input_data[4u * ELEMENTS] __attribute__((aligned(4)));
static uint8_t output_data[4u * ELEMENTS] __attribute__((aligned(4)));
static uint32_t runs;
static uint32_t ready;
static char tail[9];
static uint64_t now;

static void require(int condition) {
  if (!condition) {
    abort();
  }
}

/* Outputs depend on inputs; fails after many runs. */
static int32_t kernel(void *args, int32_t *type_codes, int32_t num_args, void *ret_value,
                      int32_t *ret_type_code, void *resource) {
  (void)args, (void)type_codes, (void)num_args, (void)ret_value, (void)ret_type_code, (void)resource;
  for (size_t i = 0; i < sizeof output_data; i++) {
    output_data[i] = (uint8_t)(input_data[i] * 3u + 1u);
  }
  return ++runs > MOST_RUNS ? -1 : 0;
}

static const int64_t shape[1] = {ELEMENTS};
static const mlf_slot_t no_slots[1] = {MLF_SLOT_END};
static const mlf_step_t steps[1] = {{kernel, NULL, no_slots, 0}};
static const int32_t type_codes[1] = {7};
static mlf_tensor_t input = {"in", input_data, shape, ELEMENTS, 1, MLF_INT, 8, 1};
static mlf_tensor_t output = {"out", output_data, shape, ELEMENTS, 1, MLF_INT, 8, 1};
static const mlf_model_t model = {
    .name = "fuzzed",
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
  for (size_t i = 0; i < size; i++) {
    require(data[i] != 0 && data[i] < 0x7Fu);
    memmove(tail, &tail[1], sizeof tail - 1u);
    tail[sizeof tail - 1u] = (char)data[i];
    ready += memcmp(tail, "m-ready\r\n", sizeof tail) == 0;
  }
}

uint32_t mlf_tick_hz(void) { return 25000000u; }

uint64_t mlf_ticks(void) {
  now += UINT64_C(0x123456789A);
  return now;
}

static void set_types(uint32_t loader, uint32_t writer) {
  input.type_code = loader == 2u ? MLF_FLOAT : MLF_INT;
  input.bits = loader == 2u ? 32 : 8;
  input.size_bytes = loader == 2u ? 4u * ELEMENTS : ELEMENTS;
  output.type_code = writer == 3u ? MLF_FLOAT : MLF_INT;
  output.bits = writer == 3u ? 32 : 8;
  output.size_bytes = writer == 3u ? 4u * ELEMENTS : ELEMENTS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  void (*const loaders[4])(const mlf_mlperf_config_t *) = {mlf_mlperf_load_copy, mlf_mlperf_load_minus_128,
                                                           mlf_mlperf_load_float, mlf_mlperf_load_quantised};
  void (*const writers[4])(const mlf_mlperf_config_t *) = {
      mlf_mlperf_results_values, mlf_mlperf_results_softmax, mlf_mlperf_results_error,
      mlf_mlperf_results_values};
  const mlf_mlperf_scale_t scale = {0.25f, -7};
  mlf_mlperf_t server;
  uint32_t ends = 0;
  if (size < 1) {
    return 0;
  }
  const uint32_t loader = data[0] & 3u;
  const uint32_t writer =
      loader == 3u ? data[0] >> 2 & 3u : (data[0] >> 2 & 1u) * 3u; /* errors need floats */
  const size_t step = 1u + (data[0] >> 4);
  const uint32_t buffer_bytes = loader == 3u ? 4u * ELEMENTS : ELEMENTS;
  uint8_t *buffer = malloc(buffer_bytes); /* of its own: one byte too far is seen */
  require(buffer != NULL);
  set_types(loader, writer);
  const mlf_mlperf_config_t config = {
      .model = &model,
      .buffer = buffer,
      .buffer_bytes = buffer_bytes,
      .vendor = "vendor",
      .profile = "profile",
      .id = "id",
      .load = loaders[loader],
      .results = writers[writer],
      .sent = {0.5f, 3},
      .input = scale,
      .outputs = &scale,
  };
  runs = ready = 0;
  mlf_mlperf_init(&server, &config);
  for (size_t at = 1; at < size; at += step) {
    const size_t count = size - at < step ? size - at : step;
    mlf_mlperf_feed(&server, &data[at], count);
    for (size_t i = 0; i < count; i++) {
      ends += data[at + i] == '%';
    }
    require(ready == ends);
    require(ends == 0 || memcmp(tail, "m-ready\r\n", sizeof tail) == 0);
  }
  free(buffer);
  return 0;
}
