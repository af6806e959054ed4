/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_params_rpc.h"

static int32_t do_info(const mlf_dynamic_t *dynamic, mlf_rpc_out_t *out) {
  const mlf_store_driver_t *driver = dynamic->config->driver;
  const uint8_t store[2] = {driver != NULL, dynamic->store.active};
  mlf_rpc_put_bytes(out, store, sizeof store);
  mlf_rpc_put_u32(out, dynamic->store.generation);
  mlf_rpc_put_u32(out, dynamic->params.blob_bytes);
  mlf_rpc_put_u32(out, dynamic->params.header_crc);
  mlf_rpc_put_u32(out, dynamic->graph.blob_bytes);
  mlf_rpc_put_u32(out, driver != NULL ? driver->slot_bytes - MLF_STORE_BLOB_AT : 0);
  mlf_rpc_put_u32(out, driver != NULL ? driver->program_bytes : 0);
  return MLF_BLOB_OK;
}

/* A piece of a blob: offset (u32) and length (u16) are `request`. */
static int32_t do_read(const uint8_t *blob, uint32_t blob_bytes, const uint8_t *request, mlf_rpc_out_t *out) {
  const uint32_t offset = mlf_blob_u32(request);
  const uint32_t size = mlf_blob_u16(&request[4]);
  if (offset > blob_bytes || size > blob_bytes - offset) {
    return MLF_RPC_E_RANGE;
  }
  if (size != 0) {
    mlf_rpc_put_bytes(out, &blob[offset], size);
  }
  return MLF_BLOB_OK;
}

#if !MLF_PARAMS_SIGNED
static int32_t do_write(mlf_dynamic_t *dynamic, const uint8_t *request, size_t size, mlf_rpc_out_t *out) {
  const mlf_blob_status_t status =
      mlf_dynamic_write(dynamic, mlf_blob_u32(request), &request[4], (uint32_t)(size - 4u));
  if (status == MLF_BLOB_OK || status == MLF_BLOB_E_GAP) {
    mlf_rpc_put_u32(out, dynamic->store.written);
  }
  return status;
}

static int32_t do_commit(mlf_dynamic_t *dynamic, mlf_rpc_out_t *out) {
  const mlf_blob_status_t status = mlf_dynamic_commit(dynamic);
  return status == MLF_BLOB_OK ? do_info(dynamic, out) : (int32_t)status;
}

#endif

/* `request` is the body behind the model's index. */
static int32_t carry_out(mlf_dynamic_t *dynamic, uint8_t opcode, const uint8_t *request, size_t size,
                         mlf_rpc_out_t *out) {
  static const uint8_t sizes[] = {0, 6, 6, 4, 4, 0}; /* by opcode; PARAMS_WRITE may have more */
  const uint8_t least = sizes[opcode - MLF_RPC_PARAMS_INFO];
  if (size < least || (size > least && opcode != MLF_RPC_PARAMS_WRITE)) {
    return MLF_RPC_E_LENGTH;
  }
  switch (opcode) {
    case MLF_RPC_PARAMS_INFO:
      return do_info(dynamic, out);
    case MLF_RPC_GRAPH_READ:
      return do_read(dynamic->graph.blob, dynamic->graph.blob_bytes, request, out);
    case MLF_RPC_PARAMS_READ:
      if (dynamic->params.data == NULL) {
        return MLF_BLOB_E_STATE;
      }
      return do_read(dynamic->params.data - MLF_PARAMS_HEADER_BYTES, dynamic->params.blob_bytes, request,
                     out);
#if MLF_PARAMS_SIGNED
    default:
      return MLF_RPC_E_OPCODE; /* parameters come in packages (mlf_package_rpc.h) */
  }
#else
    case MLF_RPC_PARAMS_BEGIN:
      return mlf_dynamic_begin(dynamic, mlf_blob_u32(request));
    case MLF_RPC_PARAMS_WRITE:
      return do_write(dynamic, request, size, out);
    default:
      return do_commit(dynamic, out);
  }
#endif
}

int32_t mlf_params_rpc_handle(void *ctx, uint8_t opcode, const uint8_t *body, size_t size,
                              mlf_rpc_out_t *out) {
  const mlf_params_rpc_t *rpc = ctx;
  if (opcode < MLF_RPC_PARAMS_INFO || opcode > MLF_RPC_PARAMS_COMMIT) {
    return MLF_RPC_E_OPCODE;
  }
  if (size < 1) {
    return MLF_RPC_E_LENGTH;
  }
  if (body[0] >= rpc->num_models || rpc->models[body[0]] == NULL) {
    return MLF_RPC_E_MODEL;
  }
  return carry_out(rpc->models[body[0]], opcode, &body[1], size - 1u, out);
}
