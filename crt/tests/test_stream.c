/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of an input that come one after the other: order, room in the ring, and what errors leave unchanged. The model's
 * first step adds up windows of three rows; the second one doubles the sum.
 */
#include <mlf/mlf_adapter.h>
#include <string.h>

#include "../src/mlf_internal.h"
#include "check.h"

#define ROWS 7u
#define ROW_BYTES 4u
#define RING_ROWS 3u
#define GUARD 0xA5u

/* As a generated kernel: rows that came, the first one in the ring, the next window. */
static struct {
  uint32_t counters[4];
  uint8_t ring[RING_ROWS * ROW_BYTES];
  uint8_t guard[8];
} workspace;
static uint32_t sum, result;
static uint8_t phase;
static int computing;
static const mlf_model_t model;

static void compute(void) {
  uint32_t *const came = &workspace.counters[0], *const low = &workspace.counters[1];
  computing++;
  CHECK(mlf_running_step(&model) == 0);
  CHECK(mlf_begin(&model) == MLF_E_BUSY && mlf_rows_done(&model, 1) != MLF_OK);
  while (workspace.counters[2] + 2 < *came) {
    for (uint32_t i = 0; i < 3 * ROW_BYTES; i++) {
      sum += workspace.ring[(workspace.counters[2] - *low) * ROW_BYTES + i];
    }
    workspace.counters[2]++;
    memmove(workspace.ring, &workspace.ring[ROW_BYTES], sizeof workspace.ring - ROW_BYTES);
    ++*low;
  }
}

static const mlf_stream_t stream = {
    .counters = workspace.counters,
    .ring = workspace.ring,
    .compute = compute,
    .phase = &phase,
    .rows = ROWS,
    .row_bytes = ROW_BYTES,
    .ring_rows = RING_ROWS,
    .counter_bytes = sizeof workspace.counters,
};

#if MLF_SEQUENCES
static int32_t sequence(const void *volatile *running, const uint8_t *first) {
  if (mlf_stream_take(&stream) != 0) {
    return 1;
  }
  *running = first + 1;
  result = 2 * sum;
  return 0;
}

static const mlf_model_t model = {.name = "rows", .sequence = sequence, .num_steps = 2, .stream = &stream};
static const mlf_model_t whole = {.name = "whole", .sequence = sequence, .num_steps = 2};
#else
static int32_t take(void *args, int32_t *codes, int32_t count, void *value, int32_t *code, void *resource) {
  (void)args, (void)codes, (void)count, (void)value, (void)code, (void)resource;
  return mlf_stream_take(&stream);
}

static int32_t twice(void *args, int32_t *codes, int32_t count, void *value, int32_t *code, void *resource) {
  (void)args, (void)codes, (void)count, (void)value, (void)code, (void)resource;
  result = 2 * sum;
  return 0;
}

static const mlf_slot_t no_slots[1] = {MLF_SLOT_END};
static const mlf_step_t steps[2] = {{take, NULL, no_slots, 0}, {twice, NULL, no_slots, 0}};
static const int32_t codes[1] = {7};
static const mlf_model_t model = {
    .name = "rows", .steps = steps, .type_codes = codes, .num_steps = 2, .stream = &stream};
static const mlf_model_t whole = {.name = "whole", .steps = steps, .type_codes = codes, .num_steps = 2};
#endif

static uint8_t image[ROWS * ROW_BYTES];

static uint32_t expected(void) {
  uint32_t found = 0;
  for (uint32_t window = 0; window + 2 < ROWS; window++) {
    for (uint32_t i = 0; i < 3 * ROW_BYTES; i++) {
      found += image[window * ROW_BYTES + i];
    }
  }
  return 2 * found;
}

static void draw(void) {
  for (uint32_t i = 0; i < sizeof image; i++) {
    image[i] = (uint8_t)random_below(256);
  }
}

/* Whatever is refused leaves everything as it was. */
static void refused(mlf_status_t status, mlf_status_t wanted, const void *before) {
  CHECK(status == wanted);
  CHECK(memcmp(before, &workspace, sizeof workspace) == 0);
}

