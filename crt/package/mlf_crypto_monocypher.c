/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_crypto.h by Monocypher 4 (src/monocypher.c, src/optional/monocypher-ed25519.c). */
#include <monocypher-ed25519.h>

#include "mlf_crypto.h"

int mlf_crypto_sha512(uint8_t out_digest[MLF_SHA512_BYTES], const uint8_t *data, size_t size) {
  crypto_sha512(out_digest, data, size);
  return 0;
}

int mlf_crypto_verify(const uint8_t signature[MLF_SIGNATURE_BYTES],
                      const uint8_t public_key[MLF_PUBLIC_KEY_BYTES], const uint8_t *message, size_t size) {
  return crypto_ed25519_check(signature, public_key, message, size);
}
