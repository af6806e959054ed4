/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, sequence numbers and the rate of the line. */
#include <string.h>

#include "check.h"
#include "rpc_device.h"
#include "test_rpc.h"

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

/* ---- the rate of the line ------------------------------------------------------------------- */

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

unsigned long test_sessions(void) {
  test_session();
  test_two_hosts();
  test_duplicates();
  test_baud();
  test_several_at_once();
  return check_count;
}
