/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_mlperf.h - the device side of MLPerf Tiny's serial protocol: a host loads inputs, times inferences and
 * reads results. Commands end with '%', answers are lines; every command ends with one line `m-ready`, and
 * the device says nothing unasked. docs/howto-mlperf.md lists commands and answers.
 * It uses the UART and the clock of mlf_platform.h.
 *
 *     mlf_mlperf_init(&server, &config);
 *     for (;;) { mlf_mlperf_feed(&server, received, mlf_uart_read(received, sizeof received)); }
 */
#ifndef MLF_MLPERF_H
#define MLF_MLPERF_H

#include <mlf/mlf.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Longest command in characters; the official runner sends up to 65. A longer one is answered with an error.
 */
#ifndef MLF_MLPERF_MAX_COMMAND
#define MLF_MLPERF_MAX_COMMAND 80u
#endif

#if MLF_MLPERF_MAX_COMMAND < 72 || MLF_MLPERF_MAX_COMMAND > 4096
#error "MLF_MLPERF_MAX_COMMAND must be 72 to 4096"
#endif

/* Affine quantisation of a tensor: value = scale * (stored - zero_point). scale > 0. */
typedef struct {
  float scale;
  int32_t zero_point;
} mlf_mlperf_scale_t;

typedef struct mlf_mlperf_config mlf_mlperf_config_t;

struct mlf_mlperf_config {
  const mlf_model_t *model;                           /* generated with inputs that a run leaves intact */
  uint8_t *buffer;                                    /* of one input as the host sends it, aligned to 4 */
  uint32_t buffer_bytes;                              /* > 0 */
  const char *vendor;                                 /* answer of `name`; not empty, without ']' */
  const char *profile;                                /* answer of `profile`; the same */
  const char *id;                                     /* id of the benchmark; the same */
  void (*load)(const mlf_mlperf_config_t *config);    /* buffer to input tensors: mlf_mlperf_load_...() */
  void (*results)(const mlf_mlperf_config_t *config); /* writes values: mlf_mlperf_results_...() */
  mlf_mlperf_scale_t sent;                            /* of what the host sends (mlf_mlperf_load_float) */
  mlf_mlperf_scale_t input;                           /* of the input tensor (mlf_mlperf_load_quantised) */
  const mlf_mlperf_scale_t *outputs;                  /* of each output; scale 1, zero point 0 for floats */
};

/* State of the server: private. */
typedef struct {
  const mlf_mlperf_config_t *config;
  uint32_t expected_bytes; /* of the load; 0: none was announced */
  uint32_t loaded_bytes;
  uint32_t length; /* of the command; MLF_MLPERF_MAX_COMMAND + 1: it is too long */
  uint8_t has_results;
  char command[MLF_MLPERF_MAX_COMMAND + 1u];
} mlf_mlperf_t;

/* Start a server. `config` must outlive it. */
void mlf_mlperf_init(mlf_mlperf_t *server, const mlf_mlperf_config_t *config);

/* Take `size` received bytes, any number at a time; carry out the commands that they complete. */
void mlf_mlperf_feed(mlf_mlperf_t *server, const uint8_t *data, size_t size);

/* ---- from the buffer to the input ---- */

/* Bytes as they are, input after input. */
void mlf_mlperf_load_copy(const mlf_mlperf_config_t *config);

/* Unsigned bytes to int8: minus 128. */
void mlf_mlperf_load_minus_128(const mlf_mlperf_config_t *config);

/* Bytes of the scale config->sent to float32; int8 where its zero point is not 0, else uint8. */
void mlf_mlperf_load_float(const mlf_mlperf_config_t *config);

/* float32 (little-endian) to int8 or uint8 of the scale config->input: nearest value, saturated. */
void mlf_mlperf_load_quantised(const mlf_mlperf_config_t *config);

/* ---- from the outputs to values ---- */

/* Value of each element of each output. */
void mlf_mlperf_results_values(const mlf_mlperf_config_t *config);

/* Softmax over the elements of the first output. */
void mlf_mlperf_results_softmax(const mlf_mlperf_config_t *config);

/* Mean squared error of the first output against the float32 input in the buffer. */
void mlf_mlperf_results_error(const mlf_mlperf_config_t *config);

/* ---- text ---- */

/* Write `text`. */
void mlf_mlperf_text(const char *text);

/* Write a number in decimal. */
void mlf_mlperf_number(uint64_t value);

/* Write ticks of the clock in whole microseconds. */
void mlf_mlperf_time(uint64_t ticks);

/* Write a number with eight decimals (which hold any multiple of 1/256), rounded to nearest; from 2^31 on
 * with an exponent. */
void mlf_mlperf_float(float value);

#ifdef __cplusplus
}
#endif

#endif /* MLF_MLPERF_H */
