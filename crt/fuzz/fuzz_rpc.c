/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the RPC server with its extension for parameters. The first byte chooses:
 *   bit 0: the rest is what comes over the line, byte by byte;
 *   else: the rest is requests, each a byte with its size, a byte of options and its payload; they are put
 *   into good frames (options: 1 keeps the sequence number as it is, 2 keeps the version, 4 repeats the
 *   frame, 8 damages one byte of it, 16 keeps the session).
 * What the server sends must be good frames no larger than it promised.
 */
#include <stdlib.h>
#include <string.h>

#include "mlf_params_rpc.h"
#include "mlf_rpc.h"
#include "mlf_store_ram.h"
#include "tiny_model.h"

#define SLOT MLF_STORE_SLOT_BYTES(TINY_PARAMS, MLF_STORE_RAM_ERASE_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t graph[TINY_GRAPH] __attribute__((aligned(16)));
static uint8_t image_params[TINY_BLOB] __attribute__((aligned(16)));
static uint8_t arena[TINY_ARENA] __attribute__((aligned(16)));
static uint64_t tables[TINY_WORDS];
static uint8_t slots[2u * SLOT] __attribute__((aligned(16)));
static mlf_model_t model;
static uint32_t state[MLF_RPC_STATE_WORDS(1u, 1u)];
static uint8_t stack[256];
static uint64_t now;

static const mlf_store_driver_t driver = MLF_STORE_RAM_DRIVER(slots, SLOT);
static mlf_dynamic_config_t dynamic_config = {
    .graph =
        {
            .kernels = tiny_kernels,
            .type_codes = tiny_type_codes,
            .arena = arena,
            .memory = tables,
            .memory_bytes = sizeof tables,
            .arena_bytes = TINY_ARENA,
            .num_kernels = 2,
            .num_type_codes = 3,
        },
    .graph_blob = graph,
    .params_blob = image_params,
    .driver = &driver,
    .model = &model,
    .params_blob_bytes = TINY_BLOB,
};
static mlf_dynamic_t dynamic;
static mlf_dynamic_t *const dynamics[1] = {&dynamic};
static mlf_params_rpc_t params_rpc = {dynamics, 1};
static const mlf_model_t *const models[1] = {&model};

/* What the two steps take and give; the rest is the graph's. */
static const mlf_argument_t arguments[5] = {{arena, TINY_IO},
                                            {&image_params[MLF_PARAMS_HEADER_BYTES], TINY_PARAMS},
                                            {&arena[16], TINY_IO},
                                            {&arena[16], TINY_IO},
                                            {&arena[32], TINY_IO}};
static const mlf_observed_t observed[2] = {{&arguments[0], 2, 1, 0}, {&arguments[3], 1, 1, 1}};

static void require(int condition) {
  if (!condition) {
    abort();
  }
}

static void check_reply(void *ctx, const uint8_t *data, size_t size) {
  uint8_t buffer[MLF_FRAME_RX_SIZE(MLF_RPC_MAX_PAYLOAD)];
  mlf_frame_rx_t rx;
  size_t good = 0;
  (void)ctx;
  mlf_frame_rx_init(&rx, buffer, sizeof buffer);
  for (size_t i = 0; i < size; i++) {
    const mlf_frame_event_t event = mlf_frame_rx_push(&rx, data[i]);
    require(event != MLF_FRAME_DROPPED);
    good += event == MLF_FRAME_READY;
    require(event != MLF_FRAME_READY || (i == size - 1u && rx.size > MLF_RPC_PREFIX_SIZE + 2u));
  }
  require(good == 1 && (buffer[1] & MLF_RPC_REPLY) != 0);
}

static uint64_t ticks(void *ctx) {
  (void)ctx;
  return now += 1000;
}

static uint8_t *stack_pointer(void *ctx) {
  (void)ctx;
  return &stack[200];
}

