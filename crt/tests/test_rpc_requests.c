/* SPDX-License-Identifier: Apache-2.0 */
/* Each request of the RPC server. */
#include <string.h>

#include "check.h"
#include "rpc_device.h"
#include "test_rpc.h"

/* ---- each request --------------------------------------------------------------------------- */

static void test_init(void) {
  start();
  CHECK(mlf_rpc_init(NULL, &config) == MLF_E_ARGUMENT);
  CHECK(mlf_rpc_init(rpc, NULL) == MLF_E_ARGUMENT);
  for (size_t words = 0; words < STATE_WORDS; words++) {
    config.state_words = words;
    CHECK(mlf_rpc_init(rpc, &config) == MLF_E_ARGUMENT);
  }
  start();
  config.state = NULL;
  CHECK(mlf_rpc_init(rpc, &config) == MLF_E_ARGUMENT);
  start();
  config.write = NULL;
  CHECK(mlf_rpc_init(rpc, &config) == MLF_E_ARGUMENT);
  start();
  config.set_baud = set_baud; /* without can_set_baud, and the other way round */
  CHECK(mlf_rpc_init(rpc, &config) == MLF_E_ARGUMENT);
  config.set_baud = NULL;
  config.can_set_baud = can_set_baud;
  CHECK(mlf_rpc_init(rpc, &config) == MLF_E_ARGUMENT);
  start();
  /* an application that was compiled with another MLF_RPC_MAX_PAYLOAD than the server */
  CHECK(mlf_rpc_init_sized(rpc, sizeof *rpc - 1u, &config) == MLF_E_ARGUMENT);
  CHECK(mlf_rpc_init_sized(rpc, sizeof *rpc + 1u, &config) == MLF_E_ARGUMENT);
  CHECK(mlf_rpc_init_sized(rpc, sizeof *rpc, &config) == MLF_OK);
  start();
  config.models = NULL;
  CHECK(mlf_rpc_init(rpc, &config) == MLF_E_ARGUMENT);
  config.num_models = 0;
  config.state = NULL;
  config.state_words = 0;
  config.ticks = NULL;
  config.build_id = NULL;
  config.sdk_version = NULL;
  CHECK(mlf_rpc_init(rpc, &config) == MLF_OK);
  const reply_t reply = hello(1);
  CHECK(reply.size == 18 && reply.body[3] == 0);
  CHECK(u32(&reply.body[4]) == (MLF_TRACE ? 1u : 0u) + (MLF_OBSERVE ? 32u : 0u) && u32(&reply.body[12]) == 0);
  CHECK(reply.body[16] == 0 && reply.body[17] == 0);
  CHECK(STATUS(MLF_RPC_MODEL, 0) == MLF_RPC_E_MODEL);
}

static void test_hello(void) {
  start();
  const reply_t reply = hello(SESSION);
  CHECK(reply.size == 18 + 5);
  CHECK(reply.body[0] == MLF_RPC_VERSION);
  CHECK((reply.body[1] | reply.body[2] << 8) == MLF_RPC_MAX_PAYLOAD);
  CHECK(reply.body[3] == FAKE_NUM_MODELS);
  CHECK(u32(&reply.body[4]) == (20u | (MLF_TRACE ? 1u : 0u) | (MLF_OBSERVE ? 32u : 0u)));
  CHECK(u32(&reply.body[8]) == 0xB0070001u);
  CHECK(u32(&reply.body[12]) == 1000000u);
  CHECK(reply.body[16] == 0 && reply.body[17] == 5 && memcmp(&reply.body[18], "1.2.3", 5) == 0);
  CHECK(STATUS(MLF_RPC_HELLO, 1) == MLF_RPC_E_LENGTH);
}

