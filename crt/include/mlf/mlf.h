/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf.h - the static executor: runs a compiled model from const tables.
 *
 * A generated model file owns all data of a model: its arena, its parameters and one `mlf_model_t` in
 * flash. There is no start-up work, no heap and no name look-up: `mlf_run(&model)` walks the step table
 * and calls each kernel through one pointer.
 *
 *     memcpy(mlf_input(&digits, 0)->data, image, mlf_input(&digits, 0)->size_bytes);
 *     if (mlf_run(&digits) != MLF_OK) { ... }
 *     const float *logits = mlf_output(&digits, 0)->data;
 *
 * One inference at a time in the whole image, whatever the model: kernels get their workspace from one
 * allocator. A second call of mlf_run() while a model runs, from an interrupt handler or from another
 * thread, returns MLF_E_BUSY and changes nothing. The check is exact for interrupt handlers on every core.
 * Between threads it is exact where the core has exclusive accesses (Armv7-M, Armv8-M). Armv6-M and
 * Armv8-M Baseline without them leave a window of two instructions in which a preempting thread is not
 * noticed: there, use a lock of the RTOS around mlf_run(). The executor does not protect the tensors: do
 * not write inputs or read outputs in one context while another one runs the model.
 *
 * The options below (MLF_TRACE, MLF_OBSERVE, MLF_WORKSPACE_*) configure the runtime of the whole image,
 * never one model. No structure depends on them: a library and an application that were compiled with
 * different values agree on every layout. A function that an option removes is missing at link time.
 */
#ifndef MLF_MLF_H
#define MLF_MLF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- compile-time options ------------------------------------------------------------------- */

/* 1: the workspace allocator records its high-water mark and refused requests in mlf_trace.
 * 0 (default): production; nothing is recorded, at no cost. */
#ifndef MLF_TRACE
#define MLF_TRACE 0
#endif

#if MLF_TRACE != 0 && MLF_TRACE != 1
#error "MLF_TRACE must be 0 or 1"
#endif

/* 1: steps can be run one at a time with mlf_run_step(), and generated model files fill in
 * mlf_model_t.observed. 0 (default): production. mlf_run() is the same code either way. */
#ifndef MLF_OBSERVE
#define MLF_OBSERVE 0
#endif

#if MLF_OBSERVE != 0 && MLF_OBSERVE != 1
#error "MLF_OBSERVE must be 0 or 1"
#endif

/* Workspace allocators. SLOTS: fixed places from the plan (graph models). STACK: one region, last in first
 * out (models compiled ahead of time). 1 (default): compiled in. 0 saves code and instructions in an image
 * in which no model uses that kind; requests of such a model are then refused (MLF_E_WORKSPACE). */
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

/* 1: workspaces come from the heap of the host, each an allocation of its own (crt/host/workspace.c). 0 (default):
 * from the arena. */
#ifndef MLF_WORKSPACE_HEAP
#define MLF_WORKSPACE_HEAP 0
#endif

/* Models whose input comes row by row. 1 (default): compiled in. 0 saves code in an image that has none. */
#ifndef MLF_STREAMS
#define MLF_STREAMS 1
#endif

#if MLF_STREAMS != 0 && MLF_STREAMS != 1
#error "MLF_STREAMS must be 0 or 1"
#endif

/* Ways to run a model. STEP_TABLES: steps in a table. SEQUENCES: a generated function that calls them. 1
 * (default): compiled in. 0 saves code in an image in which no model is run that way. */
#ifndef MLF_STEP_TABLES
#define MLF_STEP_TABLES 1
#endif
#ifndef MLF_SEQUENCES
#define MLF_SEQUENCES 1
#endif

#if (MLF_STEP_TABLES != 0 && MLF_STEP_TABLES != 1) || (MLF_SEQUENCES != 0 && MLF_SEQUENCES != 1) || \
    (MLF_STEP_TABLES == 0 && (MLF_SEQUENCES == 0 || MLF_OBSERVE == 1))
