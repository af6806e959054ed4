/* SPDX-License-Identifier: Apache-2.0 */
/* The RPC server against fake models. Usage: test_rpc [VECTORS], lines of "name send receive" in
 * hexadecimal ("-" for nothing), one conversation. */
#include <string.h>

#include "check.h"
#include "fake_models.h"
#include "mlf_rpc.h"

#define MAX_PAYLOAD ((size_t)MLF_RPC_MAX_PAYLOAD)
#define HEADER ((size_t)MLF_RPC_HEADER_SIZE)
#define SESSION 0x11223344u
#define STATE_WORDS MLF_RPC_STATE_WORDS(FAKE_TOTAL_INPUTS, FAKE_NUM_MODELS)

/* ---- a device ------------------------------------------------------------------------------- */

static uint8_t sent[1 << 20]; /* all that the server wrote */
static size_t sent_size;
static uint8_t stack[256];
static size_t stack_at = 200;

static mlf_rpc_t *rpc; /* on the heap, and its state: the sanitizer sees each byte too far */
static uint32_t *state;
static mlf_rpc_config_t config;
static uint16_t sequence;
static uint32_t session; /* of the next request */

static void take(void *ctx, const uint8_t *data, size_t size) {
  CHECK(ctx == &sent_size);
  CHECK(size <= sizeof sent - sent_size);
  memcpy(&sent[sent_size], data, size);
  sent_size += size;
}

/* What the server asked the line for. */
static uint32_t baud_now;
static int baud_changes;

static int can_set_baud(void *ctx, uint32_t baud) {
  CHECK(ctx == &sent_size);
  return baud <= 1000000u;
}

static void set_baud(void *ctx, uint32_t baud) {
  CHECK(ctx == &sent_size);
  baud_now = baud;
  baud_changes++;
}

static uint64_t ticks(void *ctx) {
  CHECK(ctx == &sent_size);
  return fake_ticks(NULL);
}

static const uint8_t build_id[] = {0xB0, 0xB1, 0xB2, 0, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9};

static size_t take_build_id(void *ctx, const uint8_t **out_id) {
  CHECK(ctx == &sent_size);
  *out_id = build_id;
  return sizeof build_id;
}

static size_t no_build_id(void *ctx, const uint8_t **out_id) {
  (void)ctx;
  (void)out_id;
  return 0;
}

static uint8_t *stack_pointer(void *ctx) {
  CHECK(ctx == &sent_size);
  return &stack[stack_at];
}

static void start(void) {
  free(rpc);
  free(state);
  rpc = malloc(sizeof *rpc);
  state = malloc(STATE_WORDS * sizeof *state);
  CHECK(rpc != NULL && state != NULL);
  memset(rpc, 0xEE, sizeof *rpc);
  memset(state, 0, STATE_WORDS * sizeof *state);
  memset(&config, 0, sizeof config);
  config.models = fake_models;
  config.num_models = FAKE_NUM_MODELS;
  config.state = state;
  config.state_words = STATE_WORDS;
  config.write = take;
  config.ctx = &sent_size;
  config.ticks = ticks;
  config.ticks_hz = 1000000;
  config.boot_nonce = 0xB0070001u;
  config.build_id = take_build_id;
  config.sdk_version = "1.2.3";
  CHECK(mlf_rpc_init(rpc, &config) == MLF_OK);
  sequence = 100;
  session = SESSION;
  sent_size = 0;
}

/* ---- messages ------------------------------------------------------------------------------- */

typedef struct {
  int count; /* replies; the rest is that of the last one */
  uint8_t version;
  uint8_t opcode;
  uint16_t sequence;
  uint32_t session;
  int8_t status;
  const uint8_t *body; /* behind the status */
  size_t size;
} reply_t;

static uint8_t reply_buffer[MLF_FRAME_RX_SIZE(MLF_RPC_MAX_PAYLOAD)];

