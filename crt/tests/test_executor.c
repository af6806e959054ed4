/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static executor and the backend ABI, in every combination of MLF_TRACE, MLF_WORKSPACE_SLOTS and
 * MLF_WORKSPACE_STACK. With MLF_OBSERVE, steps run one at a time, and all of it must hold as well.
 */
#include <mlf/mlf_adapter.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "../src/mlf_internal.h"
#include "check.h"

#define KERNEL(name)                                                                      \
  static int32_t name(void *args, int32_t *type_codes, int32_t num_args, void *ret_value, \
                      int32_t *ret_type_code, void *resource)
#define UNUSED() \
  ((void)args, (void)type_codes, (void)num_args, (void)ret_value, (void)ret_type_code, (void)resource)

#define LOG_MAX 16
#define GIB4 (UINT64_C(1) << 32)

static _Alignas(16) uint8_t arena[256];
static const int32_t type_codes[4] = {7, 7, 7, 7};
static const int64_t shape[1] = {8};
static const mlf_slot_t no_slots[1] = {MLF_SLOT_END};

static const mlf_model_t *running;
static int32_t order[LOG_MAX];
static int order_count;

static void *take(uint64_t size_bytes) { return TVMBackendAllocWorkspace(1, 0, size_bytes, 2, 32); }

static void give(void *pointer) { CHECK(TVMBackendFreeWorkspace(1, 0, pointer) == 0); }

/* Notes which step runs, by what a fault handler would see. */
static void note(void) {
  CHECK(order_count < LOG_MAX);
  order[order_count++] = mlf_running_step(running);
}

#if MLF_OBSERVE
static uint64_t now;

/* 100 ticks from one look to the next; a kernel adds its own. */
static uint64_t ticks(void *ctx) {
  CHECK(ctx == &now);
  return now += 100;
}

static mlf_status_t run_all(const mlf_model_t *model) {
  for (uint32_t i = 0; i < model->num_steps; i++) {
    uint64_t taken = 0;
    const uint64_t before = now;
    const mlf_status_t status = mlf_run_step(model, i, ticks, &now, &taken);
    CHECK(taken == now - before - 100);
    if (status != MLF_OK) {
      return status;
    }
  }
  return MLF_OK;
}
#else
#define run_all mlf_run
#endif

static mlf_status_t run(const mlf_model_t *model) {
  running = model;
  order_count = 0;
#if MLF_TRACE
  mlf_trace_reset();
#endif
  return run_all(model);
}

/* A model of one step with these slots. */
static mlf_status_t run_one(mlf_kernel_t kernel, const mlf_slot_t *slots) {
  static mlf_step_t step[1];
  static mlf_model_t model;
  step[0] = (mlf_step_t){kernel, NULL, slots, 0};
  memset(&model, 0, sizeof model);
  model.steps = step;
  model.type_codes = type_codes;
  model.arena = arena;
  model.arena_bytes = sizeof arena;
  model.num_steps = 1;
  return run(&model);
}

#if MLF_SEQUENCES
/* ---- a sequence in place of a table ------------------------------------------------------------ */

static int sequence_fails_at = -1;
static int sequence_calls;
static const mlf_model_t in_sequence, of_neighbours;

static int32_t step_of_sequence(int number) {
  CHECK(mlf_running_step(&in_sequence) == number);
  CHECK(mlf_running_step(&of_neighbours) == -1);
  CHECK(mlf_run(&in_sequence) == MLF_E_BUSY);
  sequence_calls++;
  if (number == 1) {
    CHECK(take(16) == NULL); /* there is no slot: the request is refused */
  }
  return number == sequence_fails_at ? -1 : 0;
}

static int32_t sequence(const void *volatile *mark, const uint8_t *first) {
  for (int number = 0; number < 3; number++) {
    *mark = first + number;
    if (step_of_sequence(number) != 0) {
      return -1;
    }
  }
  return 0;
}