static const mlf_rpc_config_t rpc_config = {
    .models = models,
    .num_models = 1,
    .state = state,
    .state_words = sizeof state / sizeof state[0],
    .write = check_reply,
    .extension = mlf_params_rpc_handle,
    .extension_ctx = &params_rpc,
    .ticks = ticks,
    .ticks_hz = 1000000,
    .stack_low = stack,
    .stack_top = &stack[sizeof stack],
    .stack_pointer = stack_pointer,
    .boot_nonce = 1,
    .sdk_version = "0",
};

static void send(mlf_rpc_t *rpc, const uint8_t *payload, size_t size, uint8_t options) {
  uint8_t frame[MLF_FRAME_TX_SIZE(256)];
  const size_t frame_bytes = mlf_frame_encode(frame, sizeof frame, payload, size);
  if ((options & 8u) != 0) {
    frame[options % frame_bytes] = (uint8_t)(frame[options % frame_bytes] ^ options);
  }
  mlf_rpc_feed(rpc, frame, frame_bytes);
  if ((options & 4u) != 0) {
    mlf_rpc_feed(rpc, frame, frame_bytes);
  }
}

static void send_requests(mlf_rpc_t *rpc, const uint8_t *data, size_t size) {
  static const uint8_t hello[MLF_RPC_HEADER_SIZE] = {MLF_RPC_VERSION, MLF_RPC_HELLO, 0, 0, 1, 2, 3, 4};
  uint16_t sequence = 1;
  uint8_t payload[256];
  send(rpc, hello, sizeof hello, 0);
  for (; size >= 2; sequence++) {
    const size_t count = data[0] < size - 2u ? data[0] : size - 2u;
    const uint8_t options = data[1];
    memcpy(payload, &data[2], count);
    if (count >= MLF_RPC_HEADER_SIZE && (options & 2u) == 0) {
      payload[0] = MLF_RPC_VERSION;
    }
    if (count >= MLF_RPC_HEADER_SIZE && (options & 1u) == 0) {
      payload[2] = (uint8_t)sequence;
      payload[3] = (uint8_t)(sequence >> 8);
    }
    if (count >= MLF_RPC_HEADER_SIZE && (options & 16u) == 0) {
      memcpy(&payload[MLF_RPC_PREFIX_SIZE], &hello[MLF_RPC_PREFIX_SIZE], 4);
    }
    /* a run of 2^32 inferences is no error, but it takes its time */
    if (count == MLF_RPC_HEADER_SIZE + 5u && payload[1] == MLF_RPC_RUN) {
      memset(&payload[MLF_RPC_HEADER_SIZE + 2u], 0, 3);
    }
    send(rpc, payload, count, options);
    data += 2u + count;
    size -= 2u + count;
  }
}

/* The model as it is after a boot with blank slots: booted once, then copied. */
static void reset(void) {
  static mlf_dynamic_t first_dynamic;
  static mlf_model_t first_model;
  static uint64_t first_tables[TINY_WORDS];
  memset(slots, 0xFF, sizeof slots);
  memset(state, 0xA5, sizeof state);
  if (dynamic_config.graph_blob_bytes == 0) {
    dynamic_config.graph_blob_bytes = tiny_graph(graph);
    tiny_params(image_params, &graph[56], 1);
    require(mlf_dynamic_boot(&dynamic, &dynamic_config) == MLF_BLOB_OK);
    memcpy(&first_dynamic, &dynamic, sizeof dynamic);
    memcpy(&first_model, &model, sizeof model);
    memcpy(first_tables, tables, sizeof tables);
  }
  memcpy(&dynamic, &first_dynamic, sizeof dynamic);
  memcpy(&model, &first_model, sizeof model);
  model.observed = observed;
  memcpy(tables, first_tables, sizeof tables);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mlf_rpc_t rpc;
  if (size < 1) {
    return 0;
  }
  reset();
  require(mlf_rpc_init(&rpc, &rpc_config) == MLF_OK);
  if ((data[0] & 1u) != 0) {
    mlf_rpc_feed(&rpc, &data[1], size - 1u);
  } else {
    send_requests(&rpc, &data[1], size - 1u);
  }
  return 0;
}
