/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf.h - the static executor: run a compiled model from const tables.
 *
 * A generated model file owns all data of a model: its arena, its parameters and one `mlf_model_t`
 * in flash. There is no start-up work, no heap and no name look-up: `mlf_run(&model)` walks the step
 * table and calls each kernel through one pointer.
 *
 *     memcpy(mlf_input(&digits, 0)->data, image, mlf_input(&digits, 0)->size_bytes);
 *     if (mlf_run(&digits) != MLF_OK) { ... }
 *     const float *logits = mlf_output(&digits, 0)->data;
 *
 * Not reentrant: one inference at a time in the whole image, whatever the model.
 */
#ifndef MLF_MLF_H
#define MLF_MLF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- compile-time options ------------------------------------------------------------------- */

/* 1: the workspace allocator records its high-water mark and refused requests (mlf_trace).
 * 0 (default): production; nothing is recorded and nothing is paid for it. */
#ifndef MLF_TRACE
#define MLF_TRACE 0
#endif

#if MLF_TRACE != 0 && MLF_TRACE != 1
#error "MLF_TRACE must be 0 or 1"
#endif

/* 1: steps can be run one at a time (mlf_run_step), and models tell where a step's arguments lie.
 * 0 (default): production. mlf_run() is the same code either way. */
#ifndef MLF_OBSERVE
#define MLF_OBSERVE 0
#endif

#if MLF_OBSERVE != 0 && MLF_OBSERVE != 1
#error "MLF_OBSERVE must be 0 or 1"
#endif

/* How steps get their workspace. A generated project switches off what none of its models needs.
 * SLOTS: fixed places from the plan (graph models). STACK: one region, last in first out (models
 * compiled ahead of time). */
#ifndef MLF_WORKSPACE_SLOTS
#define MLF_WORKSPACE_SLOTS 1
#endif
#ifndef MLF_WORKSPACE_STACK
#define MLF_WORKSPACE_STACK 1
#endif

#if (MLF_WORKSPACE_SLOTS != 0 && MLF_WORKSPACE_SLOTS != 1) || \
    (MLF_WORKSPACE_STACK != 0 && MLF_WORKSPACE_STACK != 1)
#error "MLF_WORKSPACE_SLOTS and MLF_WORKSPACE_STACK must be 0 or 1"
#endif

/* ---- status --------------------------------------------------------------------------------- */

typedef enum {
  MLF_OK = 0,           /* success */
  MLF_E_KERNEL = -1,    /* a kernel returned non-zero; mlf_failed_step() tells which */
  MLF_E_WORKSPACE = -2, /* a kernel asked for more workspace than the plan gives it */
  MLF_E_ARGUMENT = -3,  /* an index or a size is out of range */
  MLF_E_STATE = -4      /* the inputs were consumed by the last run and not written since */
} mlf_status_t;

#if defined(__GNUC__)
#define MLF_WARN_UNUSED __attribute__((warn_unused_result))
#else
#define MLF_WARN_UNUSED
#endif

/* ---- the model ------------------------------------------------------------------------------ */

/* Element type: code, bits and lanes as in DLDataType. */
typedef enum { MLF_INT = 0, MLF_UINT = 1, MLF_FLOAT = 2, MLF_HANDLE = 3, MLF_BFLOAT = 4 } mlf_type_code_t;

typedef struct {
  const char *name;     /* the name in the archive, UTF-8, for people */
  void *data;           /* in the arena */
  const int64_t *shape; /* ndim extents */
  uint32_t size_bytes;
  uint8_t ndim;
  uint8_t type_code; /* mlf_type_code_t */
  uint8_t bits;      /* of one lane */
  uint8_t lanes;
} mlf_tensor_t;

/* The packed ABI of TVM 0.8 - 0.20; adapters give every other entry this shape. */
typedef int32_t (*mlf_kernel_t)(void *args, int32_t *type_codes, int32_t num_args, void *ret_value,
                                int32_t *ret_type_code, void *resource);

/* A place in the arena for one nested workspace request of a step; a {NULL, 0} slot, where no request fits,
 * ends a list. */
typedef struct {
  void *base;
  uint32_t limit_bytes; /* requests below it fit: one more than the bytes that are there */
} mlf_slot_t;

typedef struct {
  mlf_kernel_t kernel;
  const void *args;        /* TVMValue[num_args]; NULL for an adapter */
  const mlf_slot_t *slots; /* by depth of nesting: the first request gets slots[0] */
  int32_t num_args;
} mlf_step_t;

#if MLF_OBSERVE
/* An argument of a step: a tensor in the arena or in the parameters. */
typedef struct {
  const void *data;
  uint32_t size_bytes;
} mlf_argument_t;

/* The arguments of a step: inputs (parameters among them), then outputs, in the order of the call. */
typedef struct {
  const mlf_argument_t *arguments; /* num_inputs + num_outputs */
  uint16_t num_inputs;
  uint16_t num_outputs;
  uint16_t number; /* of the step in the archive, where steps may stand in another order */
} mlf_observed_t;
#endif

typedef struct {
  const char *name; /* model (module) name, for people */
  const mlf_tensor_t *inputs;
  const mlf_tensor_t *outputs;
  const mlf_step_t *steps;
  const int32_t *type_codes;     /* one 7 (DLTensor *) for each argument of the longest step */
  const char *const *step_names; /* for people; NULL when left out */
  uint8_t *arena;
  const uint8_t *params; /* NULL when the constants are in the code */
  uint32_t arena_bytes;
  uint32_t params_bytes;
  uint16_t num_steps;
  uint8_t num_inputs;
  uint8_t num_outputs;
  uint8_t inputs_kept; /* 1: a run leaves the inputs intact; 0: their memory is reused */
  uint8_t archive_sha256[32];
#if MLF_OBSERVE
  const mlf_observed_t *observed; /* by step; NULL: not known */
#endif
} mlf_model_t;

/* ---- running -------------------------------------------------------------------------------- */

/* Run the model once on what its input tensors hold.
 * Returns MLF_OK, MLF_E_KERNEL or MLF_E_WORKSPACE. */
MLF_WARN_UNUSED mlf_status_t mlf_run(const mlf_model_t *model);

/* The step that failed in the last run that did not return MLF_OK, or that runs right now (for a
 * fault handler): an index into model->steps, -1 when no step was started since reset. */
int32_t mlf_current_step(const mlf_model_t *model);

/* Input or output tensor `index`; NULL when out of range. */
const mlf_tensor_t *mlf_input(const mlf_model_t *model, uint32_t index);
const mlf_tensor_t *mlf_output(const mlf_model_t *model, uint32_t index);

/* ---- one step at a time (MLF_OBSERVE) ------------------------------------------------------- */

#if MLF_OBSERVE
/* Run the step `index` (below num_steps) alone; every step before it has run since the inputs were
 * written. `ticks` is read right before and right after the kernel, and their difference is stored in
 * `out_ticks`; NULL: 0 is stored. Returns what mlf_run() returns. */
MLF_WARN_UNUSED mlf_status_t mlf_run_step(const mlf_model_t *model, uint32_t index, uint64_t (*ticks)(void),
                                          uint64_t *out_ticks);
#endif

/* ---- workspace trace (MLF_TRACE) ------------------------------------------------------------ */

#if MLF_TRACE
typedef struct {
  const uint8_t *high_water; /* highest end address handed out since reset; NULL: none */
  uint32_t requests;         /* workspace requests since reset */
  uint32_t refused_bytes;    /* size of the last refused request; 0: none */
} mlf_trace_t;

extern mlf_trace_t mlf_trace;
void mlf_trace_reset(void);
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MLF_H */
