/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_CRYPTO_H
#define FAKE_CRYPTO_H

#include "mlf_crypto.h"

/* Sign so that the fake mlf_crypto_verify() agrees. */
void fake_sign(uint8_t out_signature[MLF_SIGNATURE_BYTES], const uint8_t public_key[MLF_PUBLIC_KEY_BYTES],
               const uint8_t *message, size_t size);

#endif /* FAKE_CRYPTO_H */