static uint32_t u32(const uint8_t *data) {
  return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

/* What the server sent since the last call: each piece must be a good frame of one payload. */
static reply_t replies(void) {
  reply_t reply;
  mlf_frame_rx_t rx;
  memset(&reply, 0, sizeof reply);
  mlf_frame_rx_init(&rx, reply_buffer, sizeof reply_buffer);
  for (size_t i = 0; i < sent_size; i++) {
    const mlf_frame_event_t event = mlf_frame_rx_push(&rx, sent[i]);
    CHECK(event != MLF_FRAME_DROPPED);
    if (event == MLF_FRAME_READY) {
      /* a version that is not spoken: the only reply without a session */
      const size_t header = rx.size == 7 ? MLF_RPC_PREFIX_SIZE : HEADER;
      CHECK(rx.size > header);
      reply.count++;
      reply.version = reply_buffer[0];
      reply.opcode = reply_buffer[1];
      reply.sequence = (uint16_t)(reply_buffer[2] | reply_buffer[3] << 8);
      reply.session = u32(&reply_buffer[MLF_RPC_PREFIX_SIZE]);
      reply.status = (int8_t)reply_buffer[header];
      reply.body = &reply_buffer[header + 1];
      reply.size = rx.size - header - 1;
    }
  }
  CHECK(sent_size == 0 || sent[sent_size - 1] == 0);
  sent_size = 0;
  return reply;
}

static reply_t send_payload(const uint8_t *payload, size_t size) {
  static uint8_t frame[MLF_FRAME_TX_SIZE(2 * MLF_RPC_MAX_PAYLOAD)];
  const size_t length = mlf_frame_encode(frame, sizeof frame, payload, size);
  CHECK(length != 0);
  mlf_rpc_feed(rpc, frame, length);
  return replies();
}

static size_t make(uint8_t *payload, uint8_t opcode, const uint8_t *body, size_t size) {
  payload[0] = MLF_RPC_VERSION;
  payload[1] = opcode;
  payload[2] = (uint8_t)sequence;
  payload[3] = (uint8_t)(sequence >> 8);
  for (uint32_t i = 0; i < 4; i++) {
    payload[4 + i] = (uint8_t)(session >> 8 * i);
  }
  if (size != 0) {
    memcpy(&payload[HEADER], body, size);
  }
  return size + HEADER;
}

/* Sends a request with the next sequence number; there must be exactly one reply, and its own. */
static reply_t request(uint8_t opcode, const uint8_t *body, size_t size) {
  uint8_t payload[2 * MLF_RPC_MAX_PAYLOAD];
  sequence++;
  const reply_t reply = send_payload(payload, make(payload, opcode, body, size));
  CHECK(reply.count == 1 && reply.version == MLF_RPC_VERSION);
  CHECK(reply.opcode == (opcode | 0x80) && reply.sequence == sequence && reply.session == session);
  return reply;
}

/* The arguments behind the opcode are the body's bytes. */
#define REQUEST(opcode, ...) \
  request(opcode, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
#define STATUS(opcode, ...) (REQUEST(opcode, __VA_ARGS__).status)

static reply_t hello(uint32_t number) {
  session = number;
  const reply_t reply = request(MLF_RPC_HELLO, NULL, 0);
  CHECK(reply.status == 0);
  return reply;
}

static void begin(void) {
  start();
  hello(SESSION);
}

static void write_twins(uint8_t y0) {
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0xFF, 0xFF) == 0);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 1, 0, 0, 0, 0, y0, 20, 30, 40, 50) == 0);
}

static reply_t stats(uint8_t model) {
  const reply_t reply = REQUEST(MLF_RPC_STATS, model);
  CHECK(reply.status == 0 && reply.size == 33);
  return reply;
}

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

/* ---- sessions and sequence numbers ---------------------------------------------------------- */

static void test_session(void) {
  start();
  for (uint8_t opcode = 0; opcode < 0x80; opcode++) { /* HELLO: of a wrong length */
    const reply_t reply = REQUEST(opcode, 0);
    CHECK(reply.status == MLF_RPC_E_SESSION && reply.size == 4 && u32(reply.body) == 0);
  }
  session = 0;
  CHECK(request(MLF_RPC_HELLO, NULL, 0).status == MLF_RPC_E_SESSION);
  hello(5);
  write_twins(1);
  hello(5); /* the same session again: nothing is lost */
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == 0);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 4, 0) == 0);
  write_twins(1);
  sequence = 7; /* another one, with numbers that were used */
  hello(6);
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 4, 0) == MLF_E_STATE);
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == MLF_E_STATE);
}