static void test_model(void) {
  begin();
  reply_t reply = REQUEST(MLF_RPC_MODEL, 0);
  CHECK(reply.status == 0 && reply.size == 46 + 5);
  CHECK(reply.body[0] == 0 && reply.body[31] == 31);
  CHECK(u32(&reply.body[32]) == 64 && u32(&reply.body[36]) == 16);
  CHECK(reply.body[40] == 3 && reply.body[41] == 0 && reply.body[42] == 2 && reply.body[43] == 2);
  CHECK(reply.body[44] == 0 && reply.body[45] == 5);
  reply = REQUEST(MLF_RPC_MODEL, 3);
  CHECK(reply.status == 0 && reply.size == 46 && reply.body[45] == 0);
  CHECK(STATUS(MLF_RPC_MODEL, 4) == MLF_RPC_E_MODEL);
  CHECK(STATUS(MLF_RPC_MODEL, 255) == MLF_RPC_E_MODEL);
  CHECK(request(MLF_RPC_MODEL, NULL, 0).status == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_MODEL, 0, 0) == MLF_RPC_E_LENGTH);
}

/* A name is cut to what fits, and never inside a character. */
static void test_long_names(void) {
  begin();
  reply_t reply = REQUEST(MLF_RPC_MODEL, 1);
  const size_t room = MAX_PAYLOAD - HEADER - 1 - 46;
  const size_t expected = (room < 255 ? room : 255) & ~(size_t)1;
  CHECK(reply.status == 0 && reply.size == 46 + expected);
  CHECK(reply.body[44] == (MLF_RPC_NAME_CUT | MLF_RPC_INPUTS_KEPT) && reply.body[45] == expected);
  CHECK(reply.body[46 + expected - 1] == 0xA4);
  reply = REQUEST(MLF_RPC_TENSOR, 1, 1, 0);
  CHECK(reply.status == 0 && reply.body[12] == MLF_RPC_NAME_CUT);
  CHECK(reply.size == 14u + reply.body[13] && reply.body[reply.size - 1] == 0xA4);

  static char name[400]; /* not UTF-8: cut where it must be, and bounded */
  static const mlf_model_t *models[1];
  static mlf_model_t model;
  memset(name, 0x80, sizeof name - 1);
  model.name = name;
  models[0] = &model;
  config.models = models;
  config.num_models = 1;
  CHECK(mlf_rpc_init(rpc, &config) == MLF_OK);
  hello(SESSION);
  reply = REQUEST(MLF_RPC_MODEL, 0);
  CHECK(reply.status == 0 && reply.body[45] == (room < 255 ? room : 255) - 3);
}

static void test_tensor(void) {
  begin();
  reply_t reply = REQUEST(MLF_RPC_TENSOR, 0, 0, 1);
  static const uint8_t y[] = {5, 0, 0, 0, 1, 8, 1, 1, 5, 0, 0, 0, 0, 3, 'y', ':', '0'};
  CHECK(reply.status == 0 && reply.size == sizeof y && memcmp(reply.body, y, sizeof y) == 0);
  reply = REQUEST(MLF_RPC_TENSOR, 0, 1, 0);
  static const uint8_t sum[] = {24, 0, 0, 0, 0, 32, 1, 2, 2, 0, 0, 0, 3, 0, 0, 0, 0, 3, 's', 'u', 'm'};
  CHECK(reply.status == 0 && reply.size == sizeof sum && memcmp(reply.body, sum, sizeof sum) == 0);
  CHECK(STATUS(MLF_RPC_TENSOR, 0, 0, 2) == MLF_RPC_E_TENSOR);
  CHECK(STATUS(MLF_RPC_TENSOR, 0, 1, 255) == MLF_RPC_E_TENSOR);
  CHECK(STATUS(MLF_RPC_TENSOR, 0, 2, 0) == MLF_RPC_E_TENSOR);
  CHECK(STATUS(MLF_RPC_TENSOR, 4, 0, 0) == MLF_RPC_E_MODEL);
  CHECK(STATUS(MLF_RPC_TENSOR, 0, 0) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_TENSOR, 0, 0, 0, 0) == MLF_RPC_E_LENGTH);
  reply = REQUEST(MLF_RPC_TENSOR, 3, 1, 0);
  CHECK(MAX_PAYLOAD >= 128 ? reply.status == 0 && reply.size == 8 + 80 + 2 + 4
                           : reply.status == MLF_RPC_E_CAPACITY && reply.size == 0);
  reply = REQUEST(MLF_RPC_TENSOR, 3, 1, 1);
  CHECK(reply.status == MLF_RPC_E_CAPACITY && reply.size == 0);
}

