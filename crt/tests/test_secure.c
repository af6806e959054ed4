/* SPDX-License-Identifier: Apache-2.0 */
/* Secured sessions of the RPC server, with the fake cryptography: who gets in, and what a message that was
 * not made by the host of the session changes: nothing. */
#include <string.h>

#include "check.h"
#include "fake_crypto.h"
#include "fake_models.h"
#include "mlf_rpc.h"

#define HEADER ((size_t)MLF_RPC_HEADER_SIZE)
#define MOST ((size_t)MLF_RPC_MAX_PAYLOAD)
#define STATE_WORDS MLF_RPC_STATE_WORDS(FAKE_TOTAL_INPUTS, FAKE_NUM_MODELS)
#define HZ 1000u

/* ---- a device ------------------------------------------------------------------------------- */

static const uint8_t keys[3][MLF_PUBLIC_KEY_BYTES] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {11, 12}, {21, 22}};
static const uint8_t build_id[] = {0xB0, 0xB1, 0, 0xB3};

static uint8_t sent[1u << 16];
static size_t sent_size;
static uint64_t now;
static uint8_t drawn; /* differs from call to call, also over resets */
static int is_dry;    /* the source of random numbers fails */
static uint32_t state[STATE_WORDS];
static mlf_rpc_t *rpc;
static mlf_rpc_config_t config;
static mlf_secure_t secure;
static mlf_secure_config_t secure_config;

static void take(void *ctx, const uint8_t *data, size_t size) {
  (void)ctx;
  CHECK(size <= sizeof sent - sent_size);
  memcpy(&sent[sent_size], data, size);
  sent_size += size;
}

static uint64_t clock_of(void *ctx) {
  CHECK(ctx == &now);
  return now;
}

static int draw(uint8_t *out, size_t size) {
  memset(out, ++drawn, size);
  return is_dry;
}

static size_t take_build_id(void *ctx, const uint8_t **out_id) {
  (void)ctx;
  *out_id = build_id;
  return sizeof build_id;
}

static void start(int has_clock) {
  free(rpc);
  rpc = malloc(sizeof *rpc);
  CHECK(rpc != NULL);
  memset(&config, 0, sizeof config);
  memset(&secure_config, 0, sizeof secure_config);
  CHECK(mlf_secure_init(&secure, &secure_config) == MLF_E_ARGUMENT);
  secure_config.keys = keys;
  secure_config.num_keys = 2; /* not the third */
  secure_config.entropy = draw;
  secure_config.ticks = has_clock ? clock_of : NULL;
  secure_config.ticks_hz = HZ;
  secure_config.ctx = &now;
  CHECK(mlf_secure_init(&secure, &secure_config) == MLF_OK);
  config.models = fake_models;
  config.num_models = FAKE_NUM_MODELS;
  config.state = state;
  config.state_words = STATE_WORDS;
  config.write = take;
  config.build_id = take_build_id;
  config.sdk_version = "1.2.3";
  CHECK(mlf_rpc_init(rpc, &config) == MLF_E_ARGUMENT); /* no secure */
  config.secure = &secure;
  CHECK(mlf_rpc_init(rpc, &config) == MLF_OK);
  sent_size = 0;
}

/* ---- a host --------------------------------------------------------------------------------- */

typedef struct {
  uint32_t session;
  uint64_t number;  /* of the last request */
  uint64_t opened;  /* number of OPEN */
  int is_open;
  uint8_t key[MLF_SESSION_KEY_BYTES];
} host_t;

typedef struct {
  int count;
  int8_t status;
  uint8_t opcode;
  size_t size; /* behind the status */
  uint8_t payload[MOST];
} reply_t;

typedef struct {
  size_t size;
  uint8_t payload[MOST];
} message_t;