/* A second host: it starts a session of its own, and the first is refused, whatever it asks. */
static void test_two_hosts(void) {
  begin();
  write_twins(1);
  session = 5;
  for (uint8_t opcode = 0; opcode < 0x80; opcode++) {
    const reply_t reply = REQUEST(opcode, 0);
    CHECK(reply.status == MLF_RPC_E_SESSION && u32(reply.body) == SESSION);
  }
  session = 0;
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == MLF_RPC_E_SESSION);
  CHECK(request(MLF_RPC_HELLO, NULL, 0).status == MLF_RPC_E_SESSION);
  session = SESSION;
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == 0); /* none of these was carried out */
  CHECK(STATUS(MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 4, 0) == 0);
  hello(5);
  write_twins(2);
  session = SESSION;
  const reply_t refused = REQUEST(MLF_RPC_RUN, 0, 1, 0, 0, 0);
  CHECK(refused.status == MLF_RPC_E_SESSION && u32(refused.body) == 5);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 1, 0, 0, 0, 0, 9) == MLF_RPC_E_SESSION);
  session = 5;
  CHECK(STATUS(MLF_RPC_RUN, 0, 1, 0, 0, 0) == 0);
}

/* A repeated request is answered with the same bytes, and carried out once. */
static void test_duplicates(void) {
  static uint8_t first[MLF_FRAME_TX_SIZE(MLF_RPC_MAX_PAYLOAD)];
  uint8_t payload[24];
  uint8_t frame[MLF_FRAME_TX_SIZE(sizeof payload)];
  begin();
  write_twins(1);
  sequence++;
  static const uint8_t run[] = {0, 1, 0, 0, 0};
  size_t size = make(payload, MLF_RPC_RUN, run, sizeof run);
  const size_t length = mlf_frame_encode(frame, sizeof frame, payload, size);
  const uint32_t before = fake_runs;
  mlf_rpc_feed(rpc, frame, length);
  const size_t first_size = sent_size;
  memcpy(first, sent, first_size);
  for (int i = 0; i < 3; i++) {
    sent_size = 0;
    mlf_rpc_feed(rpc, frame, length);
    CHECK(sent_size == first_size && memcmp(sent, first, first_size) == 0);
  }
  CHECK(fake_runs == before + 1);

  sent_size = 0; /* refusals do not touch the last reply */
  payload[1] = MLF_RPC_STATS;
  reply_t reply = send_payload(payload, HEADER + 1); /* the same number, another request */
  CHECK(reply.count == 1 && reply.status == MLF_RPC_E_SEQUENCE);
  static const uint16_t backs[] = {1, 2, 300, 0x7FFF, 0x8000};
  for (size_t i = 0; i < sizeof backs / sizeof backs[0]; i++) {
    payload[2] = (uint8_t)(sequence - backs[i]);
    payload[3] = (uint8_t)((sequence - backs[i]) >> 8);
    reply = send_payload(payload, HEADER + 1);
    CHECK(reply.count == 1 && reply.status == MLF_RPC_E_SEQUENCE);
  }
  mlf_rpc_feed(rpc, frame, length);
  CHECK(sent_size == first_size && memcmp(sent, first, first_size) == 0);
  sent_size = 0;
  sequence = (uint16_t)(sequence + 0x7FFE); /* as far ahead as a number may be */
  CHECK(STATUS(MLF_RPC_STATS, 0) == 0);
  sequence = (uint16_t)(sequence + 0x7000);
  CHECK(STATUS(MLF_RPC_STATS, 0) == 0); /* around the end of the numbers */
}

/* ---- what is no request --------------------------------------------------------------------- */

