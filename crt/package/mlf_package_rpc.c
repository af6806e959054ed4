/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_package_rpc.h"

#include <string.h>

/* What a host needs to go on with a transfer: how much arrived, and of which package. */
static int32_t do_info(const mlf_package_t *package, mlf_rpc_out_t *out) {
  static const uint8_t none[MLF_PACKAGE_KEY_ID_BYTES];
  const mlf_package_config_t *config = package->config;
  const int is_known = package->total != 0 && package->received >= MLF_PACKAGE_HEAD_BYTES;
  const uint32_t numbers[] = {mlf_package_version(config->dynamic, config->trust),
                              config->trust->image_version,
                              config->dynamic->config->seal->most_bytes,
                              config->dynamic->config->driver->program_bytes,
                              is_known ? package->total : 0,
                              is_known ? package->received : 0};
  for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    mlf_rpc_put_u32(out, numbers[i]);
  }
  mlf_rpc_put_bytes(out, is_known ? &package->bytes[MLF_PACKAGE_SIGNED_BYTES] : none, sizeof none);
  mlf_rpc_put_u8(out, config->trust->num_keys);
  for (uint32_t i = 0; i < config->trust->num_keys; i++) {
    mlf_rpc_put_bytes(out, config->trust->keys[i], MLF_PACKAGE_KEY_ID_BYTES);
  }
  return MLF_BLOB_OK;
}

static int32_t do_write(mlf_package_t *package, uint8_t opcode, const uint8_t *request, size_t size,
                        mlf_rpc_out_t *out) {
  const uint32_t offset = mlf_blob_u32(request);
  const int32_t status =
      opcode == MLF_RPC_PACKAGE_COPY
          ? mlf_package_copy(package, offset, mlf_blob_u32(&request[4]), mlf_blob_u32(&request[8]))
          : mlf_package_write(package, offset, &request[4], (uint32_t)(size - 4u));
  if (status == MLF_BLOB_OK || status == MLF_BLOB_E_GAP) {
    mlf_rpc_put_u32(out, package->received);
  }
  return status;
}

static int32_t do_commit(const mlf_package_rpc_t *rpc, mlf_package_t *package, mlf_rpc_out_t *out) {
  const int32_t status = mlf_package_commit(package);
  if (rpc->state_words != 0) {
    memset(rpc->state, 0, rpc->state_words * sizeof *rpc->state);
  }
  if (status == MLF_E_PACKAGE_CASE) {
    mlf_rpc_put_u16(out, package->failed_case);
  }
  return status == MLF_BLOB_OK ? do_info(package, out) : status;
}

/* `request` is the body behind the model's index. */
static int32_t carry_out(const mlf_package_rpc_t *rpc, mlf_package_t *package, uint8_t opcode,
                         const uint8_t *request, size_t size, mlf_rpc_out_t *out) {
  static const uint8_t sizes[] = {0, 4, 4, 0, 12}; /* by opcode; PACKAGE_WRITE may have more */
  const uint8_t least = sizes[opcode - MLF_RPC_PACKAGE_INFO];
  if (size < least || (size > least && opcode != MLF_RPC_PACKAGE_WRITE)) {
    return MLF_RPC_E_LENGTH;
  }
  switch (opcode) {
    case MLF_RPC_PACKAGE_INFO:
      return do_info(package, out);
    case MLF_RPC_PACKAGE_BEGIN:
      return mlf_package_begin(package, mlf_blob_u32(request));
    case MLF_RPC_PACKAGE_WRITE:
    case MLF_RPC_PACKAGE_COPY:
      return do_write(package, opcode, request, size, out);
    default:
      return do_commit(rpc, package, out);
  }
}

int32_t mlf_package_rpc_handle(void *ctx, uint8_t opcode, const uint8_t *body, size_t size,
                               mlf_rpc_out_t *out) {
  const mlf_package_rpc_t *rpc = ctx;
  if (opcode < MLF_RPC_PACKAGE_INFO || opcode > MLF_RPC_PACKAGE_COPY) {
    return mlf_params_rpc_handle((void *)(uintptr_t)rpc->params, opcode, body, size, out);
  }
  if (size < 1) {
    return MLF_RPC_E_LENGTH;
  }
  if (body[0] >= rpc->params->num_models || rpc->receivers[body[0]] == NULL) {
    return MLF_RPC_E_MODEL;
  }
  return carry_out(rpc, rpc->receivers[body[0]], opcode, &body[1], size - 1u, out);
}
