/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_models.h"

#include <string.h>

#define TEN_A "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"
#define FIFTY_A TEN_A TEN_A TEN_A TEN_A TEN_A

uint8_t fake_guards[2][MLF_GUARD_BYTES];
uint32_t fake_runs;
void (*fake_on_run)(void);

static union {
  uint8_t bytes[64];
  uint64_t aligned;
} shared;
static union {
  uint8_t bytes[1040];
  uint64_t aligned;
} large;

static const int64_t shape_2_3[] = {2, 3};
static const int64_t shape_5[] = {5};
static const int64_t shape_4[] = {4};
static const int64_t shape_130[] = {130};
static const int64_t shape_many[20] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const int64_t shape_far[] = {0, INT64_C(0x100000000)};

static const mlf_tensor_t twins_inputs[] = {
    {"x", &shared.bytes[0], shape_2_3, 12, 2, MLF_INT, 16, 1},
    {"y:0", &shared.bytes[16], shape_5, 5, 1, MLF_UINT, 8, 1},
};
static const mlf_tensor_t twins_outputs[] = {
    {"sum", &shared.bytes[24], shape_2_3, 24, 2, MLF_INT, 32, 1},
    {"echo", &shared.bytes[48], shape_5, 5, 1, MLF_UINT, 8, 1},
};
static const mlf_tensor_t large_inputs[] = {
    {"data", &large.bytes[0], shape_130, 520, 1, MLF_FLOAT, 32, 1},
};
static const mlf_tensor_t large_outputs[] = {
    {"negative " FIFTY_A FIFTY_A FIFTY_A, &large.bytes[520], shape_130, 520, 1, MLF_FLOAT, 32, 1},
};
static const mlf_tensor_t sharer_inputs[] = {
    {"a", &shared.bytes[0], shape_4, 4, 1, MLF_UINT, 8, 1},
};
static const mlf_tensor_t sharer_outputs[] = {
    {"b", &shared.bytes[8], shape_4, 4, 1, MLF_UINT, 8, 1},
};
static const mlf_tensor_t odd_outputs[] = {
    {"many", NULL, shape_many, 0, 20, MLF_UINT, 8, 1},
    {"far", NULL, shape_far, 0, 2, MLF_UINT, 8, 1},
};

#if MLF_OBSERVE
static const uint8_t constant[4] = {7, 8, 9, 10};
static const mlf_argument_t twins_arguments[] = {
    {&shared.bytes[0], 12}, {&shared.bytes[16], 5}, {&shared.bytes[24], 24}, /* sum */
    {&shared.bytes[16], 5}, {&shared.bytes[48], 5},                          /* echo */
    {constant, 4},          {&shared.bytes[0], 12}, {&shared.bytes[16], 5},  /* gives two */
};
static const mlf_observed_t twins_observed[] = {
    {&twins_arguments[0], 2, 1, 0}, {&twins_arguments[3], 1, 1, 2}, {&twins_arguments[5], 1, 2, 1}};
static const char *const twins_steps[] = {"sum", "echo", "clear"};
static const mlf_argument_t negate_arguments[] = {{&large.bytes[0], 520}, {&large.bytes[520], 520}};
static const mlf_observed_t negate_observed[] = {{negate_arguments, 1, 1, 0}};
#endif

static const mlf_model_t twins = {
    .name = "twins",
    .inputs = twins_inputs,
    .outputs = twins_outputs,
    .arena = shared.bytes,
    .arena_bytes = sizeof shared.bytes,
    .params_bytes = 16,
    .num_steps = 3,
    .num_inputs = 2,
    .num_outputs = 2,
    .inputs_kept = 0,
    .archive_sha256 = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
#if MLF_OBSERVE
    .step_names = twins_steps,
    .observed = twins_observed,
#endif
};
static const mlf_model_t negate = {
    .name = FIFTY_A FIFTY_A FIFTY_A FIFTY_A,
    .inputs = large_inputs,
    .outputs = large_outputs,
    .arena = large.bytes,
    .arena_bytes = sizeof large.bytes,
    .num_steps = 1,
    .num_inputs = 1,
    .num_outputs = 1,
    .inputs_kept = 1,
#if MLF_OBSERVE
    .observed = negate_observed,
#endif
};
static const mlf_model_t sharer = {
    .name = "sharer",
    .inputs = sharer_inputs,
    .outputs = sharer_outputs,
    .arena = shared.bytes,
    .arena_bytes = sizeof shared.bytes,
    .num_steps = 1,
    .num_inputs = 1,
    .num_outputs = 1,
    .inputs_kept = 1,
};
static uint8_t *const odd_guards[] = {fake_guards[0], fake_guards[1]};
static const mlf_model_t odd = {
    .guards = odd_guards,
    .num_guards = 2,
    .outputs = odd_outputs,
    .num_outputs = 2,
    .inputs_kept = 0,
};

