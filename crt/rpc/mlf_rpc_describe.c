/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that describe the device: HELLO, BUILD, MODEL, TENSOR. */
#include "mlf_rpc_internal.h"

static size_t build_id(const mlf_rpc_config_t *config, const uint8_t **out_id) {
  return config->build_id != NULL ? config->build_id(config->ctx, out_id) : 0;
}

int32_t mlf_rpc_do_hello(const mlf_rpc_config_t *config, mlf_rpc_out_t *out) {
  const uint8_t *id = NULL;
  uint32_t capabilities = MLF_TRACE != 0 ? (uint32_t)MLF_RPC_CAN_TRACE : 0u;
  capabilities |= mlf_rpc_stack_size(config) != 0 ? (uint32_t)MLF_RPC_CAN_STACK : 0u;
  capabilities |= config->ticks != NULL ? (uint32_t)MLF_RPC_CAN_TICKS : 0u;
  capabilities |= config->set_baud != NULL ? (uint32_t)MLF_RPC_CAN_BAUD : 0u;
  capabilities |= build_id(config, &id) != 0 ? (uint32_t)MLF_RPC_CAN_BUILD : 0u;
#if MLF_RPC_SECURE
  capabilities |= (uint32_t)MLF_RPC_CAN_SECURE;
  if (!mlf_secure_is_open(config->secure)) { /* nothing about the models, nor of the SDK */
    capabilities &= (uint32_t)MLF_RPC_CAN_BUILD | (uint32_t)MLF_RPC_CAN_SECURE;
    mlf_rpc_put_u8(out, MLF_RPC_VERSION);
    mlf_rpc_put_u16(out, MLF_RPC_MAX_PAYLOAD);
    mlf_rpc_put_u8(out, 0);
    mlf_rpc_put_u16(out, (uint16_t)capabilities);
    mlf_rpc_put_u16(out, 0);
    mlf_rpc_put_u32(out, config->boot_nonce);
    mlf_rpc_put_u32(out, 0);
    mlf_rpc_put_name(out, 0, NULL);
    return MLF_OK;
  }
#endif
  capabilities |= MLF_OBSERVE != 0 ? (uint32_t)MLF_RPC_CAN_STEP : 0u;
  mlf_rpc_put_u8(out, MLF_RPC_VERSION);
  mlf_rpc_put_u16(out, (uint16_t)(MLF_RPC_MAX_PAYLOAD - MLF_RPC_TAG_SIZE));
  mlf_rpc_put_u8(out, config->num_models);
  mlf_rpc_put_u16(out, (uint16_t)capabilities);
  mlf_rpc_put_u16(out, config->window_bytes);
  mlf_rpc_put_u32(out, config->boot_nonce);
  mlf_rpc_put_u32(out, config->ticks != NULL ? config->ticks_hz : 0u);
  mlf_rpc_put_name(out, 0, config->sdk_version);
  return MLF_OK;
}

int32_t mlf_rpc_do_build(const mlf_rpc_config_t *config, mlf_rpc_out_t *out) {
  const uint8_t *id = NULL;
  const size_t size = build_id(config, &id);
  if (size == 0) {
    return MLF_RPC_E_OPCODE;
  }
  mlf_rpc_put_bytes(out, id, size);
  return MLF_OK;
}

int32_t mlf_rpc_do_model(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const mlf_model_t *model = request->model;
  mlf_rpc_put_bytes(out, model->archive_sha256, sizeof model->archive_sha256);
  mlf_rpc_put_u32(out, model->arena_bytes);
  mlf_rpc_put_u32(out, model->params_bytes);
  mlf_rpc_put_u16(out, model->num_steps);
  mlf_rpc_put_u8(out, model->num_inputs);
  mlf_rpc_put_u8(out, model->num_outputs);
  mlf_rpc_put_name(out, model->inputs_kept != 0 ? MLF_RPC_INPUTS_KEPT : 0, model->name);
  return MLF_OK;
}

int32_t mlf_rpc_do_tensor(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const mlf_tensor_t *tensor = mlf_rpc_tensor_of(request, request->body[0], request->body[1]);
  if (tensor == NULL) {
    return MLF_RPC_E_TENSOR;
  }
  mlf_rpc_put_u32(out, tensor->size_bytes);
  mlf_rpc_put_u8(out, tensor->type_code);
  mlf_rpc_put_u8(out, tensor->bits);
  mlf_rpc_put_u8(out, tensor->lanes);
  mlf_rpc_put_u8(out, tensor->ndim);
  for (uint32_t i = 0; i < tensor->ndim; i++) {
    if (tensor->shape[i] < 0 || tensor->shape[i] > (int64_t)UINT32_MAX) {
      return MLF_RPC_E_CAPACITY;
    }
    mlf_rpc_put_u32(out, (uint32_t)tensor->shape[i]);
  }
  mlf_rpc_put_name(out, mlf_rpc_is_streamed(request->model, tensor) ? MLF_RPC_STREAMED : 0, tensor->name);
  return MLF_OK;
}
