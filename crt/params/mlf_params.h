/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_params.h - a parameter blob: checked, then used where it lies. Format: crt/BLOBS.md.
 */
#ifndef MLF_PARAMS_H
#define MLF_PARAMS_H

#include "mlf_blob.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_PARAMS_MAGIC 0x50464C4Du /* "MLFP" */
#define MLF_PARAMS_VERSION 1u
#define MLF_PARAMS_HEADER_BYTES 96u
#define MLF_PARAMS_ALIGNMENT 16u

/* The graph that a blob must match. */
typedef struct {
  const uint8_t *graph_id; /* 32 bytes */
  uint32_t params_bytes;
} mlf_params_fit_t;

/* A good blob. */
typedef struct {
  const uint8_t *data; /* the parameters */
  uint32_t data_bytes;
  uint32_t blob_bytes;
  uint32_t header_crc; /* stands for all of the blob: the header holds the CRC of the data */
} mlf_params_t;

/* Check all of a blob that lies in at most `size` bytes and is aligned to MLF_PARAMS_ALIGNMENT.
 * On an error `out_params` is not written.
 * Returns MLF_BLOB_OK, E_ALIGN, E_SIZE, E_FORMAT, E_CRC or E_MISMATCH (good, but of another graph). */
MLF_WARN_UNUSED mlf_blob_status_t mlf_params_open(mlf_params_t *out_params, const uint8_t *blob, size_t size,
                                                  const mlf_params_fit_t *fit);

#ifdef __cplusplus
}
#endif

#endif /* MLF_PARAMS_H */