static int32_t no_steps(const void *volatile *mark, const uint8_t *first) {
  CHECK(*mark == (const void *)first);
  return 0;
}

static const mlf_model_t in_sequence = {.name = "sequence", .sequence = sequence, .num_steps = 3};
static const mlf_model_t of_neighbours = {.name = "neighbours", .sequence = no_steps, .num_steps = 0};

static void test_sequence(void) {
  sequence_fails_at = -1;
  sequence_calls = 0;
  CHECK(mlf_run(&in_sequence) == MLF_OK);
  CHECK(sequence_calls == 3);
  CHECK(mlf_running_step(&in_sequence) == -1 && mlf_failed_step(&in_sequence) == -1);
  sequence_fails_at = 2;
  CHECK(mlf_run(&in_sequence) == MLF_E_WORKSPACE); /* of step 1 */
  CHECK(mlf_running_step(&in_sequence) == -1 && mlf_failed_step(&in_sequence) == 2);
  CHECK(mlf_failed_step(&of_neighbours) == -1);
  sequence_fails_at = 0;
  CHECK(mlf_run(&in_sequence) == MLF_E_KERNEL);
  CHECK(mlf_failed_step(&in_sequence) == 0);
  CHECK(mlf_run(&of_neighbours) == MLF_OK);
  CHECK(mlf_failed_step(&in_sequence) == -1);
}
#endif

/* ---- order, arguments, failures --------------------------------------------------------------- */

static const TVMValue values[3] = {{.v_int64 = 11}, {.v_int64 = 22}, {.v_int64 = 33}};
static int fail_at = -1;
static int32_t fail_with;

KERNEL(takes_arguments) {
  note();
  CHECK(order[order_count - 1] == order_count - 1);
  CHECK(args == (const void *)&values[order_count - 1]);
  CHECK(((TVMValue *)args)[0].v_int64 == 11 * order_count);
  CHECK(num_args == 4 - order_count);
  CHECK(type_codes == running->type_codes && type_codes[3] == 7);
  CHECK(ret_value != NULL && ret_type_code != NULL);
  CHECK(resource == NULL);
  *(int64_t *)ret_value = -1; /* a kernel may write its result there */
  *ret_type_code = 3;
  return order_count - 1 == fail_at ? fail_with : 0;
}

static const mlf_step_t three_steps[3] = {
    {takes_arguments, &values[0], no_slots, 3},
    {takes_arguments, &values[1], no_slots, 2},
    {takes_arguments, &values[2], no_slots, 1},
};
static const mlf_model_t three = {
    .name = "three", .steps = three_steps, .type_codes = type_codes, .arena = arena, .num_steps = 3};
static const mlf_model_t nothing = {.name = "nothing", .steps = three_steps, .type_codes = type_codes};

static void check_idle(const mlf_model_t *model) {
  CHECK(mlf_running_step(model) == -1);
  CHECK(mlf_failed_step(model) == -1);
}

static void test_order(void) {
  check_idle(&three);
  CHECK(run(&three) == MLF_OK);
  CHECK(order_count == 3);
  CHECK(order[0] == 0 && order[1] == 1 && order[2] == 2);
  check_idle(&three); /* a fault in main() after a run is not that of its last step */
  CHECK(run(&nothing) == MLF_OK);
  CHECK(order_count == 0);
  check_idle(&nothing);
}

#if MLF_OBSERVE
KERNEL(takes_its_time) {
  UNUSED();
  now += 12345;
  return 0;
}

static void test_ticks_of_a_step(void) {
  static const mlf_step_t steps[2] = {{takes_arguments, &values[0], no_slots, 3},
                                      {takes_its_time, NULL, no_slots, 0}};
  static const mlf_model_t model = {.steps = steps, .type_codes = type_codes, .num_steps = 2};
  uint64_t taken = 1;
  running = &model;
  order_count = 0;
  CHECK(mlf_run_step(&model, 1, ticks, &now, &taken) == MLF_OK);
  CHECK(taken == 12445 && order_count == 0);
  CHECK(mlf_run_step(&model, 1, NULL, NULL, &taken) == MLF_OK);
  CHECK(taken == 0);
  check_idle(&model);
}
#endif

