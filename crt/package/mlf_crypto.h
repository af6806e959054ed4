/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_crypto.h - the cryptography that packages need, from a library that the project is given:
 * mlf_crypto_monocypher.c, mlf_crypto_openssl.c, or functions of the application's own.
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

/* SHA-512 (FIPS 180-4) of `size` bytes; returns non-zero when it failed. */
int mlf_crypto_sha512(uint8_t out_digest[MLF_SHA512_BYTES], const uint8_t *data, size_t size);

/* Verify a signature of Ed25519 (RFC 8032, no context, no prehash); 0 only when it is good. */
int mlf_crypto_verify(const uint8_t signature[MLF_SIGNATURE_BYTES],
                      const uint8_t public_key[MLF_PUBLIC_KEY_BYTES], const uint8_t *message, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* MLF_CRYPTO_H */
