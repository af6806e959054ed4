/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_crypto.h by Monocypher 3.1 or 4, whose two sources are a part of this file: with GCC's -fwhole-program
 * nothing stays of them but what these functions need.
 */
#include "mlf_crypto.h"

#define BLAKE2_NO_UNROLLING
#include <monocypher-ed25519.h>
#if defined(__GNUC__) && !defined(__clang__)
#define EXPORTED __attribute__((externally_visible))
#else
#define EXPORTED
#endif
#ifdef __GNUC__
void crypto_sha512_init(crypto_sha512_ctx *ctx) __attribute__((noinline)); /* 156 bytes, called twice */
#endif
#include <monocypher.c>
/* Names that both sources have. */
#undef FOR
#define align align_sha512
#define hash_reduce hash_reduce_sha512
#include <monocypher-ed25519.c>

EXPORTED int mlf_crypto_sha512(uint8_t out_digest[MLF_SHA512_BYTES], const uint8_t *data, size_t size) {
  crypto_sha512(out_digest, data, size);
  return 0;
}

EXPORTED int mlf_crypto_verify(const uint8_t signature[MLF_SIGNATURE_BYTES],
                               const uint8_t public_key[MLF_PUBLIC_KEY_BYTES], const uint8_t *message,
                               size_t size) {
  return crypto_ed25519_check(signature, public_key, message, size);
}

#ifndef MLF_PACKAGES_ONLY /* secured sessions */

EXPORTED int mlf_crypto_x25519_public(uint8_t out_public[MLF_X25519_BYTES],
                                      const uint8_t secret[MLF_X25519_BYTES]) {
  crypto_x25519_public_key(out_public, secret);
  return 0;
}

EXPORTED int mlf_crypto_x25519(uint8_t out_shared[MLF_X25519_BYTES], const uint8_t secret[MLF_X25519_BYTES],
                               const uint8_t public_key[MLF_X25519_BYTES]) {
  static const uint8_t zero[MLF_X25519_BYTES];
  crypto_x25519(out_shared, secret, public_key);
  return crypto_verify32(out_shared, zero) == 0;
}

EXPORTED int mlf_crypto_mac(uint8_t out_tag[MLF_MAC_BYTES], const uint8_t key[MLF_SESSION_KEY_BYTES],
                            uint64_t counter, const uint8_t *message, size_t size) {
  crypto_blake2b_ctx context;
  uint8_t number[8];
  for (uint32_t i = 0; i < sizeof number; i++) {
    number[i] = (uint8_t)(counter >> (8u * i));
  }
#ifdef CRYPTO_ARGON2_D /* 4 */
  crypto_blake2b_keyed_init(&context, MLF_MAC_BYTES, key, MLF_SESSION_KEY_BYTES);
#else
  crypto_blake2b_general_init(&context, MLF_MAC_BYTES, key, MLF_SESSION_KEY_BYTES);
#endif
  crypto_blake2b_update(&context, number, sizeof number);
  crypto_blake2b_update(&context, message, size);
  crypto_blake2b_final(&context, out_tag);
  return 0;
}

#endif
