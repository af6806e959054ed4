/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_secure.h"

#include <string.h>

enum { CLOSED, CHALLENGED, OPEN };

/* In mlf_secure_t.bytes: the device's secret, then what is signed. */
#define AT_LABEL 32u
#define AT_SESSION 48u
#define AT_NONCE 52u
#define AT_HOST 84u
#define AT_DEVICE 116u
#define AT_BUILD_SIZE 148u
#define AT_BUILD 149u

static const uint8_t label[16] = "mlf-session-1";

/* memset() that no optimiser removes. */
static void wipe(void *data, size_t size) {
  volatile uint8_t *bytes = data;
  while (size-- != 0) {
    bytes[size] = 0;
  }
}

mlf_status_t mlf_secure_init(mlf_secure_t *secure, const mlf_secure_config_t *config) {
  if (secure == NULL || config == NULL || config->keys == NULL || config->num_keys == 0 ||
      config->entropy == NULL) {
    return MLF_E_ARGUMENT;
  }
  (void)memset(secure, 0, sizeof *secure);
  secure->config = config;
  return MLF_OK;
}

void mlf_secure_close(mlf_secure_t *secure) {
  secure->phase = CLOSED;
  secure->counter = 0;
  wipe(secure->key, sizeof secure->key);
  wipe(secure->bytes, sizeof secure->bytes);
}

int mlf_secure_is_open(const mlf_secure_t *secure) { return secure->phase == OPEN; }

/* ---- the limit of attempts ------------------------------------------------------------------ */

static uint64_t now_of(const mlf_secure_config_t *config) { return config->ticks(config->ctx); }

static int has_clock(const mlf_secure_config_t *config) {
  return config->ticks != NULL && config->ticks_hz != 0;
}

/* Milliseconds until the next challenge; 0: now. */
static uint32_t wait_ms(const mlf_secure_t *secure) {
  const mlf_secure_config_t *config = secure->config;
  if (has_clock(config) == 0) {
    return secure->attempts >= MLF_SECURE_MOST_ATTEMPTS ? MLF_SECURE_NEVER : 0u;
  }
  if (secure->attempts < MLF_SECURE_FREE_ATTEMPTS) {
    return 0;
  }
  const uint64_t now = now_of(config);
  return now >= secure->wait_until
             ? 0u
             : (uint32_t)((secure->wait_until - now) * 1000u / config->ticks_hz) + 1u;
}

static void count_attempt(mlf_secure_t *secure) {
  secure->attempts += secure->attempts != UINT32_MAX ? 1u : 0u;
  if (has_clock(secure->config) != 0 && secure->attempts >= MLF_SECURE_FREE_ATTEMPTS) {
    const uint32_t above = secure->attempts - MLF_SECURE_FREE_ATTEMPTS;
    const uint32_t doublings = above < MLF_SECURE_MOST_DOUBLINGS ? above : MLF_SECURE_MOST_DOUBLINGS;
    secure->wait_until = now_of(secure->config) + ((uint64_t)secure->config->ticks_hz << doublings);
  }
}

/* ---- opening -------------------------------------------------------------------------------- */

mlf_secure_status_t mlf_secure_challenge(mlf_secure_t *secure, uint32_t session,
                                         const uint8_t host[MLF_X25519_BYTES],
                                         uint8_t out_reply[MLF_SECURE_REPLY_BYTES], uint32_t *out_wait_ms) {
  mlf_secure_close(secure);
  *out_wait_ms = wait_ms(secure);
  if (*out_wait_ms != 0) {
    return MLF_SECURE_E_WAIT;
  }
  count_attempt(secure);
  uint8_t *bytes = secure->bytes;
  if (secure->config->entropy(bytes, 32u) != 0 ||
      secure->config->entropy(&bytes[AT_NONCE], MLF_SECURE_NONCE_BYTES) != 0 ||
      mlf_crypto_x25519_public(&bytes[AT_DEVICE], bytes) != 0) {
    mlf_secure_close(secure);
    return MLF_SECURE_E_ENTROPY;
  }
  (void)memcpy(&bytes[AT_LABEL], label, sizeof label);
  for (uint32_t i = 0; i < 4u; i++) {
    bytes[AT_SESSION + i] = (uint8_t)(session >> (8u * i));
  }
  (void)memcpy(&bytes[AT_HOST], host, MLF_X25519_BYTES);
  (void)memcpy(out_reply, &bytes[AT_NONCE], MLF_SECURE_NONCE_BYTES);
  (void)memcpy(&out_reply[MLF_SECURE_NONCE_BYTES], &bytes[AT_DEVICE], MLF_X25519_BYTES);
  secure->phase = CHALLENGED;
  return MLF_SECURE_OK;
}