/* Step tables side by side in memory: a step belongs to one model only. */
static void test_current_step_of_neighbours(void) {
  static const mlf_model_t first = {.steps = &three_steps[0], .type_codes = type_codes, .num_steps = 1};
  static const mlf_model_t others = {.steps = &three_steps[1], .type_codes = type_codes, .num_steps = 2};
  for (int32_t i = 0; i < 3; i++) {
    mlf_context.step = &three_steps[i];
    CHECK(mlf_running_step(&first) == (i == 0 ? 0 : -1) && mlf_running_step(&others) == (i == 0 ? -1 : i - 1));
    mlf_context.failed = mlf_context.step;
    mlf_context.step = NULL;
    CHECK(mlf_failed_step(&first) == (i == 0 ? 0 : -1) && mlf_failed_step(&others) == (i == 0 ? -1 : i - 1));
    CHECK(mlf_running_step(&first) == -1 && mlf_running_step(&others) == -1);
  }
}

static void test_a_kernel_that_fails(void) {
  static const int32_t codes[] = {-1, 1, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    for (fail_at = 0; fail_at < 3; fail_at++) {
      fail_with = codes[i];
      CHECK(run(&three) == MLF_E_KERNEL);
      CHECK(order_count == fail_at + 1);
      CHECK(mlf_failed_step(&three) == fail_at && mlf_failed_step(&nothing) == -1);
      CHECK(mlf_running_step(&three) == -1);
    }
  }
  fail_at = -1;
  CHECK(run(&three) == MLF_OK);
  check_idle(&three);
}

/* ---- a second run while a model runs -------------------------------------------------------------- */

static const mlf_model_t *other;

/* Inputs in memory of the caller. */
static const void *input_at[2];
static const mlf_step_t reads_steps[1] = {{NULL, NULL, no_slots, 0}};
static const mlf_model_t reads = {.steps = reads_steps, .num_inputs = 2, .input_at = input_at, .input_alignment = 4};

/* Does what an interrupt handler would: runs a model in the middle of a run. */
KERNEL(interrupted) {
  UNUSED();
  note();
  CHECK(mlf_set_input(&reads, 1, &arena[4]) == MLF_E_BUSY && input_at[1] == &arena[8]);
  CHECK(mlf_run(other) == MLF_E_BUSY);
#if MLF_OBSERVE
  uint64_t taken = 17;
  CHECK(mlf_run_step(other, 0, NULL, NULL, &taken) == MLF_E_BUSY && taken == 17);
#endif
  CHECK(mlf_running_step(running) == order_count - 1);
  return order_count - 1 == fail_at ? 1 : 0;
}

static void test_set_input(void) {
  static const mlf_model_t inside = {.num_inputs = 1};
  CHECK(mlf_set_input(&reads, 0, &arena[4]) == MLF_OK && input_at[0] == &arena[4] && input_at[1] == NULL);
  CHECK(mlf_set_input(&reads, 0, &arena[8]) == MLF_OK && input_at[0] == &arena[8]);
  CHECK(mlf_set_input(&reads, 1, &arena[8]) == MLF_OK && input_at[1] == &arena[8]);
  CHECK(mlf_set_input(&reads, 2, &arena[0]) == MLF_E_ARGUMENT);
  CHECK(mlf_set_input(&reads, 0, NULL) == MLF_E_ARGUMENT);
  CHECK(mlf_set_input(&reads, 0, &arena[2]) == MLF_E_ARGUMENT && input_at[0] == &arena[8]);
  CHECK(mlf_set_input(&inside, 0, &arena[0]) == MLF_E_STATE);
  CHECK(mlf_running_step(&reads) == -1);
}

