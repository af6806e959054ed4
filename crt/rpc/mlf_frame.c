/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_frame.h"

#include <string.h>

#define COBS_FULL 0xFFu /* code of a block of 254 bytes that no zero follows */

/* ---- CRC-32 --------------------------------------------------------------------------------- */

uint32_t mlf_frame_crc32(uint32_t crc, const uint8_t *data, size_t size) {
  /* one entry for each value of four bits: 64 bytes of flash instead of 1 kB */
  static const uint32_t table[16] = {
      0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
      0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
  crc = ~crc;
  for (size_t i = 0; i < size; i++) {
    crc ^= data[i];
    crc = (crc >> 4) ^ table[crc & 15u];
    crc = (crc >> 4) ^ table[crc & 15u];
  }
  return ~crc;
}

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
  const uint32_t crc = mlf_frame_crc32(0, payload, size);
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
  return mlf_frame_crc32(0, rx->data, rx->size) == rx->crc ? MLF_FRAME_READY : MLF_FRAME_DROPPED;
}

void mlf_frame_rx_init(mlf_frame_rx_t *rx, uint8_t *data, size_t capacity) {
  memset(rx, 0, sizeof *rx);
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
