/* SPDX-License-Identifier: Apache-2.0 */
#include "tiny_model.h"

#include <string.h>
#include <tvm/runtime/c_backend_api.h>

/* ---- blobs ---------------------------------------------------------------------------------- */

typedef struct {
  uint8_t *at;
} out_t;

static void put(out_t *out, uint64_t value, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    *out->at++ = (uint8_t)(i < 8u ? value >> (8u * i) : 0u);
  }
}

static void put_tensor(out_t *out, uint32_t offset, uint32_t size, uint32_t extent, uint32_t place) {
  put(out, offset, 4);
  put(out, size, 4);
  put(out, extent, 4);
  put(out, place, 1);
  put(out, 1, 1); /* one dimension */
  put(out, MLF_UINT, 1);
  put(out, 8, 1);
  put(out, 1, 2);
  put(out, 0, 2);
}

static void put_step(out_t *out, uint32_t kernel, uint32_t args, uint32_t slots) {
  put(out, kernel, 2);
  put(out, args, 2);
  put(out, slots, 2);
  put(out, 0, 2);
}

static void put_named(out_t *out, uint32_t tensor, uint32_t name) {
  put(out, tensor, 2);
  put(out, 0, 2);
  put(out, name, 4);
}

void tiny_graph_crc(uint8_t *blob, uint32_t size) {
  out_t out = {&blob[12]};
  put(&out, mlf_blob_crc32_hole(blob, size, 12), 4);
}

uint32_t tiny_graph(uint8_t *out_blob) {
  static const char names[] = "tiny\0x\0y\0w";
  static const uint16_t counts[4] = {2, 4, 2, 1};           /* kernels, tensors, steps, parameters */
  static const uint32_t sizes[4] = {2, 5, 1, sizeof names}; /* extents, arguments, workspaces, names */
  static const uint8_t args[5] = {0, 1, 2, 2, 3};
  out_t out = {out_blob};
  put(&out, MLF_GRAPH_MAGIC, 4);
  put(&out, MLF_GRAPH_VERSION, 2);
  put(&out, MLF_GRAPH_HEADER_BYTES, 2);
  put(&out, 0, 8); /* size and CRC come last */
  put(&out, TINY_ARENA, 4);
  put(&out, TINY_PARAMS, 4);
  for (uint32_t i = 0; i < 4; i++) {
    put(&out, counts[i], 2);
  }
  for (uint32_t i = 0; i < 4; i++) {
    put(&out, sizes[i], 4);
  }
  put(&out, 1, 1); /* inputs */
  put(&out, 1, 1); /* outputs */
  put(&out, 0, 6);
  for (uint32_t i = 0; i < 96; i++) { /* graph, code, archive */
    put(&out, 0xA0u + i, 1);
  }
  put(&out, TINY_IO, 8);
  put(&out, TINY_PARAMS, 8);
  put_tensor(&out, 0, TINY_IO, 0, 0);     /* x */
  put_tensor(&out, 0, TINY_PARAMS, 1, 1); /* w */
  put_tensor(&out, 16, TINY_IO, 0, 0);    /* between the steps */
  put_tensor(&out, 32, TINY_IO, 0, 0);    /* y */
  put(&out, 48, 4);
  put(&out, 16, 4);
  put_step(&out, 0, 3, 0);
  put_step(&out, 1, 2, 1);
  put_named(&out, 0, 5);
  put_named(&out, 3, 7);
  put_named(&out, 1, 9);
  for (uint32_t i = 0; i < sizeof args; i++) {
    put(&out, args[i], 2);
  }
  memcpy(out.at, names, sizeof names);
  out.at += sizeof names;
  const uint32_t size = (uint32_t)(out.at - out_blob);
  out.at = &out_blob[8];
  put(&out, size, 4);
  tiny_graph_crc(out_blob, size);
  return size;
}