#error "MLF_STEP_TABLES and MLF_SEQUENCES must be 0 or 1, one of them 1; MLF_OBSERVE needs MLF_STEP_TABLES"
#endif

/* ---- status --------------------------------------------------------------------------------- */

typedef enum {
  MLF_OK = 0,           /* success */
  MLF_E_KERNEL = -1,    /* a kernel returned non-zero; mlf_failed_step() gives the step */
  MLF_E_WORKSPACE = -2, /* a kernel asked for more workspace than the plan reserves for it */
  MLF_E_ARGUMENT = -3,  /* an argument is out of range or missing */
  MLF_E_STATE = -4,     /* rows of a streamed input in the wrong order; RPC server: inputs are not completely
                         * written, or outputs are not valid */
  MLF_E_BUSY = -5       /* a model runs already; nothing was changed */
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
  const char *name;     /* name in the archive, UTF-8 */
  void *data;           /* in the arena; an output that is a constant lies in the parameters: read only; NULL: of
                         * an input whose rows come one after the other, or that lies in memory of the caller */
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

/* A place in the arena for one nested workspace request of a step. Initialise it with MLF_SLOT(); each list
 * ends with MLF_SLOT_END, which refuses every request. */
typedef struct {
  void *base;
  uint32_t refused_from_bytes; /* the smallest request that is refused: one more than the bytes at base */
} mlf_slot_t;

/* Initialiser of a slot of `size_bytes` (below 2^32 - 1) at `base`, and of the end of a list. One comparison
 * covers both: the end refuses requests from 0 bytes on. */
#define MLF_SLOT(base, size_bytes) \
  { (base), (size_bytes) + 1u }
#define MLF_SLOT_END \
  { NULL, 0u }

typedef struct {
  mlf_kernel_t kernel;
  const void *args;        /* const TVMValue[num_args]; NULL for an adapter */
  const mlf_slot_t *slots; /* by depth of nesting: the first request gets slots[0] */
  int32_t num_args;
} mlf_step_t;

/* Calls all kernels of a model in order. Before the call of step n it stores the address first + n in *running;
 * before that of step 0 it is there. Returns 0, or what a kernel returned that failed. */
typedef int32_t (*mlf_sequence_t)(const void *volatile *running, const uint8_t *first);

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
  uint16_t number; /* index of the step in the archive, which may have another order */
} mlf_observed_t;

/* An input whose rows come one after the other: the first step computes what they allow, and keeps no more of them
 * than a few. */
typedef struct {
  uint32_t *counters; /* in the workspace of that step: rows that came, the first one that the ring holds, ... */
  uint8_t *ring;      /* rows that are still needed, one behind the other from its start on */
  void (*compute)(void); /* calls that step; it goes on from where it ended */
  uint8_t *phase;        /* mlf_stream_phase_t, 0 at reset */
  uint32_t rows;         /* of the whole input */
  uint32_t row_bytes;
  uint32_t ring_rows;
  uint32_t counter_bytes; /* set to 0 before the first row */
  uint8_t input;          /* its index */
} mlf_stream_t;

typedef enum {
  MLF_STREAM_IDLE = 0, /* no inference was begun */
  MLF_STREAM_OPEN = 1, /* rows come */
  MLF_STREAM_FULL = 2  /* all rows came, and the other steps are to be run */
} mlf_stream_phase_t;

/* Bytes of a guard: memory before or behind a region of the model that belongs to nothing. Whoever checks a model
 * writes its guards before a run and compares them after it. */
#define MLF_GUARD_BYTES 16u