static void test_unknown(void) {
  begin();
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    uint8_t payload[MLF_RPC_HEADER_SIZE] = {0};
    if ((opcode >= MLF_RPC_HELLO && opcode <= MLF_RPC_PREPARE) || opcode == MLF_RPC_BUILD ||
        (MLF_OBSERVE && opcode >= MLF_RPC_STEP && opcode <= MLF_RPC_PEEK)) {
      continue;
    }
    if (opcode < 0x80) {
      CHECK(STATUS((uint8_t)opcode, 0) == MLF_RPC_E_OPCODE);
    } else {
      sequence++;
      CHECK(send_payload(payload, make(payload, (uint8_t)opcode, NULL, 0)).count == 0);
    }
  }
  CHECK(u32(&stats(0).body[25]) == 128);
  for (unsigned version = 0; version < 256; version++) {
    uint8_t payload[MLF_RPC_HEADER_SIZE + 1] = {0};
    sequence++;
    make(payload, MLF_RPC_STATS, NULL, 0);
    payload[0] = (uint8_t)version;
    const reply_t reply = send_payload(payload, HEADER + 1);
    CHECK(reply.count == 1 && reply.version == MLF_RPC_VERSION && reply.sequence == sequence);
    if (version != MLF_RPC_VERSION) {
      CHECK(reply.status == MLF_RPC_E_VERSION && reply.size == 2);
      CHECK(reply.body[0] == MLF_RPC_VERSION && reply.body[1] == MLF_RPC_VERSION);
    } else {
      CHECK(reply.status == 0);
    }
  }
}

static void test_dropped(void) {
  uint8_t payload[MAX_PAYLOAD + 1];
  begin();
  CHECK(u32(&stats(0).body[25]) == 0);
  memset(payload, 1, sizeof payload);
  for (size_t size = 0; size < MLF_RPC_PREFIX_SIZE; size++) { /* not even the prefix of all versions */
    CHECK(send_payload(payload, size).count == 0);
  }
  CHECK(u32(&stats(0).body[25]) == 4);
  payload[0] = MLF_RPC_VERSION;
  for (size_t size = MLF_RPC_PREFIX_SIZE; size < HEADER; size++) { /* no header of this version */
    CHECK(send_payload(payload, size).count == 0);
  }
  CHECK(u32(&stats(0).body[25]) == 8);
  CHECK(send_payload(payload, sizeof payload).count == 0); /* too long by a byte */
  sequence++;
  memset(payload, 0, sizeof payload);
  make(payload, MLF_RPC_WRITE, NULL, 0);
  payload[HEADER] = 1;
  CHECK(send_payload(payload, MAX_PAYLOAD).count == 1); /* as long as may be */
  CHECK(u32(&stats(0).body[25]) == 9);
  static const uint8_t text[] = "Hello, world\n\0\x03\x01\0\xFF\0";
  mlf_rpc_feed(rpc, text, sizeof text);
  CHECK(sent_size == 0);
  CHECK(u32(&stats(0).body[25]) == 12);
  mlf_rpc_feed(rpc, text, 5); /* text right before a frame */
  CHECK(stats(0).status == 0);
  mlf_rpc_feed(rpc, NULL, 0);
  CHECK(sent_size == 0);
}

/* ---- every request, cut and damaged --------------------------------------------------------- */

typedef struct {
  uint8_t opcode;
  uint8_t size;
  uint8_t body[12];
} sample_t;

static const sample_t samples[] = {
    {MLF_RPC_HELLO, 0, {0}},
    {MLF_RPC_MODEL, 1, {0}},
    {MLF_RPC_TENSOR, 3, {0, 1, 1}},
    {MLF_RPC_WRITE, 9, {0, 1, 0, 0, 0, 0, 1, 2, 3}},
    {MLF_RPC_RUN, 5, {3, 1, 0, 0, 0}},
    {MLF_RPC_READ, 9, {3, 1, 0, 0, 0, 0, 0, 0, 0}},
    {MLF_RPC_STATS, 1, {0}},
    {MLF_RPC_PREPARE, 2, {0, 0xA5}},
};