static reply_t deliver(const uint8_t *payload, size_t size) {
  static uint8_t frame[MLF_FRAME_TX_SIZE(2u * MLF_RPC_MAX_PAYLOAD)];
  static uint8_t buffer[MLF_FRAME_RX_SIZE(MLF_RPC_MAX_PAYLOAD)];
  reply_t reply;
  mlf_frame_rx_t rx;
  memset(&reply, 0, sizeof reply);
  sent_size = 0;
  mlf_rpc_feed(rpc, frame, mlf_frame_encode(frame, sizeof frame, payload, size));
  mlf_frame_rx_init(&rx, buffer, sizeof buffer);
  for (size_t i = 0; i < sent_size; i++) {
    if (mlf_frame_rx_push(&rx, sent[i]) == MLF_FRAME_READY) {
      CHECK(rx.size <= MOST);
      reply.count++;
      reply.opcode = buffer[1];
      reply.status = (int8_t)(rx.size > HEADER ? buffer[HEADER] : buffer[4]);
      reply.size = rx.size > HEADER ? rx.size - HEADER - 1u : 0;
      memcpy(reply.payload, buffer, rx.size);
    }
  }
  CHECK(reply.count <= 1);
  return reply;
}

/* The next request of a host, with its code when the session is open. */
static message_t make(host_t *host, uint8_t opcode, const uint8_t *body, size_t size) {
  message_t message;
  host->number++;
  memset(&message, 0, sizeof message);
  message.size = HEADER + size;
  message.payload[0] = MLF_RPC_VERSION;
  message.payload[1] = opcode;
  message.payload[2] = (uint8_t)host->number;
  message.payload[3] = (uint8_t)(host->number >> 8);
  for (uint32_t i = 0; i < 4; i++) {
    message.payload[4 + i] = (uint8_t)(host->session >> 8 * i);
  }
  if (size != 0) {
    memcpy(&message.payload[HEADER], body, size);
  }
  if (host->is_open) {
    (void)mlf_crypto_mac(&message.payload[message.size], host->key, host->number - host->opened,
                         message.payload, message.size);
    message.size += MLF_MAC_BYTES;
  }
  return message;
}

/* The code of a reply must be good when the session is open, unless the request was refused. */
static reply_t ask(host_t *host, uint8_t opcode, const uint8_t *body, size_t size) {
  const message_t message = make(host, opcode, body, size);
  reply_t reply = deliver(message.payload, message.size);
  CHECK(reply.count == 1 && reply.opcode == (opcode | 0x80));
  if (host->is_open && reply.status != MLF_RPC_E_LOCKED && reply.status != MLF_RPC_E_SESSION) {
    uint8_t tag[MLF_MAC_BYTES];
    CHECK(reply.size >= sizeof tag);
    reply.size -= sizeof tag;
    (void)mlf_crypto_mac(tag, host->key, host->number - host->opened, reply.payload,
                         HEADER + 1u + reply.size);
    CHECK(memcmp(tag, &reply.payload[HEADER + 1u + reply.size], sizeof tag) == 0);
  }
  return reply;
}

