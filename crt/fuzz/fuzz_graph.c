/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the graph loader: the first byte says what is set right before loading (1: the size, 2: the
 * CRC), the rest is a blob. What loads is run, with kernels that touch all of their arguments, and every
 * name and extent is read: the sanitizers watch.
 */
#include <stdlib.h>
#include <string.h>

#include "tiny_model.h"

#define ARENA 256u
#define PARAMS 128u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void read_tensor(const mlf_tensor_t *tensor) {
  sink += strlen(tensor->name);
  for (uint32_t i = 0; i < tensor->ndim; i++) {
    sink += (uint64_t)tensor->shape[i];
  }
  for (uint32_t i = 0; i < tensor->size_bytes; i++) {
    sink += ((const uint8_t *)tensor->data)[i];
  }
}

static void use(const mlf_model_t *model) {
  sink += strlen(model->name);
  for (uint32_t i = 0; i < model->num_inputs; i++) {
    memset(model->inputs[i].data, 0x5A, model->inputs[i].size_bytes);
    read_tensor(&model->inputs[i]);
  }
  sink += (uint64_t)mlf_run(model);
  for (uint32_t i = 0; i < model->num_outputs; i++) {
    read_tensor(&model->outputs[i]);
  }
}

static void put_u32(uint8_t *out, uint32_t value) {
  for (uint32_t i = 0; i < 4; i++) {
    out[i] = (uint8_t)(value >> (8u * i));
  }
}

static void load(uint8_t *blob, uint32_t size) {
  /* memory of their own, so that one byte too far is seen */
  uint8_t *arena = aligned_alloc(16, ARENA);
  uint8_t *params = aligned_alloc(16, PARAMS);
  uint8_t *memory = malloc(1024);
  mlf_graph_t graph;
  mlf_model_t model;
  if (arena == NULL || params == NULL || memory == NULL) {
    abort();
  }
  memset(arena, 1, ARENA);
  memset(params, 2, PARAMS);
  if (mlf_graph_open(&graph, blob, size) == MLF_BLOB_OK && graph.params_bytes <= PARAMS) {
    const mlf_graph_config_t config = {
        .kernels = tiny_kernels,
        .type_codes = tiny_type_codes,
        .arena = arena,
        .memory = memory,
        .memory_bytes = 1024,
        .arena_bytes = ARENA,
        .num_kernels = 2,
        .num_type_codes = 3,
    };
    if (mlf_graph_load(&graph, &config, params, &model) == MLF_BLOB_OK) {
      use(&model);
    }
  }
  free(memory);
  free(params);
  free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > 4096) {
    return 0;
  }
  const uint8_t flags = data[0];
  const uint32_t blob_bytes = (uint32_t)size - 1u;
  uint8_t *blob = malloc(blob_bytes != 0 ? blob_bytes : 1);
  if (blob == NULL) {
    abort();
  }
  memcpy(blob, &data[1], blob_bytes);
  if (blob_bytes >= MLF_GRAPH_HEADER_BYTES) {
    if ((flags & 1u) != 0) {
      put_u32(&blob[8], blob_bytes);
    }
    if ((flags & 2u) != 0) {
      const uint32_t says = mlf_blob_u32(&blob[8]);
      tiny_graph_crc(blob, says >= MLF_GRAPH_HEADER_BYTES && says <= blob_bytes ? says : blob_bytes);
    }
  }
  load(blob, blob_bytes);
  free(blob);
  return 0;
}
