/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_frame.h"

#include <string.h>

#include "mlf/mlf_crc32.h"

#define COBS_FULL 0xFFu /* code of a block of 254 bytes that no zero follows */

/* ---- sending -------------------------------------------------------------------------------- */

typedef struct {
  uint8_t *out;
  size_t size;    /* bytes written or reserved */
  size_t code_at; /* where the code byte of the open block goes */
  uint32_t code;  /* its value so far */
} encoder_t;

static void close_block(encoder_t *encoder) {
  encoder->out[encoder->code_at] = (uint8_t)encoder->code;
  encoder->code_at = encoder->size++;
  encoder->code = 1;
}

static void encode_byte(encoder_t *encoder, uint8_t byte) {
  if (encoder->code == COBS_FULL) {
    close_block(encoder);
  }
  if (byte == 0) {
    close_block(encoder);
  } else {
    encoder->out[encoder->size++] = byte;
    encoder->code++;
  }
}

size_t mlf_frame_encode(uint8_t *out, size_t capacity, const uint8_t *payload, size_t size) {
  if (size > capacity || capacity < MLF_FRAME_TX_SIZE(size)) {
    return 0;
  }
  encoder_t encoder = {out, 2, 1, 1};
  const uint32_t crc = mlf_crc32(0, payload, size);
  out[0] = 0;
  for (size_t i = 0; i < size; i++) {
    encode_byte(&encoder, payload[i]);
  }
  for (uint32_t shift = 0; shift < 32; shift += 8) {
    encode_byte(&encoder, (uint8_t)(crc >> shift));
  }
  out[encoder.code_at] = (uint8_t)encoder.code;
  out[encoder.size++] = 0;
  return encoder.size;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void restart(mlf_frame_rx_t *rx) {
  rx->size = 0;
  rx->left = 0;
  rx->zero = 0;
  rx->started = 0;
  rx->bad = 0;
  rx->done = 0;
}

static void append(mlf_frame_rx_t *rx, uint8_t byte) {
  if (rx->size < rx->capacity) {
    rx->data[rx->size++] = byte;
  } else {
    rx->bad = 1;
  }
}

/* A delimiter came: judge what lies before it. */
static mlf_frame_event_t finish(mlf_frame_rx_t *rx) {
  const size_t size = rx->size;
  rx->done = 1;
  if (rx->bad != 0 || rx->left != 0 || size < MLF_FRAME_CRC_SIZE) {
    return MLF_FRAME_DROPPED;
  }
  rx->size = size - MLF_FRAME_CRC_SIZE;
  const uint8_t *end = &rx->data[rx->size];
  rx->crc = (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
  return mlf_crc32(0, rx->data, rx->size) == rx->crc ? MLF_FRAME_READY : MLF_FRAME_DROPPED;
}

void mlf_frame_rx_init(mlf_frame_rx_t *rx, uint8_t *data, size_t capacity) {
  (void)memset(rx, 0, sizeof *rx);
  rx->data = data;
  rx->capacity = capacity;
}

mlf_frame_event_t mlf_frame_rx_push(mlf_frame_rx_t *rx, uint8_t byte) {
  if (rx->done != 0) {
    restart(rx);
  }
  if (byte == 0) {
    return rx->started != 0 ? finish(rx) : MLF_FRAME_MORE;
  }
  rx->started = 1;
  if (rx->left != 0) {
    rx->left--;
    append(rx, byte);
  } else {
    if (rx->zero != 0) {
      append(rx, 0);
    }
    rx->left = (uint8_t)(byte - 1u);
    rx->zero = byte != COBS_FULL;
  }
  return MLF_FRAME_MORE;
}