void tiny_params_crc(uint8_t *blob, uint32_t size) {
  if (size < MLF_PARAMS_HEADER_BYTES) {
    return;
  }
  out_t data = {&blob[16]};
  put(&data, mlf_crc32(0, &blob[MLF_PARAMS_HEADER_BYTES], size - MLF_PARAMS_HEADER_BYTES), 4);
  out_t header = {&blob[20]};
  put(&header, mlf_blob_crc32_hole(blob, MLF_PARAMS_HEADER_BYTES, 20), 4);
}

static uint8_t param(uint8_t seed, uint32_t i) { return (uint8_t)(seed * 31u + i * 7u + (i >> 4)); }

void tiny_params(uint8_t *out_blob, const uint8_t *graph_id, uint8_t seed) {
  out_t out = {out_blob};
  put(&out, MLF_PARAMS_MAGIC, 4);
  put(&out, MLF_PARAMS_VERSION, 2);
  put(&out, MLF_PARAMS_HEADER_BYTES, 2);
  put(&out, TINY_BLOB, 4);
  put(&out, TINY_PARAMS, 4);
  put(&out, 0, 16);
  memcpy(out.at, graph_id, 32);
  memset(out.at + 32, seed, 32);
  out.at += 64;
  for (uint32_t i = 0; i < TINY_PARAMS; i++) {
    put(&out, param(seed, i), 1);
  }
  tiny_params_crc(out_blob, TINY_BLOB);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static uint8_t mix(uint32_t state, uint32_t i) { return (uint8_t)((state + i * 0x9E3779B9u) >> 13); }

static uint32_t digest(const uint8_t *data, uint32_t size) {
  uint32_t state = 2166136261u;
  for (uint32_t i = 0; i < size; i++) {
    state = (state ^ data[i]) * 16777619u;
  }
  return state;
}

static uint8_t *data_of(const void *args, uint32_t index) {
  const TVMValue *values = args;
  const DLTensor *tensor = values[index].v_handle;
  return tensor->data;
}

static int32_t combine(void *args, int32_t *codes, int32_t num_args, void *value, int32_t *code, void *res) {
  const uint8_t *x = data_of(args, 0);
  const uint32_t state = digest(data_of(args, 1), TINY_PARAMS);
  uint8_t *out = data_of(args, 2);
  (void)value;
  (void)code;
  (void)res;
  if (num_args != 3 || codes[2] != 7) {
    return 1;
  }
  for (uint32_t i = 0; i < TINY_IO; i++) {
    out[i] = (uint8_t)(x[i] ^ mix(state, i));
  }
  return 0;
}

static int32_t turn(void *args, int32_t *codes, int32_t num_args, void *value, int32_t *code, void *res) {
  uint8_t copy[TINY_IO];
  uint8_t *out = data_of(args, 1);
  uint8_t *space = TVMBackendAllocWorkspace(1, 0, TINY_IO, 1, 8);
  (void)codes;
  (void)num_args;
  (void)value;
  (void)code;
  (void)res;
  if (space == NULL) {
    return 1;
  }
  memcpy(copy, data_of(args, 0), TINY_IO);
  memcpy(space, copy, TINY_IO);
  for (uint32_t i = 0; i < TINY_IO; i++) {
    out[i] = space[TINY_IO - 1u - i];
  }
  return TVMBackendFreeWorkspace(1, 0, space);
}

static const uint32_t arg_bytes[5] = {TINY_IO, TINY_PARAMS, TINY_IO, TINY_IO, TINY_IO};

const mlf_graph_kernel_t tiny_kernels[2] = {{combine, &arg_bytes[0], 3, 2}, {turn, &arg_bytes[3], 2, 1}};
const int32_t tiny_type_codes[3] = {7, 7, 7};

void tiny_reference(uint8_t *out, uint8_t x, uint8_t seed) {
  uint8_t w[TINY_PARAMS];
  for (uint32_t i = 0; i < TINY_PARAMS; i++) {
    w[i] = param(seed, i);
  }
  const uint32_t state = digest(w, TINY_PARAMS);
  for (uint32_t i = 0; i < TINY_IO; i++) {
    out[TINY_IO - 1u - i] = (uint8_t)(x ^ mix(state, i));
  }
}