typedef struct {
  const char *name; /* model (module) name in the archive, UTF-8 */
  const mlf_tensor_t *inputs;
  const mlf_tensor_t *outputs;
  const mlf_step_t *steps;       /* NULL: the model has a sequence */
  const int32_t *type_codes;     /* one 7 (DLTensor *) for each argument of the longest step */
  const char *const *step_names; /* num_steps names; NULL: left out */
  uint8_t *arena;
  const uint8_t *params; /* NULL when the constants are in the code */
  uint32_t arena_bytes;
  uint32_t params_bytes;
  uint16_t num_steps;
  uint8_t num_inputs;
  uint8_t num_outputs;
  uint8_t inputs_kept; /* 1: a run leaves the inputs intact; 0: their memory is reused */
  uint8_t archive_sha256[32];
  const mlf_observed_t *observed; /* num_steps entries; NULL: left out (generated without MLF_OBSERVE) */
  uint8_t *const *guards;         /* num_guards: before and behind arena, states, parameters in RAM; NULL: none */
  uint16_t num_guards;
  mlf_sequence_t sequence; /* NULL: its steps are in the table (always with MLF_OBSERVE) */
  const mlf_stream_t *stream; /* NULL: all inputs are there as a whole */
  const void **input_at;      /* num_inputs: where those lie that the caller has; NULL: they lie in the arena */
  uint8_t input_alignment;    /* bytes that these addresses are multiples of */
} mlf_model_t;

/* ---- running -------------------------------------------------------------------------------- */

/* Run the model once on what its input tensors hold. `model` must not be NULL, and its inputs must be
 * written (each time, unless model->inputs_kept).
 * Returns MLF_OK; MLF_E_BUSY when a model runs already: nothing was changed; MLF_E_KERNEL or
 * MLF_E_WORKSPACE: the outputs are not valid, and mlf_failed_step() gives the step. A thread that is
 * deleted in the middle of a run leaves the executor busy until reset. A model with a stream whose rows did not
 * all come fails at step 0: use mlf_finish(). */
MLF_WARN_UNUSED mlf_status_t mlf_run(const mlf_model_t *model);

/* Index of the step of `model` that runs right now, or -1: for fault handlers. It is -1 before, between
 * and after runs, and while another model runs. */
int32_t mlf_running_step(const mlf_model_t *model);

/* Index of the step of `model` that failed in the last run of any model, or -1 when that run succeeded, was
 * one of another model, or there was none. */
int32_t mlf_failed_step(const mlf_model_t *model);

/* Input or output tensor `index`; NULL when out of range. */
const mlf_tensor_t *mlf_input(const mlf_model_t *model, uint32_t index);
const mlf_tensor_t *mlf_output(const mlf_model_t *model, uint32_t index);

/* ---- inputs in memory of the caller --------------------------------------------------------- */

/* Read input `index` at `data` from the next run on: RAM or flash, which no run writes to. For models that were
 * compiled with --caller-inputs; of others it returns MLF_E_STATE. MLF_E_ARGUMENT: there is no such input, or `data` is
 * NULL or no multiple of model->input_alignment. MLF_E_BUSY: a model runs. What returns an error has changed nothing.
 * Until each input was set once, mlf_run() must not be called; generated headers have MODEL_run(), which sets all. */
MLF_WARN_UNUSED mlf_status_t mlf_set_input(const mlf_model_t *model, uint32_t index, const void *data);

/* ---- real numbers and stored ones ----------------------------------------------------------- */

/* Stored value of a real one: value / scale, rounded to the nearest (halves away from zero), plus zero_point; `least`
 * and `greatest` bound it, and what is no number gives `least`. `scale` must be > 0, and `least` <= zero_point <=
 * `greatest`, both within 16 bits. Generated headers have it for each input, as MODEL_quantise_input(). */
static inline int32_t mlf_quantise(float value, float scale, int32_t zero_point, int32_t least, int32_t greatest) {
  const float scaled = value / scale;
  int32_t whole;
  float rest;

  if (!(scaled > (float)(least - zero_point))) {
    return least;
  }
  if (scaled >= (float)(greatest - zero_point)) {
    return greatest;
  }
  whole = (int32_t)scaled;
  rest = scaled - (float)whole; /* exact */
  if (rest >= 0.5f) {
    ++whole;
  } else if (rest <= -0.5f) {
    --whole;
  }
  return whole + zero_point;
}

