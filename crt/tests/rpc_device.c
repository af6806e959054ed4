/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc_device.h"

#include <string.h>

#include "check.h"

/* ---- a device ------------------------------------------------------------------------------- */

uint8_t sent[1 << 20]; /* all that the server wrote */
size_t sent_size;
uint8_t stack[256];
size_t stack_at = 200;

mlf_rpc_t *rpc; /* on the heap, and its state: the sanitizer sees each byte too far */
uint32_t *state;
mlf_rpc_config_t config;
uint16_t sequence;
uint32_t session; /* of the next request */

void take(void *ctx, const uint8_t *data, size_t size) {
  CHECK(ctx == &sent_size);
  CHECK(size <= sizeof sent - sent_size);
  memcpy(&sent[sent_size], data, size);
  sent_size += size;
}

/* What the server asked the line for. */
uint32_t baud_now;
int baud_changes;

int can_set_baud(void *ctx, uint32_t baud) {
  CHECK(ctx == &sent_size);
  return baud <= 1000000u;
}

void set_baud(void *ctx, uint32_t baud) {
  CHECK(ctx == &sent_size);
  baud_now = baud;
  baud_changes++;
}

uint64_t ticks(void *ctx) {
  CHECK(ctx == &sent_size);
  return fake_ticks(NULL);
}

const uint8_t build_id[10] = {0xB0, 0xB1, 0xB2, 0, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9};

static size_t take_build_id(void *ctx, const uint8_t **out_id) {
  CHECK(ctx == &sent_size);
  *out_id = build_id;
  return sizeof build_id;
}

size_t no_build_id(void *ctx, const uint8_t **out_id) {
  (void)ctx;
  (void)out_id;
  return 0;
}

uint8_t *stack_pointer(void *ctx) {
  CHECK(ctx == &sent_size);
  return &stack[stack_at];
}

void start(void) {
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


static uint8_t reply_buffer[MLF_FRAME_RX_SIZE(MLF_RPC_MAX_PAYLOAD)];

uint32_t u32(const uint8_t *data) {
  return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

reply_t replies(void) {
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

reply_t send_payload(const uint8_t *payload, size_t size) {
  static uint8_t frame[MLF_FRAME_TX_SIZE(2 * MLF_RPC_MAX_PAYLOAD)];
  const size_t length = mlf_frame_encode(frame, sizeof frame, payload, size);
  CHECK(length != 0);
  mlf_rpc_feed(rpc, frame, length);
  return replies();
}

size_t make(uint8_t *payload, uint8_t opcode, const uint8_t *body, size_t size) {
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

reply_t request(uint8_t opcode, const uint8_t *body, size_t size) {
  uint8_t payload[2 * MLF_RPC_MAX_PAYLOAD];
  sequence++;
  const reply_t reply = send_payload(payload, make(payload, opcode, body, size));
  CHECK(reply.count == 1 && reply.version == MLF_RPC_VERSION);
  CHECK(reply.opcode == (opcode | 0x80) && reply.sequence == sequence && reply.session == session);
  return reply;
}

reply_t hello(uint32_t number) {
  session = number;
  const reply_t reply = request(MLF_RPC_HELLO, NULL, 0);
  CHECK(reply.status == 0);
  return reply;
}

void begin(void) {
  start();
  hello(SESSION);
}

void write_twins(uint8_t y0) {
  CHECK(STATUS(MLF_RPC_WRITE, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0xFF, 0xFF) == 0);
  CHECK(STATUS(MLF_RPC_WRITE, 0, 1, 0, 0, 0, 0, y0, 20, 30, 40, 50) == 0);
}

reply_t stats(uint8_t model) {
  const reply_t reply = REQUEST(MLF_RPC_STATS, model);
  CHECK(reply.status == 0 && reply.size == 33);
  return reply;
}

void start_rated(void) {
  start();
  config.can_set_baud = can_set_baud;
  config.set_baud = set_baud;
  config.window_bytes = 1000;
  baud_now = 0;
  baud_changes = 0;
}

unsigned long end_device(void) {
  free(rpc);
  free(state);
  return check_count;
}
