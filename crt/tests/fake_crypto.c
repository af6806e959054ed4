/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_crypto.h for tests and fuzzing: fast, and a signature that a test can make. Worth nothing else. */
#include "fake_crypto.h"

#include <string.h>

int mlf_crypto_sha512(uint8_t out_digest[MLF_SHA512_BYTES], const uint8_t *data, size_t size) {
  uint64_t state = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) {
    state = (state ^ data[i]) * 1099511628211u;
  }
  for (uint32_t at = 0; at < MLF_SHA512_BYTES; at += 8u) {
    memcpy(&out_digest[at], &state, sizeof state);
    state = state * 6364136223846793005u + 1442695040888963407u;
  }
  return 0;
}

void fake_sign(uint8_t out_signature[MLF_SIGNATURE_BYTES], const uint8_t public_key[MLF_PUBLIC_KEY_BYTES],
               const uint8_t *message, size_t size) {
  (void)mlf_crypto_sha512(out_signature, message, size);
  for (uint32_t i = 0; i < MLF_SIGNATURE_BYTES; i++) {
    out_signature[i] = (uint8_t)(out_signature[i] ^ public_key[i % MLF_PUBLIC_KEY_BYTES]);
  }
}

int mlf_crypto_verify(const uint8_t signature[MLF_SIGNATURE_BYTES],
                      const uint8_t public_key[MLF_PUBLIC_KEY_BYTES], const uint8_t *message, size_t size) {
  uint8_t wanted[MLF_SIGNATURE_BYTES];
  fake_sign(wanted, public_key, message, size);
  return memcmp(wanted, signature, sizeof wanted);
}

/* Public is the secret with each byte changed; two public keys agree on their exclusive or. */
int mlf_crypto_x25519_public(uint8_t out_public[MLF_X25519_BYTES], const uint8_t secret[MLF_X25519_BYTES]) {
  for (uint32_t i = 0; i < MLF_X25519_BYTES; i++) {
    out_public[i] = (uint8_t)(secret[i] ^ 0x5Au);
  }
  return 0;
}

int mlf_crypto_x25519(uint8_t out_shared[MLF_X25519_BYTES], const uint8_t secret[MLF_X25519_BYTES],
                      const uint8_t public_key[MLF_X25519_BYTES]) {
  for (uint32_t i = 0; i < MLF_X25519_BYTES; i++) {
    out_shared[i] = (uint8_t)(secret[i] ^ 0x5Au ^ public_key[i]);
  }
  return 0;
}

int mlf_crypto_mac(uint8_t out_tag[MLF_MAC_BYTES], const uint8_t key[MLF_SESSION_KEY_BYTES], uint64_t counter,
                   const uint8_t *message, size_t size) {
  uint8_t inner[8 + MLF_SESSION_KEY_BYTES + MLF_SHA512_BYTES];
  uint8_t digest[MLF_SHA512_BYTES];
  memcpy(inner, &counter, 8);
  memcpy(&inner[8], key, MLF_SESSION_KEY_BYTES);
  (void)mlf_crypto_sha512(&inner[8 + MLF_SESSION_KEY_BYTES], message, size);
  (void)mlf_crypto_sha512(digest, inner, 8 + MLF_SESSION_KEY_BYTES + MLF_SHA512_BYTES);
  memcpy(out_tag, digest, MLF_MAC_BYTES);
  return 0;
}
