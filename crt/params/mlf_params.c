/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_params.h"

#include <string.h>

/* Offsets in the header: crt/BLOBS.md. */
enum {
  AT_VERSION = 4,
  AT_HEADER_BYTES = 6,
  AT_BLOB_BYTES = 8,
  AT_DATA_BYTES = 12,
  AT_DATA_CRC = 16,
  AT_HEADER_CRC = 20,
  AT_ZERO_1 = 24,
  AT_ZERO_2 = 28,
  AT_GRAPH_ID = 32
};

mlf_blob_status_t mlf_params_open(mlf_params_t *out_params, const uint8_t *blob, size_t size,
                                  const mlf_params_fit_t *fit) {
  if ((uintptr_t)blob % MLF_PARAMS_ALIGNMENT != 0) {
    return MLF_BLOB_E_ALIGN;
  }
  if (size < MLF_PARAMS_HEADER_BYTES) {
    return MLF_BLOB_E_SIZE;
  }
  if (mlf_blob_u32(blob) != MLF_PARAMS_MAGIC || mlf_blob_u16(&blob[AT_VERSION]) != MLF_PARAMS_VERSION ||
      mlf_blob_u16(&blob[AT_HEADER_BYTES]) != MLF_PARAMS_HEADER_BYTES) {
    return MLF_BLOB_E_FORMAT;
  }
  const uint32_t header_crc = mlf_blob_u32(&blob[AT_HEADER_CRC]);
  if (mlf_blob_crc32_hole(blob, MLF_PARAMS_HEADER_BYTES, AT_HEADER_CRC) != header_crc) {
    return MLF_BLOB_E_CRC;
  }
  if (mlf_blob_u32(&blob[AT_ZERO_1]) != 0 || mlf_blob_u32(&blob[AT_ZERO_2]) != 0) {
    return MLF_BLOB_E_FORMAT;
  }
  const uint32_t blob_bytes = mlf_blob_u32(&blob[AT_BLOB_BYTES]);
  const uint32_t data_bytes = mlf_blob_u32(&blob[AT_DATA_BYTES]);
  if (blob_bytes > size || blob_bytes < MLF_PARAMS_HEADER_BYTES ||
      blob_bytes - MLF_PARAMS_HEADER_BYTES != data_bytes) {
    return MLF_BLOB_E_SIZE;
  }
  const uint8_t *data = &blob[MLF_PARAMS_HEADER_BYTES];
  if (mlf_crc32(0, data, data_bytes) != mlf_blob_u32(&blob[AT_DATA_CRC])) {
    return MLF_BLOB_E_CRC;
  }
  if (data_bytes != fit->params_bytes || memcmp(&blob[AT_GRAPH_ID], fit->graph_id, 32) != 0) {
    return MLF_BLOB_E_MISMATCH;
  }
  out_params->data = data;
  out_params->data_bytes = data_bytes;
  out_params->blob_bytes = blob_bytes;
  out_params->header_crc = header_crc;
  return MLF_BLOB_OK;
}
