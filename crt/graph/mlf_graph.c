/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a blob, and putting a checked graph in force. */
#include "mlf_graph.h"

#include <string.h>

#include "mlf_graph_internal.h"

/* Offsets in the header: crt/BLOBS.md. */
enum {
  AT_VERSION = 4,
  AT_HEADER_BYTES = 6,
  AT_BLOB_BYTES = 8,
  AT_CRC = 12,
  AT_ARENA_BYTES = 16,
  AT_PARAMS_BYTES = 20,
  AT_NUM_KERNELS = 24,
  AT_NUM_TENSORS = 26,
  AT_NUM_STEPS = 28,
  AT_NUM_PARAMS = 30,
  AT_NUM_EXTENTS = 32,
  AT_NUM_ARGS = 36,
  AT_NUM_SLOTS = 40,
  AT_NAMES_BYTES = 44,
  AT_NUM_INPUTS = 48,
  AT_NUM_OUTPUTS = 49,
  AT_FLAGS = 50,
  AT_ZERO = 51,
  AT_ZEROS = 52,
  AT_GRAPH_ID = 56,
  AT_ARCHIVE_SHA256 = 120
};

#define FLAG_INPUTS_KEPT 1u
#define KNOWN_FLAGS FLAG_INPUTS_KEPT

static int is_aligned(const void *pointer, uintptr_t alignment) {
  return (uintptr_t)pointer % alignment == 0;
}

const uint8_t *mlf_graph_take(mlf_graph_piece_t *piece, size_t count, size_t size) {
  const uint8_t *taken = piece->at;
  if (count > piece->left / size) {
    return NULL;
  }
  piece->at += count * size;
  piece->left -= count * size;
  return taken;
}

mlf_graph_tensor_t mlf_graph_tensor_at(const mlf_graph_t *graph, uint32_t index) {
  const uint8_t *data = &graph->tensors[(size_t)index * MLF_GRAPH_TENSOR_BYTES];
  mlf_graph_tensor_t entry;
  entry.offset = mlf_blob_u32(data);
  entry.size_bytes = mlf_blob_u32(&data[4]);
  entry.first_extent = mlf_blob_u32(&data[8]);
  entry.place = data[12];
  entry.ndim = data[13];
  entry.type_code = data[14];
  entry.bits = data[15];
  entry.lanes = (uint16_t)mlf_blob_u16(&data[16]);
  return entry;
}

const int64_t *mlf_graph_extents_at(const mlf_graph_t *graph, uint32_t index) {
  return (const int64_t *)(const void *)&graph->extents[(size_t)index * MLF_GRAPH_EXTENT_BYTES];
}

static void read_header(mlf_graph_t *graph, const uint8_t *blob) {
  graph->blob = blob;
  graph->graph_id = &blob[AT_GRAPH_ID];
  graph->blob_bytes = mlf_blob_u32(&blob[AT_BLOB_BYTES]);
  graph->arena_bytes = mlf_blob_u32(&blob[AT_ARENA_BYTES]);
  graph->params_bytes = mlf_blob_u32(&blob[AT_PARAMS_BYTES]);
  graph->num_kernels = (uint16_t)mlf_blob_u16(&blob[AT_NUM_KERNELS]);
  graph->num_tensors = (uint16_t)mlf_blob_u16(&blob[AT_NUM_TENSORS]);
  graph->num_steps = (uint16_t)mlf_blob_u16(&blob[AT_NUM_STEPS]);
  graph->num_params = (uint16_t)mlf_blob_u16(&blob[AT_NUM_PARAMS]);
  graph->num_extents = mlf_blob_u32(&blob[AT_NUM_EXTENTS]);
  graph->num_args = mlf_blob_u32(&blob[AT_NUM_ARGS]);
  graph->num_slots = mlf_blob_u32(&blob[AT_NUM_SLOTS]);
  graph->names_bytes = mlf_blob_u32(&blob[AT_NAMES_BYTES]);
  graph->num_inputs = blob[AT_NUM_INPUTS];
  graph->num_outputs = blob[AT_NUM_OUTPUTS];
  graph->flags = blob[AT_FLAGS];
}

