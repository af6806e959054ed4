/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_mlperf_values.c - inputs as a benchmark sends them, outputs as values. */
#include <mlf/mlf_platform.h>
#include <string.h>

#include "mlf_mlperf.h"

/* ---- from the buffer to the input ---- */

void mlf_mlperf_load_copy(const mlf_mlperf_config_t *config) {
  const uint8_t *from = config->buffer;
  uint32_t i;

  for (i = 0; i < config->model->num_inputs; ++i) {
    const mlf_tensor_t *input = &config->model->inputs[i];
    (void)memcpy(input->data, from, input->size_bytes);
    from += input->size_bytes;
  }
}

void mlf_mlperf_load_minus_128(const mlf_mlperf_config_t *config) {
  uint8_t *input = config->model->inputs[0].data;
  uint32_t i;

  for (i = 0; i < config->buffer_bytes; ++i) {
    input[i] = config->buffer[i] ^ 0x80u; /* as an int8: minus 128 */
  }
}

void mlf_mlperf_load_float(const mlf_mlperf_config_t *config) {
  const int is_signed = config->sent.zero_point != 0;
  float *input = config->model->inputs[0].data;
  uint32_t i;

  for (i = 0; i < config->buffer_bytes; ++i) {
    const int32_t stored = is_signed ? (int8_t)config->buffer[i] : config->buffer[i];
    input[i] = config->sent.scale * (float)(stored - config->sent.zero_point);
  }
}

static float sent_float(const mlf_mlperf_config_t *config, uint32_t index) {
  float value;

  (void)memcpy(&value, &config->buffer[index * sizeof value], sizeof value);
  return value;
}