/* Rows one by one, or as many as fit; with attempts in between that are refused. */
static void stream_image(uint32_t most, int attempts) {
  uint8_t before[sizeof workspace];
  uint32_t at = 0;
  sum = 0;
  CHECK(mlf_begin(&model) == MLF_OK);
  while (at < ROWS) {
    const uint32_t room = mlf_rows_free(&model);
    const uint32_t now = room < most ? room : most;
    CHECK(room >= 1 && room <= RING_ROWS && room <= ROWS - at);
    memcpy(mlf_row(&model), &image[at * ROW_BYTES], now * ROW_BYTES);
    if (attempts) {
      memcpy(before, &workspace, sizeof workspace);
      refused(mlf_rows_done(&model, 0), MLF_E_ARGUMENT, before);
      refused(mlf_rows_done(&model, room + 1), MLF_E_ARGUMENT, before);
      refused(mlf_rows_done(&model, UINT32_MAX), MLF_E_ARGUMENT, before);
      refused(mlf_feed(&model, image, ROWS - at + 1), MLF_E_ARGUMENT, before);
      refused(mlf_finish(&model), MLF_E_STATE, before);
      CHECK(mlf_run(&model) == MLF_E_KERNEL && mlf_failed_step(&model) == 0);
      CHECK(memcmp(before, &workspace, sizeof workspace) == 0);
    }
    CHECK(mlf_rows_done(&model, now) == MLF_OK);
    at += now;
  }
  CHECK(mlf_row(&model) == NULL && mlf_rows_free(&model) == 0);
  memcpy(before, &workspace, sizeof workspace);
  refused(mlf_rows_done(&model, 1), MLF_E_STATE, before);
  refused(mlf_feed(&model, image, 1), MLF_E_STATE, before);
  CHECK(mlf_finish(&model) == MLF_OK);
  CHECK(result == expected());
  CHECK(mlf_finish(&model) == MLF_E_STATE); /* the rows count for one run */
}

static void test_wrong_order(void) {
  CHECK(mlf_row(&model) == NULL && mlf_rows_free(&model) == 0);
  CHECK(mlf_rows_done(&model, 1) == MLF_E_STATE);
  CHECK(mlf_feed(&model, image, 1) == MLF_E_STATE);
  CHECK(mlf_finish(&model) == MLF_E_STATE);
  CHECK(mlf_run(&model) == MLF_E_KERNEL);
  CHECK(computing == 0);
}

static void test_a_new_beginning_drops_rows(void) {
  CHECK(mlf_begin(&model) == MLF_OK);
  CHECK(mlf_feed(&model, image, 3) == MLF_OK);
  draw();
  stream_image(1, 0);
}

static void test_memory_of_the_caller(void) {
  uint8_t copy[sizeof image];
  memcpy(copy, image, sizeof image);
  sum = 0;
  CHECK(mlf_run_rows(&model, image) == MLF_OK && result == expected());
  CHECK(memcmp(copy, image, sizeof image) == 0);
  sum = 0;
  CHECK(mlf_begin(&model) == MLF_OK);
  CHECK(mlf_feed(&model, image, 0) == MLF_OK);
  CHECK(mlf_feed(&model, image, 4) == MLF_OK);
  CHECK(mlf_feed(&model, &image[4 * ROW_BYTES], ROWS - 4) == MLF_OK);
  CHECK(mlf_finish(&model) == MLF_OK && result == expected());
}

static void test_a_running_model(void) {
  uint8_t before[sizeof workspace];
  CHECK(mlf_begin(&model) == MLF_OK);
  memcpy(before, &workspace, sizeof workspace);
  mlf_context.step = &whole; /* in another context */
  refused(mlf_begin(&model), MLF_E_BUSY, before);
  refused(mlf_rows_done(&model, 1), MLF_E_BUSY, before);
  refused(mlf_feed(&model, image, 1), MLF_E_BUSY, &workspace);
  refused(mlf_run_rows(&model, image), MLF_E_BUSY, &workspace);
  mlf_context.step = NULL;
  CHECK(mlf_feed(&model, image, ROWS) == MLF_OK);
  mlf_context.step = &whole;
  CHECK(mlf_finish(&model) == MLF_E_BUSY);
  mlf_context.step = NULL;
  CHECK(mlf_finish(&model) == MLF_OK);
}

static void test_a_model_without_a_stream(void) {
  CHECK(mlf_begin(&whole) == MLF_E_STATE && mlf_rows_done(&whole, 1) == MLF_E_STATE);
  CHECK(mlf_finish(&whole) == MLF_E_STATE && mlf_run_rows(&whole, image) == MLF_E_STATE);
  CHECK(mlf_row(&whole) == NULL && mlf_rows_free(&whole) == 0);
}

int main(void) {
  memset(workspace.guard, GUARD, sizeof workspace.guard);
  test_wrong_order();
  for (uint32_t most = 1; most <= RING_ROWS; most++) {
    draw();
    stream_image(most, most & 1);
    stream_image(most, 1);
  }
  test_a_new_beginning_drops_rows();
  test_memory_of_the_caller();
  test_a_running_model();
  test_a_model_without_a_stream();
  for (uint32_t i = 0; i < sizeof workspace.guard; i++) {
    CHECK(workspace.guard[i] == GUARD);
  }
  printf("%lu checks\n", check_count);
  return 0;
}
