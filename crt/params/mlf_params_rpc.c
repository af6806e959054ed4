/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_params_rpc.h"

#include <string.h>

#include "mlf_rpc.h"

/* The body of a reply as it grows; once something does not fit, it stays `overflow`. */
typedef struct {
  uint8_t *data;
  size_t size;
  size_t capacity;
  uint8_t overflow;
} reply_t;

static void put_bytes(reply_t *reply, const uint8_t *data, size_t size) {
  if (reply->overflow != 0 || size > reply->capacity - reply->size) {
    reply->overflow = 1;
    return;
  }
  memcpy(&reply->data[reply->size], data, size);
  reply->size += size;
}

static void put_u32(reply_t *reply, uint32_t value) {
  const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                            (uint8_t)(value >> 24)};
  put_bytes(reply, bytes, sizeof bytes);
}

static int32_t do_info(const mlf_dynamic_t *dynamic, reply_t *reply) {
  const mlf_store_driver_t *driver = dynamic->config->driver;
  const uint8_t store[2] = {driver != NULL, dynamic->store.active};
  put_bytes(reply, store, sizeof store);
  put_u32(reply, dynamic->store.generation);
  put_u32(reply, dynamic->params.blob_bytes);
  put_u32(reply, dynamic->params.header_crc);
  put_u32(reply, dynamic->graph.blob_bytes);
  put_u32(reply, driver != NULL ? driver->slot_bytes - MLF_STORE_BLOB_AT : 0);
  put_u32(reply, driver != NULL ? driver->program_bytes : 0);
  return MLF_BLOB_OK;
}

/* A piece of a blob: offset (u32) and length (u16) are `request`. */
static int32_t do_read(const uint8_t *blob, uint32_t blob_bytes, const uint8_t *request, reply_t *reply) {
  const uint32_t offset = mlf_blob_u32(request);
  const uint32_t size = mlf_blob_u16(&request[4]);
  if (offset > blob_bytes || size > blob_bytes - offset) {
    return MLF_RPC_E_RANGE;
  }
  if (size != 0) {
    put_bytes(reply, &blob[offset], size);
  }
  return MLF_BLOB_OK;
}

static int32_t do_write(mlf_dynamic_t *dynamic, const uint8_t *request, size_t size, reply_t *reply) {
  const mlf_blob_status_t status =
      mlf_dynamic_write(dynamic, mlf_blob_u32(request), &request[4], (uint32_t)(size - 4u));
  if (status == MLF_BLOB_OK || status == MLF_BLOB_E_GAP) {
    put_u32(reply, dynamic->store.written);
  }
  return status;
}

static int32_t do_commit(mlf_dynamic_t *dynamic, reply_t *reply) {
  const mlf_blob_status_t status = mlf_dynamic_commit(dynamic);
  return status == MLF_BLOB_OK ? do_info(dynamic, reply) : (int32_t)status;
}

/* `request` is the body behind the model's index. */
static int32_t carry_out(mlf_dynamic_t *dynamic, uint8_t opcode, const uint8_t *request, size_t size,
                         reply_t *reply) {
  static const uint8_t sizes[] = {0, 6, 6, 4, 4, 0}; /* by opcode; PARAMS_WRITE may have more */
  const uint8_t least = sizes[opcode - MLF_RPC_PARAMS_INFO];
  if (size < least || (size > least && opcode != MLF_RPC_PARAMS_WRITE)) {
    return MLF_RPC_E_LENGTH;
  }
  switch (opcode) {
    case MLF_RPC_PARAMS_INFO:
      return do_info(dynamic, reply);
    case MLF_RPC_GRAPH_READ:
      return do_read(dynamic->graph.blob, dynamic->graph.blob_bytes, request, reply);
    case MLF_RPC_PARAMS_READ:
      if (dynamic->params.data == NULL) {
        return MLF_BLOB_E_STATE;
      }
      return do_read(dynamic->params.data - MLF_PARAMS_HEADER_BYTES, dynamic->params.blob_bytes, request,
                     reply);
    case MLF_RPC_PARAMS_BEGIN:
      return mlf_dynamic_begin(dynamic, mlf_blob_u32(request));
    case MLF_RPC_PARAMS_WRITE:
      return do_write(dynamic, request, size, reply);
    default:
      return do_commit(dynamic, reply);
  }
}

int32_t mlf_params_rpc_handle(void *ctx, uint8_t opcode, const uint8_t *body, size_t size, uint8_t *out_reply,
                              size_t capacity, size_t *out_size) {
  const mlf_params_rpc_t *rpc = ctx;
  reply_t reply = {out_reply, 0, capacity, 0};
  if (opcode < MLF_RPC_PARAMS_INFO || opcode > MLF_RPC_PARAMS_COMMIT) {
    return MLF_RPC_E_OPCODE;
  }
  if (size < 1) {
    return MLF_RPC_E_LENGTH;
  }
  if (body[0] >= rpc->num_models || rpc->models[body[0]] == NULL) {
    return MLF_RPC_E_MODEL;
  }
  const int32_t status = carry_out(rpc->models[body[0]], opcode, &body[1], size - 1u, &reply);
  if (reply.overflow != 0) {
    return MLF_RPC_E_CAPACITY;
  }
  *out_size = reply.size;
  return status;
}
