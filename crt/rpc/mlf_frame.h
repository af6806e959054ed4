/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_frame.h - frames on a byte stream: COBS(payload, CRC-32) between zero bytes.
 *
 * The receiver is a state machine that is fed byte by byte and decodes in place; the sender may
 * encode a payload that lies at the end of the output buffer, so that each direction needs one
 * buffer. The format is specified in crt/PROTOCOL.md, section "Frames".
 */
#ifndef MLF_FRAME_H
#define MLF_FRAME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_FRAME_CRC_SIZE 4u

/* Bytes that a receive buffer needs for payloads of up to `payload` bytes. */
#define MLF_FRAME_RX_SIZE(payload) ((size_t)(payload) + MLF_FRAME_CRC_SIZE)

/* Bytes that hold any frame of a payload of `payload` bytes, both delimiters included. (COBS adds a
 * byte for every 254; counting one for every 128 spares small cores a division.) */
#define MLF_FRAME_TX_SIZE(payload) (MLF_FRAME_RX_SIZE(payload) + MLF_FRAME_RX_SIZE(payload) / 128u + 3u)

/* A payload inside the output buffer may start at this offset, or later. */
#define MLF_FRAME_TX_GAP(payload) (MLF_FRAME_RX_SIZE(payload) / 128u + 3u)

/* Encode one frame: 0x00, COBS(payload, CRC-32), 0x00. `payload` may lie in `out` from
 * MLF_FRAME_TX_GAP(size) on, and is then overwritten; elsewhere it must not overlap `out`. Returns the size
 * of the frame, or 0 when `capacity` is below MLF_FRAME_TX_SIZE(size): nothing is written then. */
size_t mlf_frame_encode(uint8_t *out, size_t capacity, const uint8_t *payload, size_t size);

typedef enum {
  MLF_FRAME_MORE = 0,   /* no frame ended with this byte */
  MLF_FRAME_READY = 1,  /* a good frame: `size` payload bytes are in `data` until the next push */
  MLF_FRAME_DROPPED = 2 /* data that is no frame ended: text, noise, too long, wrong CRC */
} mlf_frame_event_t;

typedef struct {
  uint8_t *data;   /* the caller's buffer */
  size_t capacity; /* MLF_FRAME_RX_SIZE(largest payload) */
  size_t size;     /* decoded bytes so far; after MLF_FRAME_READY the size of the payload */
  uint32_t crc;    /* after MLF_FRAME_READY: the CRC-32 that the payload came with */
  uint8_t left;    /* bytes until the next COBS code byte */
  uint8_t zero;    /* 1: the next code byte stands for a zero, too */
  uint8_t started; /* 1: inside a frame */
  uint8_t bad;     /* 1: did not fit; skip to the next delimiter */
  uint8_t done;    /* 1: `data` holds a finished frame, which the next byte replaces */
} mlf_frame_rx_t;

/* Start to receive into `data`, which must outlive `rx`. */
void mlf_frame_rx_init(mlf_frame_rx_t *rx, uint8_t *data, size_t capacity);

/* Take one received byte. After MLF_FRAME_READY the payload is the first rx->size bytes of rx->data, until the
 * next call. */
mlf_frame_event_t mlf_frame_rx_push(mlf_frame_rx_t *rx, uint8_t byte);

#ifdef __cplusplus
}
#endif

#endif /* MLF_FRAME_H */
