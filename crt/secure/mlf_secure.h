/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_secure.h - secured sessions of the RPC server (MLF_RPC_SECURE): opened by a challenge and a signature,
 * every message with a counter and an authentication code. Specified in crt/PROTOCOL.md, "Secured sessions".
 *
 * The device draws a nonce and a key pair of X25519; the host signs them, its own public key, the number of
 * the session and the build id with a key that the image trusts. Both derive the key of the session from
 * what they agreed on. Nothing is encrypted.
 */
#ifndef MLF_SECURE_H
#define MLF_SECURE_H

#include "mlf/mlf.h"
#include "mlf_crypto.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_SECURE_NONCE_BYTES 32u
#define MLF_SECURE_REPLY_BYTES 64u   /* of a challenge: nonce, public key of the device */
#define MLF_SECURE_KEY_ID_BYTES 8u   /* the first bytes of a public key */
#define MLF_SECURE_MOST_BUILD_ID 59u /* bytes */

/* Challenges without a wait; then each doubles the wait of the next, from 1 s to 64 s. */
#define MLF_SECURE_FREE_ATTEMPTS 4u
#define MLF_SECURE_MOST_DOUBLINGS 6u

/* Challenges without a clock: no more until a reset. */
#define MLF_SECURE_MOST_ATTEMPTS 16u

/* milliseconds: until a reset */
#define MLF_SECURE_NEVER 0xFFFFFFFFu

typedef enum {
  MLF_SECURE_OK = 0,
  MLF_SECURE_E_STATE = -1,     /* no challenge is open */
  MLF_SECURE_E_WAIT = -2,      /* too many attempts */
  MLF_SECURE_E_ENTROPY = -3,   /* the source of random numbers failed */
  MLF_SECURE_E_SIGNATURE = -4, /* not the signature of a trusted key */
} mlf_secure_status_t;

typedef struct {
  const uint8_t (*keys)[MLF_PUBLIC_KEY_BYTES]; /* Ed25519 */
  uint8_t num_keys;
  /* Fill `out` with unpredictable bytes; 0 when that was done. Required. */
  int (*entropy)(uint8_t *out, size_t size);
  /* A counter that only goes up, and its frequency in Hz; NULL or 0: there is no clock. */
  mlf_ticks_t ticks;
  uint32_t ticks_hz;
  void *ctx; /* for ticks */
} mlf_secure_config_t;

/* One session; its members are private. */
typedef struct {
  const mlf_secure_config_t *config;
  uint64_t counter;    /* of the last request that was carried out; OPEN has 0 */
  uint64_t wait_until; /* ticks */
  uint32_t attempts;   /* challenges since a session was opened */
  uint8_t phase;
  uint8_t key[MLF_SESSION_KEY_BYTES];
  uint8_t bytes[32u + 16u + 4u + 32u + 32u + 32u + 1u + MLF_SECURE_MOST_BUILD_ID]; /* secret; what is signed */
} mlf_secure_t;

/* Start closed. `config` must outlive it. Returns MLF_OK, or MLF_E_ARGUMENT without keys or entropy. */
MLF_WARN_UNUSED mlf_status_t mlf_secure_init(mlf_secure_t *secure, const mlf_secure_config_t *config);

/* End the session, and forget its keys. */
void mlf_secure_close(mlf_secure_t *secure);

int mlf_secure_is_open(const mlf_secure_t *secure);

/* Answer a challenge: `host` is the public key of the host for this session. Returns MLF_SECURE_OK, _E_WAIT
 * and writes for how many milliseconds, or _E_ENTROPY. Ends the session that was open. */
MLF_WARN_UNUSED mlf_secure_status_t mlf_secure_challenge(mlf_secure_t *secure, uint32_t session,
                                                         const uint8_t host[MLF_X25519_BYTES],
                                                         uint8_t out_reply[MLF_SECURE_REPLY_BYTES],
                                                         uint32_t *out_wait_ms);

/* Open the session by a signature over the last challenge, which is used up whatever comes of it. `build_id`
 * is that of the image, `size` its bytes, 0: none. Returns MLF_SECURE_OK, _E_STATE or _E_SIGNATURE. */
MLF_WARN_UNUSED mlf_secure_status_t mlf_secure_open(mlf_secure_t *secure, const uint8_t *build_id, size_t size,
                                                    const uint8_t key_id[MLF_SECURE_KEY_ID_BYTES],
                                                    const uint8_t signature[MLF_SIGNATURE_BYTES]);

/* Check the code behind a request of `size` bytes, code included, whose number is `ahead` (1 to 32767) above
 * that of the last one. Returns non-zero when it is good: the request then is the last one. */
int mlf_secure_accept(mlf_secure_t *secure, uint16_t ahead, const uint8_t *payload, size_t size);

/* Write the code of a reply of `size` bytes to the last request. */
void mlf_secure_tag(const mlf_secure_t *secure, const uint8_t *payload, size_t size,
                    uint8_t out_tag[MLF_MAC_BYTES]);

#ifdef __cplusplus
}
#endif

#endif /* MLF_SECURE_H */