/* A request cut short, but with a good CRC: an error, or nothing; a shorter WRITE is a WRITE. */
static void test_truncated_payloads(void) {
  begin();
  CHECK(STATUS(MLF_RPC_RUN, 3, 1, 0, 0, 0) == 0);
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    const sample_t *sample = &samples[i];
    CHECK(request(sample->opcode, sample->body, sample->size).status == 0);
    for (size_t size = 0; size < sample->size + HEADER; size++) {
      uint8_t payload[MLF_RPC_HEADER_SIZE + sizeof sample->body];
      sequence++;
      make(payload, sample->opcode, sample->body, sample->size);
      const reply_t reply = send_payload(payload, size);
      CHECK(reply.count == (size >= HEADER));
      if (size >= HEADER) {
        const int shorter_write = sample->opcode == MLF_RPC_WRITE && size >= HEADER + 6;
        CHECK(reply.status == (shorter_write ? 0 : MLF_RPC_E_LENGTH));
      }
    }
  }
}

/* A frame cut short, with one bit wrong, or with a byte lost or doubled: no reply at all. */
static void test_damaged_frames(void) {
  uint8_t payload[24];
  uint8_t frame[MLF_FRAME_TX_SIZE(sizeof payload)];
  uint8_t copy[sizeof frame + 1];
  static const uint8_t zero[1] = {0};
  begin();
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    sequence++;
    const size_t size = make(payload, samples[i].opcode, samples[i].body, samples[i].size);
    const size_t length = mlf_frame_encode(frame, sizeof frame, payload, size);
    for (size_t cut = 0; cut + 1 < length; cut++) {
      mlf_rpc_feed(rpc, frame, cut);
      mlf_rpc_feed(rpc, zero, 1);
      CHECK(sent_size == 0);
      memcpy(copy, frame, length); /* doubled */
      memmove(&copy[cut + 1], &copy[cut], length - cut);
      mlf_rpc_feed(rpc, copy, length + 1);
      CHECK(replies().count == (cut == 0)); /* a doubled delimiter is harmless */
    }
    for (size_t bit = 8; bit < 8 * length; bit++) {
      memcpy(copy, frame, length);
      copy[bit / 8] = (uint8_t)(copy[bit / 8] ^ 1u << bit % 8);
      mlf_rpc_feed(rpc, copy, length);
      mlf_rpc_feed(rpc, zero, 1);
      CHECK(sent_size == 0);
    }
    for (size_t lost = 1; lost + 1 < length; lost++) {
      memcpy(copy, frame, lost);
      memcpy(&copy[lost], &frame[lost + 1], length - lost - 1);
      mlf_rpc_feed(rpc, copy, length - 1);
      CHECK(sent_size == 0);
    }
  }
}

/* Good frames of random content: the sanitizers watch, and each reply is well-formed. */
static void test_random_requests(void) {
  uint8_t payload[MAX_PAYLOAD];
  begin();
  for (int i = 0; i < 30000; i++) {
    const size_t body = random_below(8) != 0 ? random_below(14) : random_below(MAX_PAYLOAD - HEADER);
    for (size_t at = 0; at < body; at++) {
      const uint32_t kind = random_below(4);
      payload[HEADER + at] = (uint8_t)(kind == 0 ? 0 : kind < 3 ? random_below(6) : random_below(256));
    }
    sequence++;
    make(payload, (uint8_t)random_below(11), NULL, 0);
    if (payload[1] == MLF_RPC_RUN && body == 5) {
      memset(&payload[HEADER + 2], 0, 3); /* not for hours */
    }
    const reply_t reply = send_payload(payload, body + HEADER);
    CHECK(reply.count == 1 && reply.sequence == sequence);
  }
}

static void test_random_bytes(void) {
  uint8_t noise[64];
  begin();
  for (int i = 0; i < 20000; i++) {
    const size_t size = random_below(sizeof noise);
    for (size_t at = 0; at < size; at++) {
      noise[at] = (uint8_t)(random_below(6) == 0 ? 0 : random_below(256));
    }
    mlf_rpc_feed(rpc, noise, size);
  }
  CHECK(sent_size == 0);
  CHECK(stats(0).status == 0);
}

/* ---- the rate of the line ------------------------------------------------------------------- */