static void test_write(void) {
  begin();
  reply_t reply = REQUEST(MLF_RPC_WRITE, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5);
  CHECK(reply.status == 0 && reply.size == 4 && u32(reply.body) == 5);
  CHECK(fake_models[0]->arena[4] == 5);
  reply = REQUEST(MLF_RPC_WRITE, 0, 0, 6, 0, 0, 0, 9);
  CHECK(reply.status == MLF_RPC_E_GAP && reply.size == 4 && u32(reply.body) == 5);
  reply = REQUEST(MLF_RPC_WRITE, 0, 0, 3, 0, 0, 0, 8);
  CHECK(reply.status == 0 && u32(reply.body) == 5 && fake_models[0]->arena[3] == 8);
  reply = REQUEST(MLF_RPC_WRITE, 0, 0, 5, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7);
  CHECK(reply.status == 0 && u32(reply.body) == 12);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 12, 0, 0, 0) == 0);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 12, 0, 0, 0, 1) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 13, 0, 0, 0) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 11, 0, 0, 0, 1, 2) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 1) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 2, 0, 0, 0, 0, 1) == MLF_RPC_E_TENSOR);
  CHECK(STATUS(MLF_RPC_WRITE, 3, 0, 0, 0, 0, 0, 1) == MLF_RPC_E_TENSOR);
  CHECK(STATUS(MLF_RPC_WRITE, 9, 0, 0, 0, 0, 0, 1) == MLF_RPC_E_MODEL);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 0, 0, 0) == MLF_RPC_E_LENGTH);
}

static void test_run(void) {
  begin();
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == MLF_E_STATE);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0) == 0);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4) == 0);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == MLF_E_STATE); /* a byte is missing */
  CHECK(STATUS(MLF_RPC_WRITE, 0, 1, 4, 0, 0, 0, 5) == 0);
  CHECK(STATUS(MLF_RPC_RUN, 0, 2, 0, 0, 0) == MLF_E_ARGUMENT);
  CHECK(STATUS(MLF_RPC_RUN, 0, 0, 0, 0, 0) == MLF_E_ARGUMENT);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 24, 0) == MLF_E_STATE);
  CHECK(STATUS(MLF_RPC_READ, 0, 0, 0, 0, 0, 0, 0, 12, 0) == 0);
  const uint32_t before = fake_runs;
  reply_t reply = REQUEST(MLF_RPC_RUN, 0, 1, 0, 0, 0);
  CHECK(reply.status == 0 && reply.size == 16 && fake_runs == before + 1);
  CHECK(u32(reply.body) == UINT32_MAX && u32(&reply.body[4]) == 1);
  CHECK(u32(&reply.body[8]) == FAKE_TICKS_PER_CALL && u32(&reply.body[12]) == 0);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == MLF_E_STATE); /* the inputs are used up */
  CHECK(STATUS(MLF_RPC_READ, 0, 0, 0, 0, 0, 0, 0, 12, 0) == MLF_E_STATE);
  reply = REQUEST(MLF_RPC_READ, 0, 1, 1, 0, 0, 0, 0, 5, 0);
  CHECK(reply.status == 0 && reply.size == 5 && memcmp(reply.body, "\1\2\3\4\5", 5) == 0);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 0, 0, 0, 0) == 0); /* no byte, no harm */
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 1, 0, 0, 0, 0, 5, 0) == 0);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 0, 0, 0, 0, 1) == 0); /* may have hit an output */
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 1, 0, 0, 0, 0, 5, 0) == MLF_E_STATE);
  CHECK(STATUS(MLF_RPC_RUN, 4, 1, 0, 0, 0) == MLF_RPC_E_MODEL);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0, 0) == MLF_RPC_E_LENGTH);
}

