/* SPDX-License-Identifier: Apache-2.0 */
/* What is no request, and requests that are cut or damaged. */
#include <string.h>

#include "check.h"
#include "rpc_device.h"
#include "test_rpc.h"

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

unsigned long test_damage(void) {
  test_unknown();
  test_dropped();
  test_truncated_payloads();
  test_damaged_frames();
  test_random_requests();
  test_random_bytes();
  return check_count;
}