static void test_busy(void) {
  static const mlf_step_t steps[3] = {
      {interrupted, NULL, no_slots, 0}, {interrupted, NULL, no_slots, 0}, {interrupted, NULL, no_slots, 0}};
  static const mlf_model_t model = {.steps = steps, .type_codes = type_codes, .num_steps = 3};
  const mlf_model_t *const others[] = {&model, &three, &nothing}; /* itself, another one, an empty one */
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    other = others[i];
    CHECK(run(&model) == MLF_OK && order_count == 3);
    fail_at = 1;
    CHECK(run(&model) == MLF_E_KERNEL && mlf_failed_step(&model) == 1); /* and it is free again */
    fail_at = -1;
    CHECK(run(&three) == MLF_OK && order_count == 3);
  }
}

KERNEL(complains) {
  UNUSED();
  TVMAPISetLastError("assertion failed");
  return -1;
}

static void test_last_error(void) {
  CHECK(run_one(complains, no_slots) == MLF_E_KERNEL);
  CHECK(strcmp(mlf_context.message, "assertion failed") == 0);
}

/* ---- tensors ------------------------------------------------------------------------------------ */

static void test_tensors(void) {
  static const mlf_tensor_t inputs[2] = {{"a", &arena[0], shape, 8, 1, MLF_UINT, 8, 1},
                                         {"b", &arena[8], shape, 8, 1, MLF_UINT, 8, 1}};
  static const mlf_tensor_t outputs[1] = {{"c", &arena[16], shape, 8, 1, MLF_UINT, 8, 1}};
  static const mlf_model_t model = {.inputs = inputs, .outputs = outputs, .num_inputs = 2, .num_outputs = 1};
  CHECK(mlf_input(&model, 0) == &inputs[0]);
  CHECK(mlf_input(&model, 1) == &inputs[1]);
  CHECK(mlf_input(&model, 2) == NULL);
  CHECK(mlf_input(&model, UINT32_MAX) == NULL);
  CHECK(mlf_output(&model, 0) == &outputs[0]);
  CHECK(mlf_output(&model, 1) == NULL);
  CHECK(mlf_output(&model, UINT32_MAX) == NULL);
  CHECK(mlf_input(&nothing, 0) == NULL);
  CHECK(mlf_output(&nothing, 0) == NULL);
}

/* ---- parallel launch ---------------------------------------------------------------------------- */

static int launches;

static int task(int task_id, TVMParallelGroupEnv *env, void *data) {
  launches++;
  CHECK(task_id == 0 && env->num_task == 1);
  CHECK(TVMBackendParallelBarrier(task_id, env) == 0);
  return *(int *)data;
}

static void test_parallel_launch(void) {
  static const int counts[] = {0, 1, 2, 64, -1};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    int result = (int)i - 2;
    launches = 0;
    CHECK(TVMBackendParallelLaunch(task, &result, counts[i]) == result);
    CHECK(launches == 1);
  }
}

/* ---- workspace: what every mode refuses --------------------------------------------------------- */

static uint64_t ask_bytes;
static int refusals_to_ignore;

KERNEL(asks) {
  UNUSED();
  note();
  void *const got = take(ask_bytes);
  if (got == NULL) {
    return refusals_to_ignore-- > 0 ? 0 : -1;
  }
  memset(got, 0x5A, (size_t)ask_bytes);
  give(got);
  return 0;
}

/* A request of `size_bytes` fails the run, and what was refused is reported. */
static void check_refused(mlf_kernel_t kernel, const mlf_slot_t *slots, uint64_t size_bytes) {
  ask_bytes = size_bytes;
  CHECK(run_one(kernel, slots) == MLF_E_WORKSPACE);
  CHECK(mlf_context.refused_bytes == (size_bytes < UINT32_MAX ? size_bytes : UINT32_MAX));
#if MLF_TRACE
  CHECK(mlf_trace.refused_bytes == mlf_context.refused_bytes);
  CHECK(mlf_trace.requests == 0 && mlf_trace.high_water == NULL);
#endif
}

