/* SPDX-License-Identifier: Apache-2.0 */
/* Secured sessions: CHALLENGE, OPEN, and who is admitted. */
#include "mlf_rpc_internal.h"

#if MLF_RPC_SECURE
int32_t mlf_rpc_do_challenge(mlf_rpc_t *rpc, const uint8_t *body, mlf_rpc_out_t *out) {
  uint8_t reply[MLF_SECURE_REPLY_BYTES];
  uint32_t wait_ms = 0;
  switch (mlf_secure_challenge(rpc->config->secure, rpc->session, body, reply, &wait_ms)) {
    case MLF_SECURE_OK:
      mlf_rpc_put_bytes(out, reply, sizeof reply);
      return MLF_OK;
    case MLF_SECURE_E_WAIT:
      mlf_rpc_put_u32(out, wait_ms);
      return MLF_RPC_E_WAIT;
    case MLF_SECURE_E_STATE:
    case MLF_SECURE_E_SIGNATURE:
    case MLF_SECURE_E_ENTROPY:
    default:
      return MLF_RPC_E_ENTROPY;
  }
}

int32_t mlf_rpc_do_open(const mlf_rpc_t *rpc, const uint8_t *body) {
  const mlf_rpc_config_t *config = rpc->config;
  const uint8_t *id = NULL;
  const size_t size = config->build_id != NULL ? config->build_id(config->ctx, &id) : 0;
  switch (mlf_secure_open(config->secure, id, size, body, &body[MLF_SECURE_KEY_ID_BYTES])) {
    case MLF_SECURE_OK:
      return MLF_OK;
    case MLF_SECURE_E_STATE:
      return MLF_E_STATE;
    case MLF_SECURE_E_WAIT:
    case MLF_SECURE_E_SIGNATURE:
    case MLF_SECURE_E_ENTROPY:
    default:
      return MLF_RPC_E_SIGNATURE;
  }
}

int mlf_rpc_is_admitted(mlf_rpc_t *rpc, const uint8_t *request, size_t size, uint16_t ahead,
                        size_t *out_size) {
  *out_size = size;
  if (mlf_secure_is_open(rpc->config->secure) != 0) {
    *out_size = size - MLF_RPC_TAG_SIZE;
    return size >= MLF_RPC_HEADER_SIZE + MLF_RPC_TAG_SIZE &&
           mlf_secure_accept(rpc->config->secure, ahead, request, size);
  }
  return request[1] == MLF_RPC_HELLO || request[1] == MLF_RPC_BUILD || request[1] == MLF_RPC_CHALLENGE ||
         request[1] == MLF_RPC_OPEN;
}
#else
typedef int mlf_rpc_no_secured_sessions; /* a translation unit must not be empty */
#endif