/* Where the parts are; 0 unless they fill the blob to its last byte. */
static int find_parts(mlf_graph_t *graph) {
  mlf_graph_piece_t rest = {&graph->blob[MLF_GRAPH_HEADER_BYTES], graph->blob_bytes - MLF_GRAPH_HEADER_BYTES};
  graph->extents = mlf_graph_take(&rest, graph->num_extents, MLF_GRAPH_EXTENT_BYTES);
  graph->tensors = mlf_graph_take(&rest, graph->num_tensors, MLF_GRAPH_TENSOR_BYTES);
  graph->slots = mlf_graph_take(&rest, graph->num_slots, MLF_GRAPH_SLOT_BYTES);
  graph->steps = mlf_graph_take(&rest, graph->num_steps, MLF_GRAPH_STEP_BYTES);
  graph->named = mlf_graph_take(&rest, mlf_graph_num_named(graph), MLF_GRAPH_NAMED_BYTES);
  graph->args = mlf_graph_take(&rest, graph->num_args, MLF_GRAPH_ARG_BYTES);
  graph->names = mlf_graph_take(&rest, graph->names_bytes, 1);
  return graph->extents != NULL && graph->tensors != NULL && graph->slots != NULL && graph->steps != NULL &&
         graph->named != NULL && graph->args != NULL && graph->names != NULL && rest.left == 0;
}

mlf_blob_status_t mlf_graph_open(mlf_graph_t *graph, const uint8_t *blob, size_t size) {
  mlf_graph_t found;
  if (!is_aligned(blob, 8)) {
    return MLF_BLOB_E_ALIGN;
  }
  if (size < MLF_GRAPH_HEADER_BYTES) {
    return MLF_BLOB_E_SIZE;
  }
  if (mlf_blob_u32(blob) != MLF_GRAPH_MAGIC || mlf_blob_u16(&blob[AT_VERSION]) != MLF_GRAPH_VERSION ||
      mlf_blob_u16(&blob[AT_HEADER_BYTES]) != MLF_GRAPH_HEADER_BYTES) {
    return MLF_BLOB_E_FORMAT;
  }
  read_header(&found, blob);
  if (found.blob_bytes < MLF_GRAPH_HEADER_BYTES || found.blob_bytes > size) {
    return MLF_BLOB_E_SIZE;
  }
  if (mlf_blob_crc32_hole(blob, found.blob_bytes, AT_CRC) != mlf_blob_u32(&blob[AT_CRC])) {
    return MLF_BLOB_E_CRC;
  }
  if (blob[AT_ZERO] != 0 || mlf_blob_u32(&blob[AT_ZEROS]) != 0 || (found.flags & ~KNOWN_FLAGS) != 0) {
    return MLF_BLOB_E_FORMAT;
  }
  if (!find_parts(&found) || found.names_bytes == 0 || found.names[found.names_bytes - 1u] != 0) {
    return MLF_BLOB_E_SIZE;
  }
  *graph = found;
  return MLF_BLOB_OK;
}

mlf_blob_status_t mlf_graph_load(const mlf_graph_t *graph, const mlf_graph_config_t *config,
                                 const uint8_t *params, mlf_model_t *out_model) {
  mlf_graph_tables_t tables;
  if (!is_aligned(config->arena, MLF_GRAPH_ALIGNMENT) || !is_aligned(config->memory, 8) ||
      !is_aligned(params, MLF_GRAPH_ALIGNMENT)) {
    return MLF_BLOB_E_ALIGN;
  }
  if (graph->arena_bytes > config->arena_bytes || !mlf_graph_place_tables(graph, config, &tables)) {
    return MLF_BLOB_E_LIMIT;
  }
  if (params == NULL && graph->params_bytes != 0) {
    return MLF_BLOB_E_RANGE;
  }
  const mlf_blob_status_t status = mlf_graph_check(graph, config);
  if (status != MLF_BLOB_OK) {
    return status;
  }
  mlf_graph_fill_tables(graph, config, params, &tables);
  (void)memset(out_model, 0, sizeof *out_model);
  out_model->name = (const char *)graph->names;
  out_model->inputs = tables.named;
  out_model->outputs = &tables.named[graph->num_inputs];
  out_model->steps = tables.steps;
  out_model->type_codes = config->type_codes;
  out_model->arena = config->arena;
  out_model->params = graph->params_bytes != 0 ? params : NULL;
  out_model->arena_bytes = config->arena_bytes;
  out_model->params_bytes = graph->params_bytes;
  out_model->num_steps = graph->num_steps;
  out_model->num_inputs = graph->num_inputs;
  out_model->num_outputs = graph->num_outputs;
  out_model->inputs_kept = (graph->flags & FLAG_INPUTS_KEPT) != 0;
  (void)memcpy(out_model->archive_sha256, &graph->blob[AT_ARCHIVE_SHA256], sizeof out_model->archive_sha256);
  return MLF_BLOB_OK;
}
