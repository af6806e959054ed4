/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of packages: format and signature. */
#include "mlf_package.h"

#include <string.h>

/* Offsets of numbers in a head: crt/PACKAGES.md. */
enum {
  AT_VERSION = 8,
  AT_PARAMS_BYTES = 12,
  AT_CASES_BYTES = 16,
  AT_ARENA_BYTES = 20,
  AT_NUM_CASES = 24,
  AT_NUM_REVOKED = 26,
  AT_ZERO = 27,
  AT_ZEROS = 296
};

/* What each head begins with: magic, format, its own size. */
static const uint8_t beginning[AT_VERSION] = {
    'M', 'L', 'F', 'K', MLF_PACKAGE_VERSION, 0, MLF_PACKAGE_HEAD_BYTES & 0xFFu, MLF_PACKAGE_HEAD_BYTES >> 8};

static int are_zero(const uint8_t *data, uint32_t from, uint32_t to) {
  uint8_t any = 0;
  for (; from < to; from++) {
    any = (uint8_t)(any | data[from]);
  }
  return any == 0;
}

int32_t mlf_package_read_head(mlf_package_head_t *out_head, const uint8_t *bytes, uint32_t total) {
  const uint32_t params_bytes = mlf_blob_u32(&bytes[AT_PARAMS_BYTES]);
  const uint32_t cases_bytes = mlf_blob_u32(&bytes[AT_CASES_BYTES]);
  const uint32_t num_cases = mlf_blob_u16(&bytes[AT_NUM_CASES]);
  const uint32_t num_revoked = bytes[AT_NUM_REVOKED];
  const uint32_t body = total - MLF_PACKAGE_HEAD_BYTES;
  if (memcmp(bytes, beginning, sizeof beginning) != 0 || params_bytes < MLF_PARAMS_HEADER_BYTES ||
      params_bytes > body || cases_bytes != body - params_bytes || body % MLF_PACKAGE_ALIGNMENT != 0 ||
      num_cases == 0 || num_revoked > MLF_PACKAGE_MOST_REVOKED ||
      !are_zero(bytes, AT_ZERO, MLF_PACKAGE_AT_GRAPH_ID) ||
      !are_zero(bytes, MLF_PACKAGE_AT_REVOKED + num_revoked * MLF_PACKAGE_KEY_ID_BYTES,
                MLF_PACKAGE_AT_KEY_ID) ||
      !are_zero(bytes, AT_ZEROS, MLF_PACKAGE_SIGNED_BYTES)) {
    return MLF_E_PACKAGE_FORMAT;
  }
  out_head->bytes = bytes;
  out_head->version = mlf_blob_u32(&bytes[AT_VERSION]);
  out_head->params_bytes = params_bytes;
  out_head->cases_bytes = cases_bytes;
  out_head->arena_bytes = mlf_blob_u32(&bytes[AT_ARENA_BYTES]);
  out_head->num_cases = (uint16_t)num_cases;
  out_head->num_revoked = (uint8_t)num_revoked;
  return MLF_BLOB_OK;
}

int mlf_package_revokes(const mlf_package_head_t *head, const uint8_t *id) {
  const uint8_t *revoked = &head->bytes[MLF_PACKAGE_AT_REVOKED];
  for (uint32_t i = 0; i < head->num_revoked; i++) {
    if (memcmp(&revoked[i * MLF_PACKAGE_KEY_ID_BYTES], id, MLF_PACKAGE_KEY_ID_BYTES) == 0) {
      return 1;
    }
  }
  return 0;
}

int32_t mlf_package_check_signer(const mlf_package_head_t *head, const mlf_package_trust_t *trust) {
  const uint8_t *id = &head->bytes[MLF_PACKAGE_AT_KEY_ID];
  for (uint32_t i = 0; i < trust->num_keys; i++) {
    if (memcmp(trust->keys[i], id, MLF_PACKAGE_KEY_ID_BYTES) == 0) {
      if (mlf_package_revokes(head, id)) {
        return MLF_E_PACKAGE_REVOKED;
      }
      return mlf_crypto_verify(&head->bytes[MLF_PACKAGE_SIGNED_BYTES], trust->keys[i], head->bytes,
                               MLF_PACKAGE_SIGNED_BYTES) == 0
                 ? MLF_BLOB_OK
                 : MLF_E_PACKAGE_SIGNATURE;
    }
  }
  return MLF_E_PACKAGE_KEY;
}
