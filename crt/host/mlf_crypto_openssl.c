/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_crypto.h by OpenSSL's libcrypto, for projects that run on the host. */
#include <openssl/evp.h>

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