#define ASK(host, opcode, ...) \
  ask(host, opcode, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void greet(host_t *host, uint32_t session) {
  host->session = session;
  host->is_open = 0;
  CHECK(ask(host, MLF_RPC_HELLO, NULL, 0).status == 0);
}

/* What OPEN sends, for the challenge that the device has given; the key that comes of it. */
static void answer(const host_t *host, const uint8_t *secret, const uint8_t *challenge, uint32_t key,
                   uint8_t *out_body, uint8_t *out_key) {
  uint8_t bytes[32 + 16 + 4 + 96 + 1 + sizeof build_id] = {0};
  uint8_t digest[MLF_SHA512_BYTES];
  memcpy(&bytes[32], "mlf-session-1", 13);
  for (uint32_t i = 0; i < 4; i++) {
    bytes[48 + i] = (uint8_t)(host->session >> 8 * i);
  }
  memcpy(&bytes[52], challenge, 32);
  (void)mlf_crypto_x25519_public(&bytes[84], secret);
  memcpy(&bytes[116], &challenge[32], 32);
  bytes[148] = sizeof build_id;
  memcpy(&bytes[149], build_id, sizeof build_id);
  (void)mlf_crypto_x25519(bytes, secret, &challenge[32]);
  (void)mlf_crypto_sha512(digest, bytes, sizeof bytes);
  memcpy(out_key, digest, MLF_SESSION_KEY_BYTES);
  memcpy(out_body, keys[key], MLF_SECURE_KEY_ID_BYTES);
  fake_sign(&out_body[MLF_SECURE_KEY_ID_BYTES], keys[key], &bytes[32], sizeof bytes - 32);
}

static const uint8_t secret[32] = {0x77, 1, 2, 3};

static reply_t challenge(host_t *host) {
  uint8_t public_key[32];
  (void)mlf_crypto_x25519_public(public_key, secret);
  return ask(host, MLF_RPC_CHALLENGE, public_key, sizeof public_key);
}

static int8_t open_by(host_t *host, uint32_t key) {
  uint8_t body[MLF_SECURE_KEY_ID_BYTES + MLF_SIGNATURE_BYTES];
  const reply_t given = challenge(host);
  CHECK(given.status == 0 && given.size == MLF_SECURE_REPLY_BYTES);
  answer(host, secret, &given.payload[HEADER + 1], key, body, host->key);
  const message_t message = make(host, MLF_RPC_OPEN, body, sizeof body);
  const reply_t reply = deliver(message.payload, message.size);
  CHECK(reply.count == 1);
  if (reply.status == 0) { /* confirmed by its code */
    uint8_t tag[MLF_MAC_BYTES];
    CHECK(reply.size == sizeof tag);
    (void)mlf_crypto_mac(tag, host->key, 0, reply.payload, HEADER + 1u);
    CHECK(memcmp(tag, &reply.payload[HEADER + 1u], sizeof tag) == 0);
    host->is_open = 1;
    host->opened = host->number;
  }
  return reply.status;
}

static host_t begin(void) {
  host_t host = {0};
  start(1);
  greet(&host, 0x11223344u);
  CHECK(open_by(&host, 1) == 0);
  return host;
}

static void write_twins(host_t *host) {
  CHECK(ASK(host, MLF_RPC_WRITE, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0xFF, 0xFF).status == 0);
  CHECK(ASK(host, MLF_RPC_WRITE, 0, 1, 0, 0, 0, 0, 9, 20, 30, 40, 50).status == 0);
}

static int8_t run(host_t *host) { return ASK(host, MLF_RPC_RUN, 0, 1, 0, 0, 0).status; }

/* A message that the host of the session did not make just now: no effect, and no content in the answer. */
static void check_nothing(const uint8_t *payload, size_t size) {
  uint32_t before[STATE_WORDS];
  const uint32_t runs = fake_runs;
  const uint64_t counter = secure.counter;
  const uint32_t session = rpc->session;
  const uint16_t sequence = rpc->last_sequence;
  memcpy(before, state, sizeof state);
  const reply_t reply = deliver(payload, size);
  CHECK(fake_runs == runs && secure.counter == counter && rpc->session == session);
  CHECK(rpc->last_sequence == sequence && memcmp(before, state, sizeof state) == 0);
  CHECK(mlf_secure_is_open(&secure));
  if (reply.count != 0) {
    CHECK(reply.status == MLF_RPC_E_LOCKED || reply.status == MLF_RPC_E_SESSION ||
          reply.status == MLF_RPC_E_SEQUENCE || reply.status == MLF_RPC_E_VERSION);
    CHECK(reply.size <= 4u);
  }
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void test_closed(void) {
  static const uint8_t body[64];
  host_t host = {0};
  start(1);
  greet(&host, 5);
  const uint32_t runs = fake_runs;
  for (uint32_t opcode = 0; opcode < 128; opcode++) {
    for (size_t size = 0; size <= sizeof body; size++) {
      const int8_t status = ask(&host, (uint8_t)opcode, body, size).status;
      if (opcode == MLF_RPC_CHALLENGE && size == 32) {
        CHECK(status == 0 || status == MLF_RPC_E_WAIT);
      } else if (opcode == MLF_RPC_HELLO || opcode == MLF_RPC_BUILD) {
        CHECK(status == (size == 0 ? 0 : MLF_RPC_E_LENGTH));
      } else if (opcode == MLF_RPC_CHALLENGE || opcode == MLF_RPC_OPEN) {
        CHECK(status == MLF_RPC_E_LENGTH);
      } else {
        CHECK(status == MLF_RPC_E_LOCKED);
      }
    }
  }
  CHECK(fake_runs == runs);
  const reply_t hello = ask(&host, MLF_RPC_HELLO, NULL, 0);
  CHECK(hello.payload[HEADER + 4] == 0 && hello.size == 18u);          /* no models, no name */
  CHECK(hello.payload[HEADER + 5] == (MLF_RPC_CAN_BUILD | MLF_RPC_CAN_SECURE)); /* nothing else */
}

static void test_open(void) {
  for (uint32_t key = 0; key < 2; key++) {
    host_t host = {0};
    start(1);
    greet(&host, 7);
    CHECK(open_by(&host, key) == 0);
    const reply_t hello = ask(&host, MLF_RPC_HELLO, NULL, 0);
    CHECK(hello.status == 0 && hello.payload[HEADER + 4] == FAKE_NUM_MODELS);
    CHECK((size_t)(hello.payload[HEADER + 2] | hello.payload[HEADER + 3] << 8) == MOST - MLF_MAC_BYTES);
    write_twins(&host);
    CHECK(run(&host) == 0);
    CHECK(ASK(&host, MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 4, 0).status == 0);
    CHECK(ASK(&host, MLF_RPC_STEP, 0, 0, 0).status == MLF_RPC_E_OPCODE); /* not in the image */
    greet(&host, 8); /* the next session has to be opened again */
    CHECK(run(&host) == MLF_RPC_E_LOCKED);
  }
}

static void test_signatures(void) {
  uint8_t body[MLF_SECURE_KEY_ID_BYTES + MLF_SIGNATURE_BYTES];
  uint8_t key[MLF_SESSION_KEY_BYTES];
  host_t host = {0};
  start(1);
  greet(&host, 9);
  CHECK(ask(&host, MLF_RPC_OPEN, body, sizeof body).status == MLF_E_STATE); /* no challenge */
  CHECK(open_by(&host, 2) == MLF_RPC_E_SIGNATURE);                        /* a key of somebody else */
  for (uint32_t bit = 0; bit < 8 * sizeof body; bit++) {
    now += 100 * HZ;
    const reply_t given = challenge(&host);
    CHECK(given.status == 0);
    answer(&host, secret, &given.payload[HEADER + 1], 0, body, key);
    body[bit / 8] = (uint8_t)(body[bit / 8] ^ 1u << bit % 8);
    CHECK(ask(&host, MLF_RPC_OPEN, body, sizeof body).status == MLF_RPC_E_SIGNATURE);
    body[bit / 8] = (uint8_t)(body[bit / 8] ^ 1u << bit % 8);
    CHECK(ask(&host, MLF_RPC_OPEN, body, sizeof body).status == MLF_E_STATE); /* a challenge is for one try */
  }
  now += 100 * HZ;
  CHECK(challenge(&host).status == 0);
  CHECK(ask(&host, MLF_RPC_OPEN, body, sizeof body).status == MLF_RPC_E_SIGNATURE); /* of an older challenge */
  const uint32_t own = host.session; /* made for another session */
  now += 100 * HZ;
  const reply_t given = challenge(&host);
  host.session ^= 1u;
  answer(&host, secret, &given.payload[HEADER + 1], 0, body, key);
  host.session = own;
  CHECK(ask(&host, MLF_RPC_OPEN, body, sizeof body).status == MLF_RPC_E_SIGNATURE);
}

static void test_entropy(void) {
  host_t host = {0};
  start(1);
  greet(&host, 9);
  is_dry = 1;
  CHECK(challenge(&host).status == MLF_RPC_E_ENTROPY);
  is_dry = 0;
  CHECK(run(&host) == MLF_RPC_E_LOCKED);
  CHECK(open_by(&host, 0) == 0);
}

static uint32_t milliseconds(const reply_t *reply) {
  const uint8_t *body = &reply->payload[HEADER + 1];
  CHECK(reply->size == 4);
  return body[0] | (uint32_t)body[1] << 8 | (uint32_t)body[2] << 16 | (uint32_t)body[3] << 24;
}

static void test_rate(void) {
  host_t host = {0};
  start(1);
  greet(&host, 9);
  for (uint32_t i = 0; i < MLF_SECURE_FREE_ATTEMPTS; i++) {
    CHECK(challenge(&host).status == 0);
  }
  for (uint32_t i = 0, wait_s = 1; i < 12; i++, wait_s = wait_s < 64 ? 2 * wait_s : 64) {
    const reply_t refused = challenge(&host);
    CHECK(refused.status == MLF_RPC_E_WAIT);
    CHECK(milliseconds(&refused) == 1000u * wait_s + 1u);
    greet(&host, 100 + i); /* another session does not help */
    now += (uint64_t)wait_s * HZ - 1u;
    CHECK(challenge(&host).status == MLF_RPC_E_WAIT);
    now += 1u;
    CHECK(challenge(&host).status == 0);
  }
  now += 64 * HZ;
  CHECK(open_by(&host, 0) == 0);
  greet(&host, 1);
  CHECK(challenge(&host).status == 0); /* counted anew */
  start(0); /* no clock */
  greet(&host, 9);
  for (uint32_t i = 0; i < MLF_SECURE_MOST_ATTEMPTS; i++) {
    CHECK(challenge(&host).status == 0);
  }
  const reply_t refused = challenge(&host);
  CHECK(refused.status == MLF_RPC_E_WAIT && milliseconds(&refused) == MLF_SECURE_NEVER);
}

/* All that a host sent, sent again: in the session, in the next one, and after a reset. */
static void test_replayed(void) {
  message_t all[12];
  size_t count = 0;
  host_t host = {0};
  uint8_t body[MLF_SECURE_KEY_ID_BYTES + MLF_SIGNATURE_BYTES];
  uint8_t public_key[32];
  start(1);
  host.session = 0x11223344u;
  all[count] = make(&host, MLF_RPC_HELLO, NULL, 0);
  CHECK(deliver(all[count].payload, all[count].size).status == 0);
  (void)mlf_crypto_x25519_public(public_key, secret);
  all[++count] = make(&host, MLF_RPC_CHALLENGE, public_key, sizeof public_key);
  const reply_t given = deliver(all[count].payload, all[count].size);
  answer(&host, secret, &given.payload[HEADER + 1], 0, body, host.key);
  all[++count] = make(&host, MLF_RPC_OPEN, body, sizeof body);
  CHECK(deliver(all[count].payload, all[count].size).status == 0);
  host.is_open = 1;
  host.opened = host.number;
  static const uint8_t inputs[2][18] = {{0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0xFF, 0xFF},
                                        {0, 1, 0, 0, 0, 0, 9, 20, 30, 40, 50}};
  all[++count] = make(&host, MLF_RPC_WRITE, inputs[0], 18);
  all[++count] = make(&host, MLF_RPC_WRITE, inputs[1], 11);
  static const uint8_t once[5] = {0, 1, 0, 0, 0};
  all[++count] = make(&host, MLF_RPC_RUN, once, sizeof once);
  for (size_t i = 3; i <= count; i++) {
    CHECK(deliver(all[i].payload, all[i].size).status == 0);
  }
  for (size_t i = 0; i < count; i++) {
    check_nothing(all[i].payload, all[i].size);
  }
  const uint32_t runs = fake_runs; /* the last one: answered as before, and not carried out again */
  CHECK(deliver(all[count].payload, all[count].size).status == 0);
  CHECK(fake_runs == runs && secure.counter == 3);
  for (int reset = 0; reset < 2; reset++) {
    host_t other = {0};
    if (reset) {
      start(1);
    } else {
      greet(&other, 77);
    }
    for (size_t i = 0; i <= count; i++) {
      const int8_t status = deliver(all[i].payload, all[i].size).status;
      CHECK(i < 2 ? status == 0 : i == 2 ? status == MLF_RPC_E_SIGNATURE : status == MLF_RPC_E_LOCKED);
    }
    CHECK(fake_runs == runs && !mlf_secure_is_open(&secure));
  }
}

/* Sequence numbers have 16 bits, the counter of the session 64: an old message does not become new again. */
static void test_replayed_after_the_numbers_wrapped(void) {
  host_t host = begin();
  write_twins(&host);
  static const uint8_t once[5] = {0, 1, 0, 0, 0};
  const message_t old = make(&host, MLF_RPC_RUN, once, sizeof once);
  CHECK(deliver(old.payload, old.size).status == 0);
  for (uint32_t i = 0; i < 140000; i++) {
    CHECK(ask(&host, MLF_RPC_BUILD, NULL, 0).status == 0);
    if (i % 97 == 0) {
      check_nothing(old.payload, old.size);
    }
  }
}

static void test_reordered_and_lost(void) {
  host_t host = begin();
  for (uint8_t i = 0; i < 100; i++) {
    const message_t first = make(&host, MLF_RPC_WRITE, (const uint8_t[]){0, 0, 0, 0, 0, 0, i}, 7);
    const message_t second = make(&host, MLF_RPC_WRITE, (const uint8_t[]){0, 0, 0, 0, 0, 0, i, i}, 8);
    CHECK(deliver(second.payload, second.size).status == 0); /* as if the first were lost */
    check_nothing(first.payload, first.size);
  }
  CHECK(ask(&host, MLF_RPC_BUILD, NULL, 0).status == 0);
}

static void test_truncated_and_changed(void) {
  host_t host = begin();
  write_twins(&host);
  static const uint8_t once[5] = {0, 1, 0, 0, 0};
  message_t good = make(&host, MLF_RPC_RUN, once, sizeof once);
  const message_t kept = good;
  for (size_t size = 0; size < good.size; size++) {
    check_nothing(good.payload, size);
    check_nothing(&good.payload[good.size - size], size);
  }
  for (size_t more = 1; more <= 20; more++) {
    check_nothing(good.payload, good.size + more);
  }
  for (uint32_t bit = 0; bit < 8 * good.size; bit++) {
    good.payload[bit / 8] = (uint8_t)(good.payload[bit / 8] ^ 1u << bit % 8);
    check_nothing(good.payload, good.size);
    good.payload[bit / 8] = (uint8_t)(good.payload[bit / 8] ^ 1u << bit % 8);
  }
  const uint32_t runs = fake_runs;
  CHECK(deliver(kept.payload, kept.size).status == 0); /* nothing of that has done it harm */
  CHECK(fake_runs == runs + 1);
}

/* Another host, with another session's key, with none, and with its own session. */
static void test_foreign(void) {
  host_t old = begin();
  host_t host = old;
  greet(&host, 0x55u);
  CHECK(open_by(&host, 0) == 0);
  write_twins(&host);
  host_t thief = host; /* knows session and numbers, but not the key */
  memcpy(thief.key, old.key, sizeof old.key);
  CHECK(memcmp(host.key, old.key, sizeof old.key) != 0);
  static const uint8_t once[5] = {0, 1, 0, 0, 0};
  for (int i = 0; i < 1000; i++) {
    const message_t forged = make(&thief, MLF_RPC_RUN, once, sizeof once);
    check_nothing(forged.payload, forged.size);
  }
  thief.is_open = 0;
  for (uint32_t opcode = 0; opcode < 256; opcode++) {
    const message_t bare = make(&thief, (uint8_t)opcode, once, opcode == MLF_RPC_HELLO ? 0 : sizeof once);
    check_nothing(bare.payload, bare.size);
  }
  const message_t late = make(&old, MLF_RPC_RUN, once, sizeof once);
  check_nothing(late.payload, late.size);
  CHECK(run(&host) == 0);
  greet(&thief, 0x66u); /* it can end the session, and gets nothing of it */
  CHECK(run(&thief) == MLF_RPC_E_LOCKED);
  CHECK(ASK(&thief, MLF_RPC_READ, 0, 1, 0, 0, 0, 0, 0, 4, 0).status == MLF_RPC_E_LOCKED);
  CHECK(run(&host) == MLF_RPC_E_SESSION);
  for (size_t i = 0; i < STATE_WORDS; i++) {
    CHECK(state[i] == 0);
  }
}

static void test_random(void) {
  host_t host = begin();
  write_twins(&host);
  uint8_t payload[MOST];
  for (uint32_t i = 0; i < 300000; i++) {
    const size_t size = HEADER + random_below(64);
    for (size_t k = 0; k < size; k++) {
      payload[k] = (uint8_t)random_below(256);
    }
    payload[0] = MLF_RPC_VERSION;
    payload[1] = (uint8_t)(payload[1] & 0x7Fu);
    memcpy(&payload[4], (const uint8_t[]){0x44, 0x33, 0x22, 0x11}, 4);
    payload[2] = (uint8_t)(host.number + 1u + random_below(3));
    payload[3] = (uint8_t)((host.number + 1u) >> 8);
    check_nothing(payload, size);
  }
}

int main(void) {
  test_closed();
  test_open();
  test_signatures();
  test_entropy();
  test_rate();
  test_replayed();
  test_replayed_after_the_numbers_wrapped();
  test_reordered_and_lost();
  test_truncated_and_changed();
  test_foreign();
  test_random();
  free(rpc);
  printf("%lu checks\n", check_count);
  return 0;
}