static int is_signed(const mlf_secure_t *secure, size_t size, const uint8_t *key_id,
                     const uint8_t *signature) {
  const mlf_secure_config_t *config = secure->config;
  for (uint32_t i = 0; i < config->num_keys; i++) {
    if (memcmp(config->keys[i], key_id, MLF_SECURE_KEY_ID_BYTES) == 0) {
      return mlf_crypto_verify(signature, config->keys[i], &secure->bytes[AT_LABEL], size) == 0;
    }
  }
  return 0;
}

/* The key of the session: the first half of SHA-512 over the shared secret and what was signed. */
static int derive(mlf_secure_t *secure, size_t size) {
  uint8_t digest[MLF_SHA512_BYTES];
  uint8_t shared[MLF_X25519_BYTES];
  int failed = mlf_crypto_x25519(shared, secure->bytes, &secure->bytes[AT_HOST]);
  (void)memcpy(secure->bytes, shared, sizeof shared);
  failed |= mlf_crypto_sha512(digest, secure->bytes, AT_LABEL + size);
  (void)memcpy(secure->key, digest, sizeof secure->key);
  wipe(digest, sizeof digest);
  wipe(shared, sizeof shared);
  wipe(secure->bytes, sizeof secure->bytes);
  return failed == 0;
}

mlf_secure_status_t mlf_secure_open(mlf_secure_t *secure, const uint8_t *build_id, size_t size,
                                    const uint8_t key_id[MLF_SECURE_KEY_ID_BYTES],
                                    const uint8_t signature[MLF_SIGNATURE_BYTES]) {
  if (secure->phase != CHALLENGED || size > MLF_SECURE_MOST_BUILD_ID) {
    return MLF_SECURE_E_STATE;
  }
  const size_t signed_bytes = AT_BUILD - AT_LABEL + size;
  secure->bytes[AT_BUILD_SIZE] = (uint8_t)size;
  if (size != 0) {
    (void)memcpy(&secure->bytes[AT_BUILD], build_id, size);
  }
  if (is_signed(secure, signed_bytes, key_id, signature) == 0 || derive(secure, signed_bytes) == 0) {
    mlf_secure_close(secure);
    return MLF_SECURE_E_SIGNATURE;
  }
  secure->attempts = 0;
  secure->phase = OPEN;
  return MLF_SECURE_OK;
}

/* ---- messages ------------------------------------------------------------------------------- */

/* Non-zero when they are equal; takes the same time wherever they differ. */
static int is_equal(const uint8_t *a, const uint8_t *b, size_t size) {
  uint8_t difference = 0;
  for (size_t i = 0; i < size; i++) {
    difference = (uint8_t)(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

int mlf_secure_accept(mlf_secure_t *secure, uint16_t ahead, const uint8_t *payload, size_t size) {
  uint8_t tag[MLF_MAC_BYTES];
  if (secure->phase != OPEN || ahead == 0 || size < MLF_MAC_BYTES) {
    return 0;
  }
  const size_t message = size - MLF_MAC_BYTES;
  if (mlf_crypto_mac(tag, secure->key, secure->counter + ahead, payload, message) != 0 ||
      !is_equal(tag, &payload[message], sizeof tag)) {
    return 0;
  }
  secure->counter += ahead;
  return 1;
}

void mlf_secure_tag(const mlf_secure_t *secure, const uint8_t *payload, size_t size,
                    uint8_t out_tag[MLF_MAC_BYTES]) {
  if (mlf_crypto_mac(out_tag, secure->key, secure->counter, payload, size) != 0) {
    (void)memset(out_tag, 0, MLF_MAC_BYTES);
  }
}