/* Nearest integer, halves away from 0; far from any int8 for what is not finite. */
static int32_t nearest(float value) {
  if (!(value > -1000.0f)) {
    return -1000;
  }
  if (value > 1000.0f) {
    return 1000;
  }
  const int32_t whole = (int32_t)value;
  const float rest = value - (float)whole;
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

void mlf_mlperf_load_quantised(const mlf_mlperf_config_t *config) {
  const mlf_tensor_t *input = &config->model->inputs[0];
  const int32_t least = input->type_code == MLF_INT ? -128 : 0;
  uint8_t *stored = input->data;
  uint32_t i;

  for (i = 0; i < input->size_bytes; ++i) {
    int32_t value = nearest(sent_float(config, i) / config->input.scale) + config->input.zero_point;
    value = value < least ? least : value;
    stored[i] = (uint8_t)(value > least + 255 ? least + 255 : value);
  }
}

/* ---- from the outputs to values ---- */

/* Element of an output of float32, or of integers of 8, 16 or 32 bits. */
static float value_of(const mlf_mlperf_config_t *config, uint32_t output, uint32_t index) {
  const mlf_tensor_t *tensor = &config->model->outputs[output];
  const mlf_mlperf_scale_t *scale = &config->outputs[output];
  const uint32_t bytes = tensor->bits / 8u;
  int32_t stored;
  uint32_t raw = 0;

  (void)memcpy(&raw, (const uint8_t *)tensor->data + index * bytes, bytes); /* little-endian */
  if (tensor->type_code == MLF_FLOAT) {
    float value;
    (void)memcpy(&value, &raw, sizeof value);
    return value;
  }
  stored = (int32_t)raw;
  if (bytes < 4u && tensor->type_code == MLF_INT) {
    stored = (int32_t)(raw << (32u - tensor->bits)) >> (32u - tensor->bits);
  }
  return scale->scale * (float)(stored - scale->zero_point);
}

static uint32_t elements_of(const mlf_mlperf_config_t *config, uint32_t output) {
  return config->model->outputs[output].size_bytes / (config->model->outputs[output].bits / 8u);
}

static void put(float value, int is_first) {
  if (!is_first) {
    mlf_mlperf_text(",");
  }
  mlf_mlperf_float(value);
}

void mlf_mlperf_results_values(const mlf_mlperf_config_t *config) {
  uint32_t output;
  uint32_t i;

  for (output = 0; output < config->model->num_outputs; ++output) {
    const uint32_t count = elements_of(config, output);
    for (i = 0; i < count; ++i) {
      put(value_of(config, output, i), output == 0u && i == 0u);
    }
  }
}

/* e to the power of `value` <= 0, to 1e-6: the power of two, then a series of what is left (below ln 2). */
static float exponential(float value) {
  float sum = 1.0f;
  int32_t halvings = 0;
  int32_t term;

  if (!(value > -60.0f)) {
    return 0.0f;
  }
  while (value < -0.6931472f) {
    value += 0.6931472f;
    halvings++;
  }
  for (term = 9; term > 0; --term) {
    sum = 1.0f + sum * value / (float)term;
  }
  for (; halvings > 0; --halvings) {
    sum *= 0.5f;
  }
  return sum;
}

void mlf_mlperf_results_softmax(const mlf_mlperf_config_t *config) {
  const uint32_t count = elements_of(config, 0);
  float most = value_of(config, 0, 0);
  float sum = 0.0f;
  uint32_t i;

  for (i = 1; i < count; ++i) {
    const float value = value_of(config, 0, i);
    most = value > most ? value : most;
  }
  for (i = 0; i < count; ++i) {
    sum += exponential(value_of(config, 0, i) - most);
  }
  for (i = 0; i < count; ++i) {
    put(exponential(value_of(config, 0, i) - most) / sum, i == 0u);
  }
}

void mlf_mlperf_results_error(const mlf_mlperf_config_t *config) {
  const uint32_t count = elements_of(config, 0);
  float sum = 0.0f;
  uint32_t i;

  for (i = 0; i < count; ++i) {
    const float difference = value_of(config, 0, i) - sent_float(config, i);
    sum += difference * difference;
  }
  mlf_mlperf_float(sum / (float)count);
}

/* ---- text ---- */

void mlf_mlperf_text(const char *text) { mlf_uart_write((const uint8_t *)text, strlen(text)); }

/* Divide `value` and return the rest: bit by bit, which is small, and slow enough to be kept out of timed
 * code. */
static uint32_t divide(uint64_t *value, uint32_t by) {
  uint64_t rest = 0;
  uint32_t bits;

  for (bits = 64; bits > 0u; --bits) {
    rest = rest << 1 | *value >> 63;
    *value <<= 1;
    if (rest >= by) {
      rest -= by;
      *value |= 1u;
    }
  }
  return (uint32_t)rest;
}

/* At least `digits` of them, with zeros in front. */
static void put_digits(uint64_t value, size_t digits) {
  char text[21];
  size_t at = sizeof text - 1u;
  const size_t last = at - digits;

  text[at] = '\0';
  while (value != 0u || at > last) {
    text[--at] = (char)('0' + (char)divide(&value, 10));
  }
  mlf_mlperf_text(&text[at]);
}

void mlf_mlperf_number(uint64_t value) { put_digits(value, 1); }

void mlf_mlperf_time(uint64_t ticks) {
  const uint32_t hz = mlf_tick_hz();
  uint64_t seconds = ticks;
  uint64_t rest = (uint64_t)divide(&seconds, hz) * 1000000u;

  (void)divide(&rest, hz);
  put_digits(seconds * 1000000u + rest, 1);
}

/* Not negative, below 2^31. The fraction is computed in integers, without loss but for the bits below 2^-32.
 */
static void put_fixed(float value) {
  uint32_t whole = (uint32_t)value;
  const uint32_t rest = (uint32_t)((value - (float)whole) * 4294967296.0f);
  uint32_t decimals = (uint32_t)(((uint64_t)rest * 100000000u + 0x80000000u) >> 32);

  if (decimals == 100000000u) {
    whole++;
    decimals = 0;
  }
  put_digits(whole, 1);
  mlf_mlperf_text(".");
  put_digits(decimals, 8);
}

void mlf_mlperf_float(float value) {
  uint32_t exponent = 0;

  if (value < 0.0f) {
    mlf_mlperf_text("-");
    value = -value;
  }
  if (!(value <= 3.402823466e38f)) {
    mlf_mlperf_text(value > 0.0f ? "inf" : "nan");
    return;
  }
  while (value >= 2147483648.0f) {
    value /= 10.0f;
    exponent++;
  }
  put_fixed(value);
  if (exponent != 0u) {
    mlf_mlperf_text("e");
    put_digits(exponent, 1);
  }
}
