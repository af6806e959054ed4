/* SPDX-License-Identifier: Apache-2.0 */
/* Packages of the tiny model, signed with the fake cryptography. */
#ifndef TINY_PACKAGE_H
#define TINY_PACKAGE_H

#include "mlf_package.h"
#include "tiny_model.h"

#define TINY_CASES 80u /* two cases of 36 bytes, filled up */
#define TINY_BODY (TINY_BLOB + TINY_CASES)
#define TINY_PACKAGE (MLF_PACKAGE_HEAD_BYTES + TINY_BODY)
#define TINY_SEAL (TINY_CASES + MLF_PACKAGE_HEAD_BYTES)

extern const uint8_t tiny_keys[3][MLF_PUBLIC_KEY_BYTES];

/* Write a package of the parameters made from `seed`; its cases expect the outputs of `expected_seed`. */
void tiny_package(uint8_t *out, const uint8_t *graph, uint8_t seed, uint8_t expected_seed, uint32_t version,
                  uint32_t key);

/* Set hashes and signature right, by the key of this index. */
void tiny_package_sign(uint8_t *package, uint32_t key);

#endif /* TINY_PACKAGE_H */