static void check_granted(mlf_kernel_t kernel, const mlf_slot_t *slots, uint64_t size_bytes) {
  ask_bytes = size_bytes;
  CHECK(run_one(kernel, slots) == MLF_OK);
  CHECK(mlf_context.refused_bytes == 0);
}

static void check_huge_is_refused(mlf_kernel_t kernel, const mlf_slot_t *slots) {
  static const uint64_t huge[] = {257,      INT32_MAX, UINT32_MAX,      GIB4,      GIB4 + 1,
                                  GIB4 + 8, GIB4 * 2,  UINT64_MAX - 15, UINT64_MAX};
  for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
    check_refused(kernel, slots, huge[i]);
  }
}

/* ---- workspace: slots --------------------------------------------------------------------------- */

#if MLF_WORKSPACE_SLOTS
static const mlf_slot_t nested_slots[] = {MLF_SLOT(&arena[0], 64), MLF_SLOT(&arena[128], 32),
                                          MLF_SLOT(&arena[64], 16), MLF_SLOT_END};

/* By depth of nesting, again and again: a { b } { c { d } }. */
KERNEL(nests) {
  UNUSED();
  for (int i = 0; i < 1000; i++) {
    uint8_t *const a = take(64);
    CHECK(a == &arena[0]);
    uint8_t *const b = take(32);
    CHECK(b == &arena[128]);
    give(b);
    uint8_t *const c = take(1);
    CHECK(c == &arena[128]);
    uint8_t *const d = take(16);
    CHECK(d == &arena[64]);
    give(d);
    give(c);
    give(a);
  }
  return 0;
}

KERNEL(nests_too_deep) {
  UNUSED();
  void *const a = take(8);
  void *const b = take(8);
  void *const c = take(8);
  CHECK(a != NULL && b != NULL && c != NULL);
  CHECK(take(1) == NULL);
  return -1;
}

/* Nothing, asked for behind the last slot: refused again and again, never a walk beyond the table. */
KERNEL(nests_nothing_too_deep) {
  UNUSED();
  void *const a = take(40);
  CHECK(a == &arena[16]);
  for (int i = 0; i < 100; i++) {
    CHECK(take(0) == NULL);
  }
  give(a);
  CHECK(take(0) == &arena[16]);
  CHECK(take(0) == NULL);
  return -1;
}

static void test_slots(void) {
  static const mlf_slot_t one[] = {MLF_SLOT(&arena[16], 40), MLF_SLOT_END};
  CHECK(run_one(nests, nested_slots) == MLF_OK);
#if MLF_TRACE
  CHECK(mlf_trace.requests == 4000);
  CHECK(mlf_trace.high_water == &arena[160]);
  CHECK(mlf_trace.refused_bytes == 0);
#endif
  CHECK(run_one(nests_too_deep, nested_slots) == MLF_E_WORKSPACE);
  CHECK(mlf_context.refused_bytes == 1);
  check_granted(asks, one, 40);
#if MLF_TRACE
  CHECK(mlf_trace.requests == 1 && mlf_trace.high_water == &arena[56]);
#endif
  check_granted(asks, one, 1);
#if MLF_TRACE
  CHECK(mlf_trace.high_water == &arena[17]);
#endif
  check_granted(asks, one, 0);
  CHECK(run_one(nests_nothing_too_deep, one) == MLF_E_WORKSPACE);
  CHECK(mlf_context.refused_bytes == 1); /* nothing counts as one byte */
  ask_bytes = 0;
  CHECK(run_one(asks, no_slots) == MLF_E_WORKSPACE);
  check_refused(asks, one, 41);
  check_refused(asks, no_slots, 1);
  check_huge_is_refused(asks, one);
}

/* Each step begins with its own slots, whatever the one before it left behind. */
KERNEL(leaks) {
  UNUSED();
  CHECK(take(8) == &arena[0]);
  return 0;
}

