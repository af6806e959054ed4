/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes secured sessions of the RPC server (MLF_RPC_SECURE) with the fake cryptography. The first byte
 * chooses:
 *   bit 0: the rest is what comes over the line, byte by byte;
 *   else: the rest is requests, each a byte with its size, a byte of options and its payload. A host that
 *   has a key makes messages of them (options: 1 opens a session in its place, 2 sends the payload as it is,
 *   4 repeats the message, 8 damages one byte of it, 16 sends an earlier message again, 32 leaves out the
 *   code, 64 takes another session's key, 128 lets the clock run).
 * Nothing but a message that the host of the open session made just now may change a byte of the model's
 * memory, or get more than a refusal.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_crypto.h"
#include "fake_models.h"
#include "mlf_rpc.h"

#define HEADER ((size_t)MLF_RPC_HEADER_SIZE)
#define MOST ((size_t)MLF_RPC_MAX_PAYLOAD)
#define STATE_WORDS MLF_RPC_STATE_WORDS(FAKE_TOTAL_INPUTS, FAKE_NUM_MODELS)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t keys[2][MLF_PUBLIC_KEY_BYTES] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {11, 12}};
static const uint8_t build_id[] = {0xB0, 0xB1, 0, 0xB3};
static const uint8_t secret[32] = {0x77, 1, 2, 3};
static uint32_t state[STATE_WORDS];
static uint64_t now;
static uint8_t drawn;
static mlf_rpc_t rpc;
static mlf_secure_t secure;

/* The last reply. */
static uint8_t reply[MLF_FRAME_RX_SIZE(MLF_RPC_MAX_PAYLOAD)];
static size_t reply_size;

static void require(int condition) {
  if (!condition) {
    abort();
  }
}

static void take(void *ctx, const uint8_t *data, size_t size) {
  mlf_frame_rx_t rx;
  size_t good = 0;
  (void)ctx;
  mlf_frame_rx_init(&rx, reply, sizeof reply);
  for (size_t i = 0; i < size; i++) {
    const mlf_frame_event_t event = mlf_frame_rx_push(&rx, data[i]);
    require(event != MLF_FRAME_DROPPED);
    good += event == MLF_FRAME_READY;
  }
  require(good == 1 && (reply[1] & MLF_RPC_REPLY) != 0);
  reply_size = rx.size;
  if (mlf_secure_is_open(&secure) == 0 && (reply[1] & 0x7Fu) != MLF_RPC_HELLO && /* what everybody may ask */
      (reply[1] & 0x7Fu) != MLF_RPC_BUILD && (reply[1] & 0x7Fu) != MLF_RPC_CHALLENGE &&
      (reply[1] & 0x7Fu) != MLF_RPC_OPEN) {
    require(rx.size <= HEADER + 5u && (int8_t)reply[rx.size > HEADER ? HEADER : 4u] < 0);
  }
}

static uint64_t ticks(void *ctx) {
  (void)ctx;
  return now;
}

static int draw(uint8_t *out, size_t size) {
  memset(out, ++drawn, size);
  return 0;
}

static size_t take_build_id(void *ctx, const uint8_t **out_id) {
  (void)ctx;
  *out_id = build_id;
  return sizeof build_id;
}

static const mlf_secure_config_t secure_config = {
    .keys = keys, .num_keys = 2, .entropy = draw, .ticks = ticks, .ticks_hz = 1000};
static const mlf_rpc_config_t config = {
    .models = fake_models,
    .num_models = FAKE_NUM_MODELS,
    .state = state,
    .state_words = STATE_WORDS,
    .write = take,
    .build_id = take_build_id,
    .sdk_version = "0",
    .secure = &secure,
};

/* ---- a host --------------------------------------------------------------------------------- */

static struct {
  uint32_t session;
  uint64_t number;
  uint64_t opened;
  int is_open;
  uint8_t key[MLF_SESSION_KEY_BYTES];
  uint8_t other_key[MLF_SESSION_KEY_BYTES];
  uint8_t earlier[2u * MLF_RPC_MAX_PAYLOAD];
  size_t earlier_size;
} host;

static void deliver(const uint8_t *payload, size_t size) {
  static uint8_t frame[MLF_FRAME_TX_SIZE(2u * MLF_RPC_MAX_PAYLOAD)];
  reply_size = 0;
  mlf_rpc_feed(&rpc, frame, mlf_frame_encode(frame, sizeof frame, payload, size));
}

static size_t put_header(uint8_t *payload, uint8_t opcode) {
  host.number++;
  payload[0] = MLF_RPC_VERSION;
  payload[1] = opcode;
  payload[2] = (uint8_t)host.number;
  payload[3] = (uint8_t)(host.number >> 8);
  for (uint32_t i = 0; i < 4; i++) {
    payload[4 + i] = (uint8_t)(host.session >> 8 * i);
  }
  return HEADER;
}

static void open_session(uint8_t salt) {
  uint8_t bytes[32 + 16 + 4 + 96 + 1 + sizeof build_id] = {0};
  uint8_t digest[MLF_SHA512_BYTES];
  uint8_t payload[HEADER + MLF_SECURE_KEY_ID_BYTES + MLF_SIGNATURE_BYTES];
  const uint8_t *key = keys[salt & 1u];
  host.session = host.session * 2u + 1u + salt;
  host.is_open = 0;
  deliver(payload, put_header(payload, MLF_RPC_HELLO));
  put_header(payload, MLF_RPC_CHALLENGE);
  (void)mlf_crypto_x25519_public(&payload[HEADER], secret);
  deliver(payload, HEADER + 32u);
  if (reply_size != HEADER + 1u + MLF_SECURE_REPLY_BYTES) {
    return; /* it has to wait */
  }
  memcpy(&bytes[32], "mlf-session-1", 13);
  memcpy(&bytes[48], &payload[4], 4);
  memcpy(&bytes[52], &reply[HEADER + 1u], 32);
  (void)mlf_crypto_x25519_public(&bytes[84], secret);
  memcpy(&bytes[116], &reply[HEADER + 33u], 32);
  bytes[148] = sizeof build_id;
  memcpy(&bytes[149], build_id, sizeof build_id);
  (void)mlf_crypto_x25519(bytes, secret, &reply[HEADER + 33u]);
  (void)mlf_crypto_sha512(digest, bytes, sizeof bytes);
  memcpy(host.other_key, host.key, sizeof host.key);
  memcpy(host.key, digest, sizeof host.key);
  put_header(payload, MLF_RPC_OPEN);
  memcpy(&payload[HEADER], key, MLF_SECURE_KEY_ID_BYTES);
  fake_sign(&payload[HEADER + MLF_SECURE_KEY_ID_BYTES], key, &bytes[32], sizeof bytes - 32u);
  deliver(payload, sizeof payload);
  host.is_open = reply_size > HEADER && reply[HEADER] == 0;
  require(host.is_open && mlf_secure_is_open(&secure));
  host.opened = host.number;
}

/* The options that leave a message as the host made it. */
#define GENUINE 0x84u

static void send_one(const uint8_t *data, size_t size, uint8_t options) {
  static uint8_t payload[2u * MLF_RPC_MAX_PAYLOAD];
  static uint32_t before[STATE_WORDS];
  size_t bytes = 0;
  if ((options & 2u) == 0 && size != 0) {
    bytes = put_header(payload, data[0]);
    data++;
    size--;
  }
  memcpy(&payload[bytes], data, size);
  bytes += size;
  if (bytes == HEADER + 5u && payload[1] == MLF_RPC_RUN) { /* one run, not 2^32 */
    memset(&payload[HEADER + 2u], 0, 3);
  }
  if (host.is_open && (options & 34u) == 0 && bytes >= HEADER) {
    (void)mlf_crypto_mac(&payload[bytes], (options & 64u) != 0 ? host.other_key : host.key,
                         host.number - host.opened, payload, bytes);
    bytes += MLF_MAC_BYTES;
  }
  if ((options & 8u) != 0 && bytes != 0) {
    payload[options % bytes] = (uint8_t)(payload[options % bytes] ^ 1u);
  }
  const int is_earlier = (options & 16u) != 0 && host.earlier_size != 0;
  options = is_earlier ? options : options & 0xEFu;
  if (is_earlier) {
    bytes = host.earlier_size;
    memcpy(payload, host.earlier, bytes);
  }
  const int is_genuine = host.is_open && !is_earlier && (options & ~GENUINE) == 0;
  const int may_end = bytes == HEADER && payload[1] == MLF_RPC_HELLO; /* a HELLO forgets what was valid */
  const uint32_t runs = fake_runs;
  const uint64_t counter = secure.counter;
  const int was_open = mlf_secure_is_open(&secure);
  memcpy(before, state, sizeof state);
  deliver(payload, bytes);
  if (!is_genuine && !may_end) {
    require(fake_runs == runs && memcmp(before, state, sizeof state) == 0);
    require(!was_open || (secure.counter == counter && mlf_secure_is_open(&secure)));
  }
  if (mlf_secure_is_open(&secure) == 0) {
    host.is_open = 0;
  }
  if ((options & 4u) != 0) { /* its reply again, and nothing is carried out */
    const uint32_t after = fake_runs;
    deliver(payload, bytes);
    require(fake_runs == after || may_end);
  }
  if (is_genuine) {
    memcpy(host.earlier, payload, bytes);
    host.earlier_size = bytes;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) {
    return 0;
  }
  memset(&host, 0, sizeof host);
  memset(state, 0, sizeof state);
  now = 0;
  drawn = 0;
  require(mlf_secure_init(&secure, &secure_config) == MLF_OK && mlf_rpc_init(&rpc, &config) == MLF_OK);
  if ((data[0] & 1u) != 0) {
    mlf_rpc_feed(&rpc, &data[1], size - 1u);
    require(!mlf_secure_is_open(&secure));
    return 0;
  }
  for (data++, size--; size >= 2;) {
    const size_t count = data[0] < size - 2u ? data[0] : size - 2u;
    if ((data[1] & 128u) != 0) {
      now += 65000;
    }
    if ((data[1] & 1u) != 0) {
      open_session(data[0]);
    } else {
      send_one(&data[2], count, data[1]);
    }
    data += 2u + count;
    size -= 2u + count;
  }
  return 0;
}