const mlf_model_t *const fake_models[FAKE_NUM_MODELS] = {&twins, &negate, &sharer, &odd};

/* ---- the executor, as far as the server calls it -------------------------------------------- */

static int32_t current_step = -1;

#if MLF_TRACE
mlf_trace_t mlf_trace;

void mlf_trace_reset(void) { memset(&mlf_trace, 0, sizeof mlf_trace); }
#endif

static mlf_status_t run_twins(void) {
  int16_t x[6];
  int32_t sum[6];
  uint8_t y[5];
  memcpy(x, &shared.bytes[0], sizeof x);
  memcpy(y, &shared.bytes[16], sizeof y);
  current_step = 0;
#if MLF_TRACE
  mlf_trace.high_water = &shared.bytes[60];
  mlf_trace.requests += 2;
  mlf_trace.refused_bytes = y[0] == 0xDD ? 4096 : 0;
#endif
  if (y[0] == 0xDD) {
    current_step = 1;
    return MLF_E_WORKSPACE;
  }
  if (y[0] == 0xEE) {
    current_step = 2;
    return MLF_E_KERNEL;
  }
  for (int i = 0; i < 6; i++) {
    sum[i] = 2 * x[i] + y[i % 5];
  }
  memcpy(&shared.bytes[24], sum, sizeof sum);
  memcpy(&shared.bytes[48], y, sizeof y);
  memset(&shared.bytes[0], 0xCC, 21);
  return MLF_OK;
}

mlf_status_t mlf_run(const mlf_model_t *model) {
  fake_runs++;
  if (fake_on_run != NULL) {
    fake_on_run();
  }
  if (model == &twins) {
    return run_twins();
  }
  current_step = 0;
  if (model == &negate) {
    memcpy(&large.bytes[520], &large.bytes[0], 520);
    for (int i = 0; i < 130; i++) {
      large.bytes[520 + 4 * i + 3] ^= 0x80u;
    }
  } else if (model == &sharer) {
    if (shared.bytes[0] == 0xEE) {
      return MLF_E_KERNEL;
    }
    if (shared.bytes[0] == 0xBB) {
      current_step = -1;
      return MLF_E_BUSY;
    }
    for (int i = 0; i < 4; i++) {
      shared.bytes[8 + i] = (uint8_t)(shared.bytes[i] + 1u);
    }
  }
  return MLF_OK;
}

#if MLF_OBSERVE
/* The steps of the twins do together what a run does; the others have one. */
mlf_status_t mlf_run_step(const mlf_model_t *model, uint32_t index, mlf_ticks_t ticks, void *ctx,
                          uint64_t *out_ticks) {
  mlf_status_t status = MLF_OK;
  const uint64_t start = ticks(ctx);
  if (model != &twins) {
    status = mlf_run(model);
  } else if (index == 0) {
    for (uint32_t i = 0; i < 6; i++) {
      int16_t x;
      memcpy(&x, &shared.bytes[2 * i], sizeof x);
      const int32_t sum = 2 * x + shared.bytes[16 + i % 5];
      memcpy(&shared.bytes[24 + 4 * i], &sum, sizeof sum);
    }
  } else if (index == 1) {
    status = shared.bytes[16] == 0xDD ? MLF_E_WORKSPACE : MLF_OK;
    memcpy(&shared.bytes[48], &shared.bytes[16], 5);
  } else {
    status = shared.bytes[16] == 0xEE ? MLF_E_KERNEL : MLF_OK;
    memset(&shared.bytes[0], 0xCC, 21);
  }
  *out_ticks = ticks(ctx) - start;
  current_step = (int32_t)index;
  return status;
}
#endif

int32_t mlf_failed_step(const mlf_model_t *model) {
  (void)model;
  return current_step;
}

const mlf_tensor_t *mlf_input(const mlf_model_t *model, uint32_t index) {
  return index < model->num_inputs ? &model->inputs[index] : NULL;
}

const mlf_tensor_t *mlf_output(const mlf_model_t *model, uint32_t index) {
  return index < model->num_outputs ? &model->outputs[index] : NULL;
}

uint64_t fake_ticks(void *ctx) {
  (void)ctx;
  static uint64_t now = UINT64_C(0xFFFFFF00);
  now += FAKE_TICKS_PER_CALL;
  return now;
}
