/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_crypto.h - the cryptography of packages and secured sessions, from a library that the project is
 * given: mlf_crypto_monocypher.c, mlf_crypto_openssl.c, or functions of the application's own.
 */
#ifndef MLF_CRYPTO_H
#define MLF_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_SHA512_BYTES 64u
#define MLF_PUBLIC_KEY_BYTES 32u
#define MLF_SIGNATURE_BYTES 64u
#define MLF_X25519_BYTES 32u /* of a secret, a public key, and what two agree on */
#define MLF_SESSION_KEY_BYTES 32u
#define MLF_MAC_BYTES 16u

/* SHA-512 (FIPS 180-4) of `size` bytes; returns non-zero when it failed. */
int mlf_crypto_sha512(uint8_t out_digest[MLF_SHA512_BYTES], const uint8_t *data, size_t size);

/* Verify a signature of Ed25519 (RFC 8032, no context, no prehash); 0 only when it is good. */
int mlf_crypto_verify(const uint8_t signature[MLF_SIGNATURE_BYTES],
                      const uint8_t public_key[MLF_PUBLIC_KEY_BYTES], const uint8_t *message, size_t size);

/* Public key of X25519 (RFC 7748) of 32 random bytes; returns non-zero when it failed. */
int mlf_crypto_x25519_public(uint8_t out_public[MLF_X25519_BYTES], const uint8_t secret[MLF_X25519_BYTES]);

/* Secret that is shared with the owner of a public key; returns non-zero when it failed, or may be zero for
 * every secret of ours. */
int mlf_crypto_x25519(uint8_t out_shared[MLF_X25519_BYTES], const uint8_t secret[MLF_X25519_BYTES],
                      const uint8_t public_key[MLF_X25519_BYTES]);

/* Authentication code of a message: keyed BLAKE2b (RFC 7693) of 16 bytes over `counter` as a u64 and `size`
 * bytes; returns non-zero when it failed. */
int mlf_crypto_mac(uint8_t out_tag[MLF_MAC_BYTES], const uint8_t key[MLF_SESSION_KEY_BYTES], uint64_t counter,
                   const uint8_t *message, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* MLF_CRYPTO_H */