static void test_run_fails(void) {
  begin();
  write_twins(0xEE);
  reply_t reply = REQUEST(MLF_RPC_RUN, 0, 1, 0, 0, 0);
  CHECK(reply.status == MLF_E_KERNEL && reply.size == 16);
  CHECK(u32(reply.body) == 2 && u32(&reply.body[4]) == 0);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 1, 0) == MLF_E_STATE);
  write_twins(0xDD);
  reply = REQUEST(MLF_RPC_RUN, 0, 1, 0, 0, 0);
  CHECK(reply.status == MLF_E_WORKSPACE && u32(reply.body) == 1);
  reply = stats(0);
#if MLF_TRACE
  CHECK(u32(&reply.body[5]) == 60 && u32(&reply.body[13]) == 4096);
#endif
}

/* A failed run leaves no outputs of the one before, and kept inputs as they are. */
static void test_kept_run_fails(void) {
  begin();
  CHECK(STATUS(MLF_RPC_WRITE, 2, 0, 0, 0, 0, 0, 1, 2, 3, 4) == 0);
  CHECK(STATUS(MLF_RPC_RUN, 2, 1, 0, 0, 0) == 0);
  CHECK(STATUS(MLF_RPC_WRITE, 2, 0, 0, 0, 0, 0, 0xEE) == 0);
  CHECK(STATUS(MLF_RPC_READ, 2, 1, 0, 0, 0, 0, 0, 4, 0) == 0);
  const reply_t reply = REQUEST(MLF_RPC_RUN, 2, 5, 0, 0, 0);
  CHECK(reply.status == MLF_E_KERNEL && u32(reply.body) == 0 && u32(&reply.body[4]) == 0);
  CHECK(STATUS(MLF_RPC_READ, 2, 1, 0, 0, 0, 0, 0, 4, 0) == MLF_E_STATE);
  CHECK(STATUS(MLF_RPC_READ, 2, 0, 0, 0, 0, 0, 0, 4, 0) == 0);
}

/* Kept inputs: many runs, partial rewrites, outputs that outlive a write. */
static void test_kept(void) {
  begin();
  uint8_t body[70] = {1, 0};
  const size_t piece = MAX_PAYLOAD < 80 ? 40 : 52;
  CHECK(STATUS(MLF_RPC_RUN, 1, 1, 0, 0, 0) == MLF_E_STATE);
  for (size_t offset = 0; offset < 520; offset += piece) {
    body[2] = (uint8_t)offset;
    body[3] = (uint8_t)(offset >> 8);
    memset(&body[6], (int)(offset / piece), piece);
    CHECK(request(MLF_RPC_WRITE, body, 6 + piece).status == 0);
  }
  const uint32_t before = fake_runs;
  reply_t reply = REQUEST(MLF_RPC_RUN, 1, 7, 0, 0, 0);
  CHECK(reply.status == 0 && u32(&reply.body[4]) == 7 && fake_runs == before + 7);
  CHECK(STATUS(MLF_RPC_WRITE, 1, 0, 0, 1, 0, 0, 77) == 0);
  reply = REQUEST(MLF_RPC_READ, 1, 1, 0, 4, 2, 0, 0, 4, 0); /* 516, 4 */
  CHECK(reply.status == 0 && reply.size == 4 && reply.body[3] == (reply.body[2] | 0x80));
  CHECK(STATUS(MLF_RPC_RUN, 1, 1, 0, 0, 0) == 0);
  reply = REQUEST(MLF_RPC_READ, 1, 1, 0, 0, 1, 0, 0, 1, 0);
  CHECK(reply.status == 0 && reply.body[0] == 77);
}

