/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_blob.h - shared by the loaders of graph and parameter blobs: statuses, CRC-32, little-endian numbers. The
 * formats are specified in crt/BLOBS.md.
 */
#ifndef MLF_BLOB_H
#define MLF_BLOB_H

#include <mlf/mlf.h>
#include <mlf/mlf_crc32.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Extents and parameters are used in place. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "blobs are little-endian, and so must be the machine"
#endif

/* Status of loading a blob or of replacing parameters. The numbers fit an i8, and differ from those of
 * mlf_status_t and of the protocol. */
typedef enum {
  MLF_BLOB_OK = 0,
  MLF_BLOB_E_SIZE = -64,     /* shorter or longer than its header says */
  MLF_BLOB_E_FORMAT = -65,   /* not such a blob, another version, or a reserved field is not 0 */
  MLF_BLOB_E_CRC = -66,      /* damaged */
  MLF_BLOB_E_LIMIT = -67,    /* the memory for it is too small */
  MLF_BLOB_E_INDEX = -68,    /* refers to a tensor, extent or name that does not exist */
  MLF_BLOB_E_RANGE = -69,    /* a tensor or workspace is outside its memory, or of another size */
  MLF_BLOB_E_KERNEL = -70,   /* no kernel of this index, or arguments that do not match it */
  MLF_BLOB_E_MISMATCH = -71, /* parameters of another graph */
  MLF_BLOB_E_ALIGN = -72,    /* wrong alignment */
  MLF_BLOB_E_FLASH = -73,    /* the store's driver failed, or its data reads back differently */
  MLF_BLOB_E_STATE = -74,    /* there is no store, no change is in progress, or it is not complete */
  MLF_BLOB_E_GAP = -75       /* the piece does not begin where the last one ended */
} mlf_blob_status_t;

/* CRC-32 of `size` bytes with the four from `hole` on taken as zeros; `hole` is at most size - 4. */
uint32_t mlf_blob_crc32_hole(const uint8_t *data, size_t size, size_t hole);

static inline uint32_t mlf_blob_u16(const uint8_t *data) {
  return (uint32_t)data[0] | (uint32_t)data[1] << 8;
}

static inline uint32_t mlf_blob_u32(const uint8_t *data) {
  return mlf_blob_u16(data) | mlf_blob_u16(&data[2]) << 16;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_BLOB_H */
