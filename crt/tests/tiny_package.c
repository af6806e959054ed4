/* SPDX-License-Identifier: Apache-2.0 */
#include "tiny_package.h"

#include <string.h>

#include "fake_crypto.h"

const uint8_t tiny_keys[3][MLF_PUBLIC_KEY_BYTES] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {11, 12, 13}, {21, 22, 23}};

static void put(uint8_t *out, uint32_t value, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    out[i] = (uint8_t)(value >> (8u * i));
  }
}

void tiny_package_sign(uint8_t *package, uint32_t key) {
  const uint8_t *body = &package[MLF_PACKAGE_HEAD_BYTES];
  (void)mlf_crypto_sha512(&package[96], body, TINY_BLOB);
  (void)mlf_crypto_sha512(&package[160], &body[TINY_BLOB], TINY_CASES);
  memcpy(&package[288], tiny_keys[key], MLF_PACKAGE_KEY_ID_BYTES);
  fake_sign(&package[MLF_PACKAGE_SIGNED_BYTES], tiny_keys[key], package, MLF_PACKAGE_SIGNED_BYTES);
}

void tiny_package(uint8_t *out, const uint8_t *graph, uint8_t seed, uint8_t expected_seed, uint32_t version,
                  uint32_t key) {
  uint8_t *cases = &out[MLF_PACKAGE_HEAD_BYTES + TINY_BLOB];
  memset(out, 0, TINY_PACKAGE);
  put(out, MLF_PACKAGE_MAGIC, 4);
  put(&out[4], MLF_PACKAGE_VERSION, 2);
  put(&out[6], MLF_PACKAGE_HEAD_BYTES, 2);
  put(&out[8], version, 4);
  put(&out[12], TINY_BLOB, 4);
  put(&out[16], TINY_CASES, 4);
  put(&out[20], TINY_ARENA, 4);
  put(&out[24], 2, 2);
  memcpy(&out[32], &graph[56], 32);
  memcpy(&out[64], &graph[88], 32);
  tiny_params(&out[MLF_PACKAGE_HEAD_BYTES], &graph[56], seed);
  for (uint32_t i = 0; i < 2; i++, cases += 36) {
    const uint8_t x = (uint8_t)(0x30u + i);
    memset(cases, x, TINY_IO);
    tiny_reference(&cases[TINY_IO + 4u], x, expected_seed);
  }
  tiny_package_sign(out, key);
}
