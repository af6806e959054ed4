/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check.h"
#include "mlf/mlf_crc32.h"
#include "mlf_frame.h"

#define LARGEST 600u

static uint8_t payload[LARGEST];
static uint8_t frame[MLF_FRAME_TX_SIZE(LARGEST)];
static uint8_t received[MLF_FRAME_RX_SIZE(LARGEST)];

/* Feeds bytes; returns good frames, adds dropped ones to *dropped. */
static uint32_t feed(mlf_frame_rx_t *rx, const uint8_t *data, size_t size, uint32_t *dropped) {
  uint32_t ready = 0;
  for (size_t i = 0; i < size; i++) {
    const mlf_frame_event_t event = mlf_frame_rx_push(rx, data[i]);
    ready += event == MLF_FRAME_READY;
    *dropped += event == MLF_FRAME_DROPPED;
  }
  return ready;
}

static void test_crc(void) {
  static const char digits[] = "123456789";
  uint8_t data[9];
  memcpy(data, digits, sizeof data);
  CHECK(mlf_crc32(0, data, 9) == 0xCBF43926u);
  CHECK(mlf_crc32(mlf_crc32(0, data, 4), &data[4], 5) == 0xCBF43926u);
  CHECK(mlf_crc32(0, data, 0) == 0);
}

static void fill(size_t size, int kind) {
  for (size_t i = 0; i < size; i++) {
    switch (kind) {
      case 0:
        payload[i] = 0;
        break;
      case 1:
        payload[i] = (uint8_t)(1u + i % 255u);
        break;
      case 2:
        payload[i] = 0xFF;
        break;
      default:
        payload[i] = (uint8_t)(random_below(4) == 0 ? 0 : random_below(256));
        break;
    }
  }
}

/* Every size around the block boundaries of COBS, each kind of content; also encoded in place. */
static void test_round_trip(void) {
  mlf_frame_rx_t rx;
  mlf_frame_rx_init(&rx, received, sizeof received);
  for (size_t size = 0; size <= LARGEST; size++) {
    for (int kind = 0; kind < 4; kind++) {
      uint32_t dropped = 0;
      fill(size, kind);
      const size_t length = mlf_frame_encode(frame, sizeof frame, payload, size);
      CHECK(length >= size + 7 && length <= MLF_FRAME_TX_SIZE(size));
      CHECK(frame[0] == 0 && frame[length - 1] == 0 && memchr(&frame[1], 0, length - 2) == NULL);
      CHECK(feed(&rx, frame, length, &dropped) == 1 && dropped == 0);
      CHECK(rx.size == size && memcmp(received, payload, size) == 0);
      CHECK(rx.crc == mlf_crc32(0, payload, size));

      static uint8_t in_place[sizeof frame];
      memset(in_place, 0, sizeof in_place);
      memcpy(&in_place[MLF_FRAME_TX_GAP(size)], payload, size);
      CHECK(mlf_frame_encode(in_place, sizeof in_place, &in_place[MLF_FRAME_TX_GAP(size)], size) == length);
      CHECK(memcmp(in_place, frame, length) == 0);
    }
  }
}

static void test_capacity(void) {
  for (size_t capacity = 0; capacity < MLF_FRAME_TX_SIZE(40); capacity++) {
    uint8_t *small = malloc(capacity + (capacity == 0));
    CHECK(small != NULL);
    CHECK(mlf_frame_encode(small, capacity, payload, 40) == 0);
    free(small);
  }
  CHECK(mlf_frame_encode(frame, sizeof frame, payload, SIZE_MAX) == 0);
}

/* A frame longer than the buffer is dropped whole, and the next one is received. */
static void test_oversized(void) {
  for (size_t room = MLF_FRAME_CRC_SIZE; room < 300; room += 37) {
    uint8_t *small = malloc(room);
    CHECK(small != NULL);
    mlf_frame_rx_t rx;
    mlf_frame_rx_init(&rx, small, room);
    for (size_t size = 0; size <= LARGEST; size++) {
      uint32_t dropped = 0;
      fill(size, 1);
      const size_t length = mlf_frame_encode(frame, sizeof frame, payload, size);
      const uint32_t fits = size + MLF_FRAME_CRC_SIZE <= room;
      CHECK(feed(&rx, frame, length, &dropped) == fits && dropped == 1 - fits);
    }
    free(small);
  }
}

/* A frame too long by what follows a whole one is not taken for the shorter one. */
static void test_oversized_behind_a_good_crc(void) {
  uint8_t small[20 + MLF_FRAME_CRC_SIZE];
  mlf_frame_rx_t rx;
  mlf_frame_rx_init(&rx, small, sizeof small);
  fill(20, 1);
  const uint32_t crc = mlf_crc32(0, payload, 20);
  for (uint32_t i = 0; i < 4; i++) {
    payload[20 + i] = (uint8_t)(crc >> 8 * i);
  }
  uint32_t dropped = 0;
  const size_t length = mlf_frame_encode(frame, sizeof frame, payload, 24);
  CHECK(feed(&rx, frame, length, &dropped) == 0 && dropped == 1);
}

/* Whatever bit is wrong, the frame is not taken for good, and the next one is. */
static void test_damage(void) {
  static uint8_t copy[sizeof frame];
  mlf_frame_rx_t rx;
  mlf_frame_rx_init(&rx, received, sizeof received);
  fill(60, 3);
  const size_t length = mlf_frame_encode(frame, sizeof frame, payload, 60);
  for (size_t bit = 8; bit < 8 * (length - 1); bit++) {
    uint32_t dropped = 0;
    memcpy(copy, frame, length);
    copy[bit / 8] = (uint8_t)(copy[bit / 8] ^ 1u << bit % 8);
    CHECK(feed(&rx, copy, length, &dropped) == 0 && dropped >= 1);
    CHECK(feed(&rx, frame, length, &dropped) == 1);
  }
  for (size_t cut = 1; cut + 1 < length; cut++) { /* a byte lost, and the end lost */
    uint32_t dropped = 0;
    memcpy(copy, frame, cut);
    memcpy(&copy[cut], &frame[cut + 1], length - cut - 1);
    CHECK(feed(&rx, copy, length - 1, &dropped) == 0 && dropped == 1);
    CHECK(feed(&rx, frame, cut, &dropped) == 0);
    CHECK(feed(&rx, frame, length, &dropped) == 1 && dropped == (cut > 1 ? 2 : 1));
  }
}

int main(void) {
  test_crc();
  test_round_trip();
  test_capacity();
  test_oversized();
  test_oversized_behind_a_good_crc();
  test_damage();
  printf("%lu checks\n", check_count);
  return 0;
}
