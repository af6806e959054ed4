/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_params_rpc.h - requests of the RPC server that show and replace parameters: an extension of
 * crt/rpc, specified in crt/BLOBS.md, section "Requests".
 *
 *     static const mlf_params_rpc_t params_rpc = {dynamics, NUM_MODELS};
 *     config.extension = mlf_params_rpc_handle;
 *     config.extension_ctx = &params_rpc;
 */
#ifndef MLF_PARAMS_RPC_H
#define MLF_PARAMS_RPC_H

#include "mlf_dynamic.h"
#include "mlf_rpc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1: the server has no requests that replace parameters by themselves: they come in signed packages. */
#ifndef MLF_PARAMS_SIGNED
#define MLF_PARAMS_SIGNED 0
#endif

#if MLF_PARAMS_SIGNED != 0 && MLF_PARAMS_SIGNED != 1
#error "MLF_PARAMS_SIGNED must be 0 or 1"
#endif

typedef enum {
  MLF_RPC_PARAMS_INFO = 0x40,  /* what is in force, and how it can be replaced */
  MLF_RPC_GRAPH_READ = 0x41,   /* read a piece of the graph blob */
  MLF_RPC_PARAMS_READ = 0x42,  /* read a piece of the parameter blob in force */
  MLF_RPC_PARAMS_BEGIN = 0x43, /* start to replace the parameters */
  MLF_RPC_PARAMS_WRITE = 0x44, /* the next piece of the new parameter blob */
  MLF_RPC_PARAMS_COMMIT = 0x45 /* check it, and put it in force */
} mlf_params_rpc_opcode_t;

typedef struct {
  mlf_dynamic_t *const *models; /* by the index that the host uses; NULL: not a dynamic one */
  uint8_t num_models;
} mlf_params_rpc_t;

/* Carry out one request; `ctx` is a const mlf_params_rpc_t *. See mlf_rpc_config_t.extension. */
int32_t mlf_params_rpc_handle(void *ctx, uint8_t opcode, const uint8_t *body, size_t size,
                              mlf_rpc_out_t *out);

#ifdef __cplusplus
}
#endif

#endif /* MLF_PARAMS_RPC_H */
