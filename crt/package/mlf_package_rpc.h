/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_package_rpc.h - requests of the RPC server that take packages: an extension of crt/rpc, specified in
 * crt/PACKAGES.md, section "Requests". Those of mlf_params_rpc.h that only read are part of it.
 *
 *     static mlf_package_t *const receivers[] = {&receiver};
 *     static const mlf_package_rpc_t package_rpc = {&params_rpc, receivers, state, STATE_WORDS};
 *     config.extension = mlf_package_rpc_handle;
 *     config.extension_ctx = (void *)&package_rpc;
 */
#ifndef MLF_PACKAGE_RPC_H
#define MLF_PACKAGE_RPC_H

#include "mlf_package.h"
#include "mlf_params_rpc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  MLF_RPC_PACKAGE_INFO = 0x46,   /* versions, and how far a transfer is */
  MLF_RPC_PACKAGE_BEGIN = 0x47,  /* start to send a package */
  MLF_RPC_PACKAGE_WRITE = 0x48,  /* its next piece */
  MLF_RPC_PACKAGE_COMMIT = 0x49, /* verify it, run its cases, put it in force */
  MLF_RPC_PACKAGE_COPY = 0x4A    /* its next piece, from what is in force */
} mlf_package_rpc_opcode_t;

typedef struct {
  const mlf_params_rpc_t *params;
  mlf_package_t *const *receivers; /* by the index of the model; NULL: it takes no packages */
  uint32_t *state;                 /* of the server: cases that ran leave no inputs and outputs valid */
  size_t state_words;
} mlf_package_rpc_t;

/* Carry out one request; `ctx` is a const mlf_package_rpc_t *. See mlf_rpc_config_t.extension. */
int32_t mlf_package_rpc_handle(void *ctx, uint8_t opcode, const uint8_t *body, size_t size,
                               mlf_rpc_out_t *out);

#ifdef __cplusplus
}
#endif

#endif /* MLF_PACKAGE_RPC_H */
