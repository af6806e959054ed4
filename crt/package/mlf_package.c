/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of packages: format and signature. */
#include "mlf_package.h"

#include <string.h>

/* Offsets in a head: crt/PACKAGES.md. */
enum {
  AT_FORMAT = 4,
  AT_HEAD_BYTES = 6,
  AT_VERSION = 8,
  AT_PARAMS_BYTES = 12,
  AT_CASES_BYTES = 16,
  AT_ARENA_BYTES = 20,
  AT_NUM_CASES = 24,
  AT_NUM_REVOKED = 26,
  AT_ZERO = 27,
  AT_GRAPH_ID = 32,
  AT_CODE_ID = 64,
  AT_PARAMS_SHA512 = 96,
  AT_CASES_SHA512 = 160,
  AT_REVOKED = 256,
  AT_KEY_ID = 288,
  AT_ZEROS = 296
};

static int are_zero(const uint8_t *data, size_t size) {
  uint8_t any = 0;
  for (size_t i = 0; i < size; i++) {
    any = (uint8_t)(any | data[i]);
  }
  return any == 0;
}

static int has_id(const uint8_t *ids, uint32_t count, const uint8_t *id) {
  for (uint32_t i = 0; i < count; i++) {
    if (memcmp(&ids[i * MLF_PACKAGE_KEY_ID_BYTES], id, MLF_PACKAGE_KEY_ID_BYTES) == 0) {
      return 1;
    }
  }
  return 0;
}

int32_t mlf_package_read_head(mlf_package_head_t *out_head, const uint8_t *bytes) {
  const uint32_t params_bytes = mlf_blob_u32(&bytes[AT_PARAMS_BYTES]);
  const uint32_t cases_bytes = mlf_blob_u32(&bytes[AT_CASES_BYTES]);
  const uint32_t num_revoked = bytes[AT_NUM_REVOKED];
  if (mlf_blob_u32(bytes) != MLF_PACKAGE_MAGIC || mlf_blob_u16(&bytes[AT_FORMAT]) != MLF_PACKAGE_VERSION ||
      mlf_blob_u16(&bytes[AT_HEAD_BYTES]) != MLF_PACKAGE_HEAD_BYTES ||
      params_bytes < MLF_PARAMS_HEADER_BYTES || cases_bytes > UINT32_MAX - MLF_PACKAGE_HEAD_BYTES ||
      params_bytes > UINT32_MAX - MLF_PACKAGE_HEAD_BYTES - cases_bytes ||
      (params_bytes + cases_bytes) % MLF_PACKAGE_ALIGNMENT != 0 || mlf_blob_u16(&bytes[AT_NUM_CASES]) == 0 ||
      num_revoked > MLF_PACKAGE_MOST_REVOKED || !are_zero(&bytes[AT_ZERO], AT_GRAPH_ID - AT_ZERO) ||
      !are_zero(&bytes[AT_REVOKED + num_revoked * MLF_PACKAGE_KEY_ID_BYTES],
                (MLF_PACKAGE_MOST_REVOKED - num_revoked) * MLF_PACKAGE_KEY_ID_BYTES) ||
      !are_zero(&bytes[AT_ZEROS], MLF_PACKAGE_SIGNED_BYTES - AT_ZEROS)) {
    return MLF_E_PACKAGE_FORMAT;
  }
  out_head->bytes = bytes;
  out_head->graph_id = &bytes[AT_GRAPH_ID];
  out_head->code_id = &bytes[AT_CODE_ID];
  out_head->params_sha512 = &bytes[AT_PARAMS_SHA512];
  out_head->cases_sha512 = &bytes[AT_CASES_SHA512];
  out_head->revoked = &bytes[AT_REVOKED];
  out_head->key_id = &bytes[AT_KEY_ID];
  out_head->version = mlf_blob_u32(&bytes[AT_VERSION]);
  out_head->params_bytes = params_bytes;
  out_head->cases_bytes = cases_bytes;
  out_head->arena_bytes = mlf_blob_u32(&bytes[AT_ARENA_BYTES]);
  out_head->num_cases = (uint16_t)mlf_blob_u16(&bytes[AT_NUM_CASES]);
  out_head->num_revoked = (uint8_t)num_revoked;
  return MLF_BLOB_OK;
}

int32_t mlf_package_check_signer(const mlf_package_head_t *head, const mlf_package_trust_t *trust) {
  for (uint32_t i = 0; i < trust->num_keys; i++) {
    if (memcmp(trust->keys[i], head->key_id, MLF_PACKAGE_KEY_ID_BYTES) == 0) {
      if (has_id(head->revoked, head->num_revoked, head->key_id)) {
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