static void start_rated(void) {
  start();
  config.can_set_baud = can_set_baud;
  config.set_baud = set_baud;
  config.window_bytes = 1000;
  baud_now = 0;
  baud_changes = 0;
}

static void drop(int times) {
  static const uint8_t noise[] = {0xFF, 0x13, 0};
  for (int i = 0; i < times; i++) {
    mlf_rpc_feed(rpc, noise, sizeof noise);
  }
}

static void test_baud(void) {
  uint8_t payload[16];
  uint8_t frame[MLF_FRAME_TX_SIZE(sizeof payload)];
  begin();
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0x84, 3, 0) == MLF_RPC_E_OPCODE); /* the rate is fixed */
  start_rated();
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0x84, 3, 0) == MLF_RPC_E_SESSION);
  const reply_t reply = hello(SESSION);
  CHECK((u32(&reply.body[4]) & 8u) != 0 && u32(&reply.body[4]) >> 16 == 1000);
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0x84, 3) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0x84, 3, 0, 0) == MLF_RPC_E_LENGTH);
  CHECK(STATUS(MLF_RPC_BAUD, 0x41, 0x42, 0x0F, 0) == MLF_E_ARGUMENT);
  drop(20);
  CHECK(baud_changes == 0);
  sequence++;
  static const uint8_t rate[] = {0, 0x84, 3, 0};
  const size_t size = mlf_frame_encode(frame, sizeof frame, payload, make(payload, MLF_RPC_BAUD, rate, 4));
  for (int i = 0; i < 3; i++) { /* repeated: answered, and not carried out again */
    sent_size = 0;
    mlf_rpc_feed(rpc, frame, size);
    CHECK(replies().status == 0 && baud_changes == 1 && baud_now == 230400);
  }
  for (int i = 0; i < 5; i++) { /* nine in a row are too many, whatever came before them */
    drop(8);
    CHECK(STATUS(MLF_RPC_STATS, 0) == 0 && baud_now == 230400);
  }
  drop(9);
  CHECK(baud_changes == 2 && baud_now == 0);
  drop(20);
  CHECK(baud_changes == 2);
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0x84, 3, 0) == 0 && baud_changes == 3);
  drop(3); /* fewer when nothing good has come yet */
  CHECK(baud_changes == 3);
  drop(1);
  CHECK(baud_changes == 4 && baud_now == 0);
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0x84, 3, 0) == 0 && baud_now == 230400);
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0, 0, 0) == 0 && baud_now == 0 && baud_changes == 6);
  static const uint8_t zeros[32]; /* all that is heard of a far slower host */
  CHECK(STATUS(MLF_RPC_BAUD, 0, 0x84, 3, 0) == 0 && baud_changes == 7);
  mlf_rpc_feed(rpc, zeros, 31);
  CHECK(baud_changes == 7);
  mlf_rpc_feed(rpc, zeros, 1);
  CHECK(baud_changes == 8 && baud_now == 0);
  mlf_rpc_feed(rpc, zeros, sizeof zeros);
  CHECK(baud_changes == 8 && STATUS(MLF_RPC_STATS, 0) == 0);
}

/* Requests that come without waiting: each is carried out in order; what is lost leaves a gap. */
static void test_several_at_once(void) {
  static uint8_t stream[8 * 64];
  uint8_t payload[32];
  size_t size = 0;
  begin();
  for (uint8_t i = 0; i < 5; i++) {
    const uint8_t body[] = {0, 1, i, 0, 0, 0, (uint8_t)(10 + i)};
    sequence++;
    const size_t length = make(payload, MLF_RPC_WRITE, body, sizeof body);
    const size_t added = mlf_frame_encode(&stream[size], sizeof stream - size, payload, length);
    CHECK(added != 0);
    size += i == 2 ? 0 : added; /* the third is lost */
  }
  mlf_rpc_feed(rpc, stream, size);
  const reply_t reply = replies();
  CHECK(reply.count == 4 && reply.sequence == sequence);
  CHECK(reply.status == MLF_RPC_E_GAP && reply.size == 4 && u32(reply.body) == 2);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 1, 2, 0, 0, 0, 12, 13, 14) == 0);
  const reply_t back = REQUEST(MLF_RPC_READ, 0, 0, 1, 0, 0, 0, 0, 5, 0);
  static const uint8_t whole[] = {10, 11, 12, 13, 14};
  CHECK(back.status == 0 && back.size == 5 && memcmp(back.body, whole, 5) == 0);
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

