/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_graph.h"

#include <string.h>

/* Offsets in the header, and sizes of an entry of each part: crt/BLOBS.md. */
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
  AT_ARCHIVE_SHA256 = 120,
  EXTENT_BYTES = 8,
  TENSOR_BYTES = 20,
  SLOT_BYTES = 8,
  STEP_BYTES = 8,
  NAMED_BYTES = 8,
  ARG_BYTES = 2
};

#define FLAG_INPUTS_KEPT 1u
#define KNOWN_FLAGS FLAG_INPUTS_KEPT
#define PLACE_ARENA 0u
#define PLACE_PARAMS 1u

/* Some bytes of which pieces are taken from the front. */
typedef struct {
  const uint8_t *at;
  size_t left;
} piece_t;

/* `count` entries of `size` bytes; NULL when there is less than that. */
static const uint8_t *take(piece_t *piece, size_t count, size_t size) {
  const uint8_t *taken = piece->at;
  if (count > piece->left / size) {
    return NULL;
  }
  piece->at += count * size;
  piece->left -= count * size;
  return taken;
}

static int is_aligned(const void *pointer, uintptr_t alignment) {
  return (uintptr_t)pointer % alignment == 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

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

static uint32_t num_named(const mlf_graph_t *graph) {
  return (uint32_t)graph->num_inputs + graph->num_outputs + graph->num_params;
}

/* Where the parts are; 0 unless they fill the blob to its last byte. */
static int find_parts(mlf_graph_t *graph) {
  piece_t rest = {&graph->blob[MLF_GRAPH_HEADER_BYTES], graph->blob_bytes - MLF_GRAPH_HEADER_BYTES};
  graph->extents = take(&rest, graph->num_extents, EXTENT_BYTES);
  graph->tensors = take(&rest, graph->num_tensors, TENSOR_BYTES);
  graph->slots = take(&rest, graph->num_slots, SLOT_BYTES);
  graph->steps = take(&rest, graph->num_steps, STEP_BYTES);
  graph->named = take(&rest, num_named(graph), NAMED_BYTES);
  graph->args = take(&rest, graph->num_args, ARG_BYTES);
  graph->names = take(&rest, graph->names_bytes, 1);
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

/* ---- checking ------------------------------------------------------------------------------- */

typedef struct {
  uint32_t offset;
  uint32_t size_bytes;
  uint32_t first_extent;
  uint8_t place;
  uint8_t ndim;
  uint8_t type_code;
  uint8_t bits;
  uint16_t lanes;
} entry_t; /* a tensor */

static entry_t tensor_at(const mlf_graph_t *graph, uint32_t index) {
  const uint8_t *data = &graph->tensors[(size_t)index * TENSOR_BYTES];
  entry_t entry;
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

static const int64_t *extents_at(const mlf_graph_t *graph, uint32_t index) {
  return (const int64_t *)(const void *)&graph->extents[(size_t)index * EXTENT_BYTES];
}

/* The size that extents and element type make up, or UINT64_MAX. */
static uint64_t size_of(const mlf_graph_t *graph, const entry_t *entry) {
  const int64_t *extents = extents_at(graph, entry->first_extent);
  uint64_t size = ((uint64_t)entry->bits + 7u) / 8u * entry->lanes;
  for (uint32_t i = 0; i < entry->ndim; i++) {
    if (extents[i] < 0 || extents[i] > (int64_t)UINT32_MAX) {
      return UINT64_MAX;
    }
    size *= (uint64_t)extents[i]; /* below 2^64: both are below 2^32 */
    if (size > UINT32_MAX) {
      return UINT64_MAX;
    }
  }
  return size;
}

static int is_inside(uint32_t offset, uint32_t size, uint32_t all) {
  return offset % MLF_GRAPH_ALIGNMENT == 0 && offset <= all && size <= all - offset;
}

static mlf_blob_status_t check_tensors(const mlf_graph_t *graph) {
  for (uint32_t i = 0; i < graph->num_tensors; i++) {
    const entry_t entry = tensor_at(graph, i);
    if (mlf_blob_u16(&graph->tensors[(size_t)i * TENSOR_BYTES + 18u]) != 0 || entry.place > PLACE_PARAMS ||
        entry.bits == 0 || entry.lanes == 0 || entry.lanes > UINT8_MAX) {
      return MLF_BLOB_E_FORMAT;
    }
    if (entry.first_extent > graph->num_extents || entry.ndim > graph->num_extents - entry.first_extent) {
      return MLF_BLOB_E_INDEX;
    }
    if (size_of(graph, &entry) != entry.size_bytes ||
        !is_inside(entry.offset, entry.size_bytes,
                   entry.place == PLACE_PARAMS ? graph->params_bytes : graph->arena_bytes)) {
      return MLF_BLOB_E_RANGE;
    }
  }
  return MLF_BLOB_OK;
}

static mlf_blob_status_t check_slots(const mlf_graph_t *graph) {
  for (uint32_t i = 0; i < graph->num_slots; i++) {
    const uint8_t *slot = &graph->slots[(size_t)i * SLOT_BYTES];
    if (!is_inside(mlf_blob_u32(slot), mlf_blob_u32(&slot[4]), graph->arena_bytes)) {
      return MLF_BLOB_E_RANGE;
    }
  }
  return MLF_BLOB_OK;
}

/* The arguments of one step against what its kernel was compiled for. */
static mlf_blob_status_t check_args(const mlf_graph_t *graph, const mlf_graph_kernel_t *kernel,
                                    const uint8_t *args) {
  for (uint32_t i = 0; i < kernel->num_args; i++) {
    const uint32_t index = mlf_blob_u16(&args[(size_t)i * ARG_BYTES]);
    if (index >= graph->num_tensors) {
      return MLF_BLOB_E_INDEX;
    }
    const entry_t entry = tensor_at(graph, index);
    if (entry.size_bytes != kernel->arg_bytes[i] || (i >= kernel->num_inputs && entry.place != PLACE_ARENA)) {
      return MLF_BLOB_E_KERNEL;
    }
  }
  return MLF_BLOB_OK;
}

static mlf_blob_status_t check_steps(const mlf_graph_t *graph, const mlf_graph_config_t *config) {
  piece_t args = {graph->args, (size_t)graph->num_args * ARG_BYTES};
  uint32_t slots_left = graph->num_slots;
  for (uint32_t i = 0; i < graph->num_steps; i++) {
    const uint8_t *step = &graph->steps[(size_t)i * STEP_BYTES];
    const uint32_t index = mlf_blob_u16(step);
    const uint32_t num_slots = mlf_blob_u16(&step[4]);
    if (mlf_blob_u16(&step[6]) != 0) {
      return MLF_BLOB_E_FORMAT;
    }
    if (index >= config->num_kernels || index >= graph->num_kernels ||
        mlf_blob_u16(&step[2]) != config->kernels[index].num_args ||
        config->kernels[index].num_args > config->num_type_codes) {
      return MLF_BLOB_E_KERNEL;
    }
    const uint8_t *step_args = take(&args, config->kernels[index].num_args, ARG_BYTES);
    if (step_args == NULL || num_slots > slots_left) {
      return MLF_BLOB_E_INDEX;
    }
    slots_left -= num_slots;
    const mlf_blob_status_t status = check_args(graph, &config->kernels[index], step_args);
    if (status != MLF_BLOB_OK) {
      return status;
    }
  }
  return args.left == 0 && slots_left == 0 ? MLF_BLOB_OK : MLF_BLOB_E_INDEX;
}

static mlf_blob_status_t check_named(const mlf_graph_t *graph) {
  for (uint32_t i = 0; i < num_named(graph); i++) {
    const uint8_t *named = &graph->named[(size_t)i * NAMED_BYTES];
    const uint32_t index = mlf_blob_u16(named);
    if (mlf_blob_u16(&named[2]) != 0) {
      return MLF_BLOB_E_FORMAT;
    }
    if (index >= graph->num_tensors || mlf_blob_u32(&named[4]) >= graph->names_bytes) {
      return MLF_BLOB_E_INDEX;
    }
    /* what a host may write lies in the arena */
    if (i < graph->num_inputs && tensor_at(graph, index).place != PLACE_ARENA) {
      return MLF_BLOB_E_RANGE;
    }
  }
  return MLF_BLOB_OK;
}

static mlf_blob_status_t check_parts(const mlf_graph_t *graph, const mlf_graph_config_t *config) {
  mlf_blob_status_t status = check_tensors(graph);
  if (status == MLF_BLOB_OK) {
    status = check_slots(graph);
  }
  if (status == MLF_BLOB_OK) {
    status = check_steps(graph, config);
  }
  return status == MLF_BLOB_OK ? check_named(graph) : status;
}

/* ---- filling in ----------------------------------------------------------------------------- */

typedef struct {
  DLTensor *tensors;
  TVMValue *args;
  mlf_slot_t *slots;
  mlf_step_t *steps;
  mlf_tensor_t *named; /* inputs, then outputs */
} tables_t;

/* `count` entries of `size` bytes from the front of some memory; NULL when there is less than that. */
static void *carve(uint8_t **memory, size_t *left, size_t count, size_t size) {
  uint8_t *table = *memory;
  if (count > *left / size) {
    return NULL;
  }
  *memory += count * size;
  *left -= count * size;
  return table;
}

/* In the order of their alignment; 0 when they do not fit. */
static int place_tables(const mlf_graph_t *graph, const mlf_graph_config_t *config, tables_t *tables) {
  uint8_t *memory = config->memory;
  size_t left = config->memory_bytes;
  const size_t num_slots = (size_t)graph->num_slots + graph->num_steps; /* each step's end with a {NULL, 0} */
  const size_t num_io = (size_t)graph->num_inputs + graph->num_outputs;
  tables->tensors = carve(&memory, &left, graph->num_tensors, sizeof(DLTensor));
  tables->args = carve(&memory, &left, graph->num_args, sizeof(TVMValue));
  tables->slots = carve(&memory, &left, num_slots, sizeof(mlf_slot_t));
  tables->steps = carve(&memory, &left, graph->num_steps, sizeof(mlf_step_t));
  tables->named = carve(&memory, &left, num_io, sizeof(mlf_tensor_t));
  return tables->tensors != NULL && tables->args != NULL && tables->slots != NULL && tables->steps != NULL &&
         tables->named != NULL;
}

/* Where a tensor is. Kernels take all arguments through plain pointers; check_args() has seen to it
 * that none writes to the parameters. */
static void *data_of(const entry_t *entry, const mlf_graph_config_t *config, const uint8_t *params) {
  if (entry->place == PLACE_ARENA) {
    return &config->arena[entry->offset];
  }
  return params != NULL ? (void *)((uintptr_t)params + entry->offset) : NULL;
}

static void fill_tensors(const mlf_graph_t *graph, const mlf_graph_config_t *config, const uint8_t *params,
                         DLTensor *tensors) {
  for (uint32_t i = 0; i < graph->num_tensors; i++) {
    const entry_t entry = tensor_at(graph, i);
    DLTensor *tensor = &tensors[i];
    tensor->data = data_of(&entry, config, params);
    tensor->device.device_type = kDLCPU;
    tensor->device.device_id = 0;
    tensor->ndim = entry.ndim;
    tensor->dtype.code = entry.type_code;
    tensor->dtype.bits = entry.bits;
    tensor->dtype.lanes = entry.lanes;
    tensor->shape = (int64_t *)(uintptr_t)extents_at(graph, entry.first_extent);
    tensor->strides = NULL;
    tensor->byte_offset = 0;
  }
}

static void fill_steps(const mlf_graph_t *graph, const mlf_graph_config_t *config, const tables_t *tables) {
  TVMValue *args = tables->args;
  mlf_slot_t *slots = tables->slots;
  const uint8_t *next_arg = graph->args;
  const uint8_t *next_slot = graph->slots;
  for (uint32_t i = 0; i < graph->num_steps; i++) {
    const uint8_t *data = &graph->steps[(size_t)i * STEP_BYTES];
    const mlf_graph_kernel_t *kernel = &config->kernels[mlf_blob_u16(data)];
    mlf_step_t *step = &tables->steps[i];
    step->kernel = kernel->kernel;
    step->args = args;
    step->slots = slots;
    step->num_args = kernel->num_args;
    for (uint32_t left = kernel->num_args; left != 0; left--, next_arg += ARG_BYTES) {
      args->v_handle = &tables->tensors[mlf_blob_u16(next_arg)];
      args++;
    }
    for (uint32_t left = mlf_blob_u16(&data[4]); left != 0; left--, next_slot += SLOT_BYTES) {
      slots->base = &config->arena[mlf_blob_u32(next_slot)];
      slots->size_bytes = mlf_blob_u32(&next_slot[4]);
      slots++;
    }
    slots->base = NULL;
    slots->size_bytes = 0;
    slots++;
  }
}

static void fill_named(const mlf_graph_t *graph, const mlf_graph_config_t *config, const uint8_t *params,
                       mlf_tensor_t *named) {
  const uint32_t num_io = (uint32_t)graph->num_inputs + graph->num_outputs;
  for (uint32_t i = 0; i < num_io; i++) {
    const uint8_t *data = &graph->named[(size_t)i * NAMED_BYTES];
    const entry_t entry = tensor_at(graph, mlf_blob_u16(data));
    named[i].name = (const char *)&graph->names[mlf_blob_u32(&data[4])];
    named[i].data = data_of(&entry, config, params);
    named[i].shape = extents_at(graph, entry.first_extent);
    named[i].size_bytes = entry.size_bytes;
    named[i].ndim = entry.ndim;
    named[i].type_code = entry.type_code;
    named[i].bits = entry.bits;
    named[i].lanes = (uint8_t)entry.lanes;
  }
}

mlf_blob_status_t mlf_graph_load(const mlf_graph_t *graph, const mlf_graph_config_t *config,
                                 const uint8_t *params, mlf_model_t *out_model) {
  tables_t tables;
  if (!is_aligned(config->arena, MLF_GRAPH_ALIGNMENT) || !is_aligned(config->memory, 8) ||
      !is_aligned(params, MLF_GRAPH_ALIGNMENT)) {
    return MLF_BLOB_E_ALIGN;
  }
  if (graph->arena_bytes > config->arena_bytes || !place_tables(graph, config, &tables)) {
    return MLF_BLOB_E_LIMIT;
  }
  if (params == NULL && graph->params_bytes != 0) {
    return MLF_BLOB_E_RANGE;
  }
  const mlf_blob_status_t status = check_parts(graph, config);
  if (status != MLF_BLOB_OK) {
    return status;
  }
  fill_tensors(graph, config, params, tables.tensors);
  fill_steps(graph, config, &tables);
  fill_named(graph, config, params, tables.named);
  memset(out_model, 0, sizeof *out_model);
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
  memcpy(out_model->archive_sha256, &graph->blob[AT_ARCHIVE_SHA256], sizeof out_model->archive_sha256);
  return MLF_BLOB_OK;
}
