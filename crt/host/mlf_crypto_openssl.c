/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_crypto.h by OpenSSL's libcrypto, for projects that run on the host. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "mlf_crypto.h"

int mlf_crypto_sha512(uint8_t out_digest[MLF_SHA512_BYTES], const uint8_t *data, size_t size) {
  unsigned int written = 0;
  return EVP_Digest(data, size, out_digest, &written, EVP_sha512(), NULL) == 1 && written == MLF_SHA512_BYTES
             ? 0
             : -1;
}

int mlf_crypto_verify(const uint8_t signature[MLF_SIGNATURE_BYTES],
                      const uint8_t public_key[MLF_PUBLIC_KEY_BYTES], const uint8_t *message, size_t size) {
  int is_good = 0;
  EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, MLF_PUBLIC_KEY_BYTES);
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  if (key != NULL && context != NULL && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1) {
    is_good = EVP_DigestVerify(context, signature, MLF_SIGNATURE_BYTES, message, size) == 1;
  }
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(key);
  return is_good ? 0 : -1;
}

int mlf_crypto_x25519_public(uint8_t out_public[MLF_X25519_BYTES], const uint8_t secret[MLF_X25519_BYTES]) {
  size_t size = MLF_X25519_BYTES;
  EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, MLF_X25519_BYTES);
  const int is_done =
      key != NULL && EVP_PKEY_get_raw_public_key(key, out_public, &size) == 1 && size == MLF_X25519_BYTES;
  EVP_PKEY_free(key);
  return is_done ? 0 : -1;
}

/* EVP_PKEY_derive() fails when the result is zero. */
int mlf_crypto_x25519(uint8_t out_shared[MLF_X25519_BYTES], const uint8_t secret[MLF_X25519_BYTES],
                      const uint8_t public_key[MLF_X25519_BYTES]) {
  size_t size = MLF_X25519_BYTES;
  EVP_PKEY *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, MLF_X25519_BYTES);
  EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, public_key, MLF_X25519_BYTES);
  EVP_PKEY_CTX *context = own != NULL ? EVP_PKEY_CTX_new(own, NULL) : NULL;
  const int is_done = context != NULL && peer != NULL && EVP_PKEY_derive_init(context) == 1 &&
                      EVP_PKEY_derive_set_peer(context, peer) == 1 &&
                      EVP_PKEY_derive(context, out_shared, &size) == 1 && size == MLF_X25519_BYTES;
  EVP_PKEY_CTX_free(context);
  EVP_PKEY_free(peer);
  EVP_PKEY_free(own);
  return is_done ? 0 : -1;
}

int mlf_crypto_mac(uint8_t out_tag[MLF_MAC_BYTES], const uint8_t key[MLF_SESSION_KEY_BYTES], uint64_t counter,
                   const uint8_t *message, size_t size) {
  size_t written = 0;
  size_t tag_bytes = MLF_MAC_BYTES;
  uint8_t number[8];
  for (uint32_t i = 0; i < sizeof number; i++) {
    number[i] = (uint8_t)(counter >> (8u * i));
  }
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &tag_bytes),
                               OSSL_PARAM_construct_end()};
  EVP_MAC *blake = EVP_MAC_fetch(NULL, "BLAKE2BMAC", NULL);
  EVP_MAC_CTX *context = blake != NULL ? EVP_MAC_CTX_new(blake) : NULL;
  const int is_done = context != NULL && EVP_MAC_init(context, key, MLF_SESSION_KEY_BYTES, params) == 1 &&
                      EVP_MAC_update(context, number, sizeof number) == 1 &&
                      EVP_MAC_update(context, message, size) == 1 &&
                      EVP_MAC_final(context, out_tag, &written, MLF_MAC_BYTES) == 1 &&
                      written == MLF_MAC_BYTES;
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(blake);
  return is_done ? 0 : -1;
}