static void test_each_step_has_its_own_slots(void) {
  static const mlf_slot_t first[] = {MLF_SLOT(&arena[0], 8), MLF_SLOT_END};
  static const mlf_step_t steps[3] = {
      {leaks, NULL, first, 0}, {nests, NULL, nested_slots, 0}, {leaks, NULL, first, 0}};
  const mlf_model_t model = {.steps = steps, .type_codes = type_codes, .num_steps = 3};
  CHECK(run(&model) == MLF_OK);
  CHECK(run(&model) == MLF_OK);
}
#endif

/* ---- workspace: stack --------------------------------------------------------------------------- */

#if MLF_WORKSPACE_STACK
static uint32_t stack_bytes = 128;

KERNEL(stacks) {
  UNUSED();
  mlf_stack_begin(&arena[16], stack_bytes);
  for (int i = 0; i < 100; i++) {
    uint8_t *const a = take(1);
    uint8_t *const b = take(16);
    uint8_t *const c = take(17);
    CHECK(a == &arena[16] && b == &arena[32] && c == &arena[48]);
    give(c);
    uint8_t *const d = take(33);
    CHECK(d == &arena[48]);
    give(d);
    give(b);
    uint8_t *const e = take(112);
    CHECK(e == &arena[32]);
    CHECK(take(0) == &arena[144]);
    give(e);
    give(a);
  }
  return 0;
}

KERNEL(stacks_one_too_much) {
  UNUSED();
  mlf_stack_begin(&arena[16], 128);
  void *const a = take(112);
  CHECK(a == &arena[16]);
  CHECK(take(17) == NULL);
  CHECK(take(16) == &arena[128]); /* what is refused takes nothing */
  CHECK(take(1) == NULL);
  return -1;
}

KERNEL(asks_of_a_stack) {
  mlf_stack_begin(&arena[16], stack_bytes);
  return asks(args, type_codes, num_args, ret_value, ret_type_code, resource);
}

/* Random nesting against a model of it: aligned, last in first out, in bounds, refused exactly when full. */
KERNEL(stacks_at_random) {
  uint8_t *blocks[64];
  uint32_t tops[64];
  uint32_t top = 0;
  int depth = 0;
  UNUSED();
  mlf_stack_begin(arena, sizeof arena);
  for (int i = 0; i < 20000; i++) {
    if (depth > 0 && (depth == 64 || random_below(2) == 0)) {
      give(blocks[--depth]);
      top = tops[depth];
      continue;
    }
    const uint32_t size = random_below(80);
    uint8_t *const got = take(size);
    if (size > sizeof arena - top) {
      CHECK(got == NULL);
      continue;
    }
    CHECK(got == arena + top && (uintptr_t)got % MLF_STACK_ALIGN == 0);
    memset(got, i & 0xFF, size);
    tops[depth] = top;
    blocks[depth++] = got;
    top += (size + 15u) & ~15u;
  }
  return 0;
}

static void test_stack(void) {
  CHECK(run_one(stacks, no_slots) == MLF_OK);
#if MLF_TRACE
  CHECK(mlf_trace.requests == 600);
  CHECK(mlf_trace.high_water == &arena[144]);
#endif
  CHECK(run_one(stacks_one_too_much, no_slots) == MLF_E_WORKSPACE);
  CHECK(mlf_context.refused_bytes == 1);
  CHECK(run_one(stacks_at_random, no_slots) == MLF_OK);
  check_granted(asks_of_a_stack, no_slots, 128);
#if MLF_TRACE
  CHECK(mlf_trace.requests == 1 && mlf_trace.high_water == &arena[144]);
#endif
  check_granted(asks_of_a_stack, no_slots, 0);
  check_refused(asks_of_a_stack, no_slots, 129);
  check_huge_is_refused(asks_of_a_stack, no_slots);
  stack_bytes = 0;
  check_granted(asks_of_a_stack, no_slots, 0);
  check_refused(asks_of_a_stack, no_slots, 1);
  stack_bytes = 128;
}
#endif