/* ---- shared vectors ------------------------------------------------------------------------- */

#define VECTORS_MAX 400u
#define LINE_MAX_SIZE 8192u

typedef struct {
  size_t send_size, receive_size;
  uint8_t send[LINE_MAX_SIZE / 4], receive[LINE_MAX_SIZE / 4];
} vector_t;

static vector_t vectors[VECTORS_MAX];
static uint32_t num_vectors;

static size_t from_hex(const char *text, uint8_t *data, size_t capacity) {
  size_t size = 0;
  if (text[0] == '-') {
    return 0;
  }
  for (; text[2 * size] != '\0'; size++) {
    const char pair[3] = {text[2 * size], text[2 * size + 1], '\0'};
    CHECK(size < capacity && pair[1] != '\0');
    data[size] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return size;
}

static void load_vectors(const char *path) {
  static char name[LINE_MAX_SIZE], send[LINE_MAX_SIZE], receive[LINE_MAX_SIZE];
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  while (fscanf(file, "%8191s %8191s %8191s", name, send, receive) == 3) {
    CHECK(num_vectors < VECTORS_MAX);
    vector_t *vector = &vectors[num_vectors++];
    vector->send_size = from_hex(send, vector->send, sizeof vector->send);
    vector->receive_size = from_hex(receive, vector->receive, sizeof vector->receive);
  }
  fclose(file);
  CHECK(num_vectors > 20);
}

/* The whole conversation in pieces of up to `most` bytes, each at once with most == 0. */
static void play_vectors(uint32_t most) {
  start_rated();
  for (uint32_t i = 0; i < num_vectors; i++) {
    const vector_t *vector = &vectors[i];
    for (size_t at = 0; at < vector->send_size;) {
      const size_t left = vector->send_size - at;
      const size_t drawn = most == 0 ? left : 1u + random_below(most);
      const size_t size = drawn < left ? drawn : left;
      mlf_rpc_feed(rpc, &vector->send[at], size);
      at += size;
    }
    if (sent_size != vector->receive_size || memcmp(sent, vector->receive, sent_size) != 0) {
      fprintf(stderr, "vector %u (pieces of up to %u)\n", (unsigned)i, (unsigned)most);
      CHECK(0);
    }
    check_count++;
    sent_size = 0;
  }
}

/* Each vector cut in two at every byte; a duplicate must then give the same reply again. */
static void split_vectors(void) {
  for (uint32_t i = 0; i < num_vectors; i++) {
    const vector_t *vector = &vectors[i];
    for (size_t cut = 0; cut <= vector->send_size; cut++) {
      start_rated();
      for (uint32_t before = 0; before < i; before++) {
        mlf_rpc_feed(rpc, vectors[before].send, vectors[before].send_size);
      }
      sent_size = 0;
      mlf_rpc_feed(rpc, vector->send, cut);
      mlf_rpc_feed(rpc, &vector->send[cut], vector->send_size - cut);
      CHECK(sent_size == vector->receive_size);
      CHECK(memcmp(sent, vector->receive, sent_size) == 0);
    }
  }
}

int main(int argc, char **argv) {
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
  test_session();
  test_two_hosts();
  test_duplicates();
  test_unknown();
  test_dropped();
  test_truncated_payloads();
  test_damaged_frames();
  test_random_requests();
  test_random_bytes();
  test_baud();
  test_extension();
  test_build_id();
  test_several_at_once();
  if (argc > 1) {
    load_vectors(argv[1]);
    play_vectors(0);
    play_vectors(1);
    for (uint32_t i = 0; i < 50; i++) {
      play_vectors(40);
    }
    split_vectors();
  }
  free(rpc);
  free(state);
  printf("%lu checks\n", check_count);
  return 0;
}