/* Real value of a stored one. */
static inline float mlf_dequantise(int32_t stored, float scale, int32_t zero_point) {
  return scale * (float)(stored - zero_point);
}

/* ---- an input that comes row by row (MLF_STREAMS) ------------------------------------------- */

#if MLF_STREAMS
/* A model that was compiled with --stream takes the rows of its input as they come: no whole image is needed.
 *
 *     mlf_begin(&model);
 *     while ((row = mlf_row(&model)) != NULL) {
 *       camera_read_line(row);
 *       mlf_rows_done(&model, 1);
 *     }
 *     status = mlf_finish(&model);
 *
 * Between mlf_begin() and mlf_finish() the arena belongs to the model: no other one that shares it may run. `model`
 * must not be NULL; of one without a stream each function returns MLF_E_STATE, NULL or 0. Functions of one model
 * are called from one context at a time; MLF_E_BUSY as of mlf_run(). What returns an error has changed nothing. */

/* Begin an inference; one that was begun and not finished is dropped. */
MLF_WARN_UNUSED mlf_status_t mlf_begin(const mlf_model_t *model);

/* Address of the next row, for the caller or DMA to write model->stream->row_bytes bytes to. It stays until
 * mlf_rows_done(). NULL: none is due. */
void *mlf_row(const mlf_model_t *model);

/* Number of rows that can be written from that address on, one behind the other: at least 1 while rows are due. */
uint32_t mlf_rows_free(const mlf_model_t *model);

/* `count` rows are written: compute what they allow. MLF_E_ARGUMENT: 0, or more than mlf_rows_free(). MLF_E_STATE: no
 * row is due. */
MLF_WARN_UNUSED mlf_status_t mlf_rows_done(const mlf_model_t *model, uint32_t count);

/* Run the other steps, after which the outputs are valid; returns what mlf_run() does. MLF_E_STATE: rows are still
 * due, and may come. */
MLF_WARN_UNUSED mlf_status_t mlf_finish(const mlf_model_t *model);

/* Copy the next `count` rows from memory of the caller. MLF_E_ARGUMENT: fewer are due, and none was taken. */
MLF_WARN_UNUSED mlf_status_t mlf_feed(const mlf_model_t *model, const void *rows, uint32_t count);

/* Run the model on a whole input in memory of the caller, which stays as it is: begin, feed and finish. */
MLF_WARN_UNUSED mlf_status_t mlf_run_rows(const mlf_model_t *model, const void *input);

/* For generated code: 0 when all rows came, which then counts no more. */
int32_t mlf_stream_take(const mlf_stream_t *stream);
#endif

/* ---- one step at a time (MLF_OBSERVE) ------------------------------------------------------- */

/* A clock that only goes up. */
typedef uint64_t (*mlf_ticks_t)(void *ctx);

#if MLF_OBSERVE
/* Run the step `index` alone. `index` must be below model->num_steps, and every step before it must have
 * run since the inputs were written. `ticks` (handed `ctx`) is read right before and right after the
 * kernel; the difference goes to `out_ticks`, which must not be NULL. `ticks` NULL: 0 is stored.
 * Returns what mlf_run() returns; with MLF_E_BUSY `out_ticks` is not written. */
MLF_WARN_UNUSED mlf_status_t mlf_run_step(const mlf_model_t *model, uint32_t index, mlf_ticks_t ticks,
                                          void *ctx, uint64_t *out_ticks);
#endif

/* ---- workspace trace (MLF_TRACE) ------------------------------------------------------------ */

/* Since mlf_trace_reset(), over all runs of all models. */
typedef struct {
  const uint8_t *high_water; /* highest end address handed out; NULL: none */
  uint32_t requests;         /* workspace requests that were granted */
  uint32_t refused_bytes;    /* size of the last refused request, UINT32_MAX for 4 GiB and more; 0: none */
} mlf_trace_t;

#if MLF_TRACE
extern mlf_trace_t mlf_trace;
void mlf_trace_reset(void);
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MLF_H */