static void test_read(void) {
  begin();
  write_twins(1);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == 0);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 1, 5, 0, 0, 0, 0, 0) == 0);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 1, 5, 0, 0, 0, 1, 0) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 1, 6, 0, 0, 0, 0, 0) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 1, 0, 0, 0, 0, 0xFF, 0xFF) == MLF_RPC_E_RANGE);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 2, 0, 0, 0, 0, 0, 0) == MLF_RPC_E_TENSOR);
  CHECK(STATUS(MLF_RPC_READ, 0, 3, 0, 0, 0, 0, 0, 0, 0) == MLF_RPC_E_TENSOR);
  CHECK(STATUS(MLF_RPC_READ, 7, 1, 0, 0, 0, 0, 0, 0, 0) == MLF_RPC_E_MODEL);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 0) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_RUN, 3, 1, 0, 0, 0) == 0); /* no inputs, and an output of no bytes */
  CHECK(STATUS(MLF_RPC_READ, 3, 1, 0, 0, 0, 0, 0, 0, 0) == 0);
}

/* READ fills the largest reply exactly, and says so when asked for a byte more. */
static void test_read_capacity(void) {
  begin();
  uint8_t body[46] = {1, 0};
  for (size_t offset = 0; offset < 520; offset += 40) {
    body[2] = (uint8_t)offset;
    body[3] = (uint8_t)(offset >> 8);
    CHECK(request(MLF_RPC_WRITE, body, sizeof body).status == 0);
  }
  const size_t most = MAX_PAYLOAD - HEADER - 1 < 520 ? MAX_PAYLOAD - HEADER - 1 : 520;
  reply_t reply = REQUEST(MLF_RPC_READ, 1, 0, 0, 0, 0, 0, 0, (uint8_t)most, (uint8_t)(most >> 8));
  CHECK(reply.status == 0 && reply.size == most);
  if (most < 520) {
    reply = REQUEST(MLF_RPC_READ, 1, 0, 0, 0, 0, 0, 0, (uint8_t)(most + 1), (uint8_t)((most + 1) >> 8));
    CHECK(reply.status == MLF_RPC_E_CAPACITY && reply.size == 0);
  }
}

static void test_stats_and_prepare(void) {
  begin();
  reply_t reply = stats(0);
  CHECK(reply.body[0] == 0 && u32(&reply.body[1]) == 0 && u32(&reply.body[17]) == 0);
  for (int i = 0; i < 2; i++) {
    const uint8_t pattern = i == 0 ? 0xA5 : 50; /* 50 is the last byte that the run writes */
    CHECK(REQUEST(MLF_RPC_PREPARE, 0, pattern).size == 0);
    CHECK(fake_models[0]->arena[63] == pattern && fake_models[0]->arena[0] == pattern);
    reply = stats(0);
    CHECK(reply.body[0] == 1 && u32(&reply.body[1]) == 0);
    CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == MLF_E_STATE);
    write_twins(1);
    CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == 0);
    reply = stats(0);
    CHECK(u32(&reply.body[1]) == (i == 0 ? 53u : 52u));
#if MLF_TRACE
    CHECK(u32(&reply.body[5]) == 60 && u32(&reply.body[9]) == 2 && u32(&reply.body[13]) == 0);
#else
    CHECK(u32(&reply.body[5]) == 0 && u32(&reply.body[9]) == 0 && u32(&reply.body[13]) == 0);
#endif
  }
  CHECK(STATUS(MLF_RPC_PREPARE, 3, 1) == 0); /* a model without an arena */
  CHECK(u32(&stats(3).body[1]) == 0);
  CHECK(STATUS(MLF_RPC_PREPARE, 4, 1) == MLF_RPC_E_MODEL);
  CHECK(STATUS(MLF_RPC_PREPARE, 0) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_PREPARE, 0, 1, 1) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_STATS, 4) == MLF_RPC_E_MODEL);
  CHECK(request(MLF_RPC_STATS, NULL, 0).status == MLF_RPC_E_LENGTH);
}