#if MLF_WORKSPACE_SLOTS && MLF_WORKSPACE_STACK
/* A stack ends with its step, and a step with slots never sees it. */
static void test_both(void) {
  static const mlf_step_t steps[4] = {{nests, NULL, nested_slots, 0},
                                      {stacks, NULL, no_slots, 0},
                                      {nests, NULL, nested_slots, 0},
                                      {asks, NULL, no_slots, 0}};
  const mlf_model_t model = {.steps = steps, .type_codes = type_codes, .num_steps = 4};
  ask_bytes = 1;
  CHECK(run(&model) == MLF_E_WORKSPACE);
  CHECK(mlf_failed_step(&model) == 3);
#if MLF_TRACE
  CHECK(mlf_trace.requests == 8600);
  CHECK(mlf_trace.high_water == &arena[160]);
#endif
}
#endif

#if !MLF_WORKSPACE_SLOTS && !MLF_WORKSPACE_STACK
static void test_neither(void) {
  check_refused(asks, no_slots, 1);
  check_refused(asks, no_slots, UINT32_MAX - 1u);
  check_huge_is_refused(asks, no_slots);
  give(NULL);
}
#endif

/* Asks in the mode that this build has. */
#if MLF_WORKSPACE_STACK && !MLF_WORKSPACE_SLOTS
#define ASKS asks_of_a_stack
#else
#define ASKS asks
#endif

/* ---- refusals and later runs -------------------------------------------------------------------- */

static void test_a_refusal_is_forgotten_by_the_next_run(void) {
  ask_bytes = 1000;
  CHECK(run_one(ASKS, no_slots) == MLF_E_WORKSPACE);
  CHECK(run_one(complains, no_slots) == MLF_E_KERNEL);
  CHECK(mlf_context.refused_bytes == 0);
}

static void test_a_kernel_that_copes_with_a_refusal(void) {
  ask_bytes = 1000;
  refusals_to_ignore = 1;
  CHECK(run_one(ASKS, no_slots) == MLF_OK);
  CHECK(refusals_to_ignore == 0);
}

#if MLF_TRACE
static void test_trace_reset(void) {
  ask_bytes = 1000;
  CHECK(run_one(ASKS, no_slots) == MLF_E_WORKSPACE);
  CHECK(mlf_trace.refused_bytes == 1000);
  CHECK(mlf_run(&nothing) == MLF_OK);
  CHECK(mlf_trace.refused_bytes == 1000); /* since reset, over runs */
  mlf_trace_reset();
  CHECK(mlf_trace.high_water == NULL && mlf_trace.requests == 0 && mlf_trace.refused_bytes == 0);
}
#endif

int main(void) {
  test_order();
#if MLF_OBSERVE
  test_ticks_of_a_step();
#endif
  test_current_step_of_neighbours();
  test_a_kernel_that_fails();
  test_set_input();
  test_busy();
  test_last_error();
  test_tensors();
  test_parallel_launch();
#if MLF_SEQUENCES && MLF_WORKSPACE_SLOTS
  test_sequence();
#endif
#if MLF_WORKSPACE_SLOTS
  test_slots();
  test_each_step_has_its_own_slots();
#endif
#if MLF_WORKSPACE_STACK
  test_stack();
#endif
#if MLF_WORKSPACE_SLOTS && MLF_WORKSPACE_STACK
  test_both();
#endif
#if !MLF_WORKSPACE_SLOTS && !MLF_WORKSPACE_STACK
  test_neither();
#endif
#if MLF_TRACE
  test_trace_reset();
#endif
  test_a_refusal_is_forgotten_by_the_next_run();
  test_a_kernel_that_copes_with_a_refusal();
  printf("%lu checks\n", check_count);
  return 0;
}