static uint16_t u16(const uint8_t *data) { return (uint16_t)(data[0] | data[1] << 8); }

static void write_guard(void) { fake_guards[1][15] ^= 1u; }

static void test_guards(void) {
  begin();
  CHECK(stats(0).body[29] == 0 && stats(0).body[31] == 0); /* none */
  CHECK(STATUS(MLF_RPC_RUN, 3, 1, 0, 0, 0) == 0);
  reply_t reply = stats(3); /* not painted: not compared */
  CHECK(u16(&reply.body[29]) == 2 && u16(&reply.body[31]) == 0);
  CHECK(STATUS(MLF_RPC_PREPARE, 3, 0xA5) == 0);
  CHECK(fake_guards[0][0] == 0xA5 && fake_guards[1][15] == 0xA5);
  CHECK(STATUS(MLF_RPC_RUN, 3, 1, 0, 0, 0) == 0);
  CHECK(u16(&stats(3).body[31]) == 0);
  fake_on_run = write_guard;
  CHECK(STATUS(MLF_RPC_RUN, 3, 1, 0, 0, 0) == 0);
  CHECK(u16(&stats(3).body[31]) == 2);
  CHECK(STATUS(MLF_RPC_RUN, 3, 1, 0, 0, 0) == 0); /* written back: it stays known */
  fake_on_run = NULL;
  CHECK(u16(&stats(3).body[31]) == 2);
  fake_guards[0][0] = 0;
  CHECK(STATUS(MLF_RPC_PREPARE, 3, 0x5A) == 0);
  CHECK(u16(&stats(3).body[31]) == 0);
  fake_guards[0][0] = 0;
  CHECK(STATUS(MLF_RPC_RUN, 3, 1, 0, 0, 0) == 0);
  CHECK(u16(&stats(3).body[31]) == 1);
}

static void test_stack(void) {
  begin();
  config.stack_low = stack;
  config.stack_top = &stack[sizeof stack];
  config.stack_pointer = stack_pointer;
  reply_t reply = hello(2);
  CHECK((u32(&reply.body[4]) & MLF_RPC_CAN_STACK) != 0);
  const size_t painted = stack_at - MLF_RPC_STACK_MARGIN;
  memset(stack, 0, sizeof stack);
  CHECK(u32(&stats(0).body[21]) == 0);
  CHECK(STATUS(MLF_RPC_PREPARE, 0, 0xA5) == 0);
  for (size_t i = 0; i < sizeof stack; i++) {
    CHECK(stack[i] == (i < painted ? 0xA5 : 0));
  }
  reply = stats(0);
  CHECK(reply.body[0] == 3 && u32(&reply.body[17]) == 256);
  CHECK(u32(&reply.body[21]) == 256 - painted);
  stack[30] = 1;
  CHECK(u32(&stats(0).body[21]) == 226);
  stack[0] = 1; /* overflown */
  CHECK(u32(&stats(0).body[21]) == 256);
  stack_at = 10; /* hardly any left: nothing is painted, and nothing below the region is */
  memset(stack, 0, sizeof stack);
  CHECK(STATUS(MLF_RPC_PREPARE, 0, 0xA5) == 0);
  CHECK(stack[0] == 0 && stack[9] == 0 && u32(&stats(0).body[21]) == 256);
  stack_at = 200;
  config.stack_top = &stack[150]; /* on another stack than the one to measure */
  memset(stack, 0, sizeof stack);
  hello(7);
  CHECK(STATUS(MLF_RPC_PREPARE, 0, 0xA5) == 0);
  CHECK(stack[0] == 0 && stack[199] == 0 && stats(0).body[0] == 1);
  config.stack_low = &stack[210];
  CHECK(STATUS(MLF_RPC_PREPARE, 0, 0xA5) == 0); /* an impossible region, and an empty one */
  CHECK(stack[0] == 0 && u32(&stats(0).body[17]) == 0);
  config.stack_top = config.stack_low;
  CHECK(u32(&stats(0).body[17]) == 0);
  hello(3); /* another session: painted no more */
  CHECK(stats(0).body[0] == 0);
}

/* Models that share memory take the inputs, outputs and measurements from each other. */
static void test_shared_arena(void) {
  begin();
  write_twins(1);
  CHECK(STATUS(MLF_RPC_WRITE, 2, 0, 0, 0, 0, 0, 1, 2, 3, 4) == 0);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == MLF_E_STATE);
  CHECK(STATUS(MLF_RPC_RUN, 2, 1, 0, 0, 0) == 0);
  CHECK(STATUS(MLF_RPC_READ, 2, 1, 0, 0, 0, 0, 0, 4, 0) == 0);
  write_twins(1);
  CHECK(STATUS(MLF_RPC_READ, 2, 1, 0, 0, 0, 0, 0, 4, 0) == MLF_E_STATE);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == 0);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 4, 0) == 0);
  CHECK(STATUS(MLF_RPC_PREPARE, 2, 0) == 0);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 4, 0) == MLF_E_STATE);
}

/* ---- extensions ----------------------------------------------------------------------------- */

static uint32_t extension_bytes;

/* Appends `extension_bytes` bytes and returns the opcode as a negative status. */
static int32_t extend(void *ctx, uint8_t opcode, const uint8_t *body, size_t size, mlf_rpc_out_t *out) {
  CHECK(ctx == &extension_bytes && size == 1 && body[0] == 7);
  for (uint32_t i = 0; i < extension_bytes; i++) {
    mlf_rpc_put_u8(out, (uint8_t)i);
  }
  return -(int32_t)opcode;
}

static void test_extension(void) {
  begin();
  CHECK(STATUS(MLF_RPC_EXTENSION, 7) == MLF_RPC_E_OPCODE);
  config.extension = extend;
  config.extension_ctx = &extension_bytes;
  const uint32_t most = MLF_RPC_MAX_PAYLOAD - MLF_RPC_HEADER_SIZE - 1u;
  for (extension_bytes = 0; extension_bytes <= most + 2u; extension_bytes++) {
    const reply_t reply = REQUEST(MLF_RPC_EXTENSION + 3u, 7);
    if (extension_bytes <= most) {
      CHECK(reply.status == -(int32_t)MLF_RPC_EXTENSION - 3 && reply.size == extension_bytes);
      CHECK(extension_bytes == 0 || reply.body[extension_bytes - 1u] == (uint8_t)(extension_bytes - 1u));
    } else {
      CHECK(reply.status == MLF_RPC_E_CAPACITY && reply.size == 0);
    }
  }
}

/* ---- the build id --------------------------------------------------------------------------- */

static void test_build_id(void) {
  begin();
  const reply_t reply = request(MLF_RPC_BUILD, NULL, 0);
  CHECK(reply.status == 0 && reply.size == sizeof build_id);
  CHECK(memcmp(reply.body, build_id, sizeof build_id) == 0);
  CHECK(STATUS(MLF_RPC_BUILD, 0) == MLF_RPC_E_LENGTH);
  size_t (*const unknown[])(void *, const uint8_t **) = {NULL, no_build_id};
  for (size_t i = 0; i < 2; i++) {
    config.build_id = unknown[i];
    CHECK(request(MLF_RPC_BUILD, NULL, 0).status == MLF_RPC_E_OPCODE);
    CHECK((u32(&hello(SESSION).body[4]) & MLF_RPC_CAN_BUILD) == 0);
  }
}

unsigned long test_requests(void) {
  test_init();
  test_hello();
  test_model();
  test_long_names();
  test_tensor();
  test_write();
  test_run();
  test_run_fails();
  test_kept_run_fails();
  test_kept();
  test_read();
  test_read_capacity();
  test_stats_and_prepare();
  test_guards();
  test_stack();
  test_shared_arena();
  test_extension();
  test_build_id();
  return check_count;
}
