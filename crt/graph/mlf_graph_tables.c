/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that the executor runs, from a checked graph. */
#include <mlf/mlf_adapter.h>

#include "mlf_graph_internal.h"

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

/* In the order of their alignment. */
int mlf_graph_place_tables(const mlf_graph_t *graph, const mlf_graph_config_t *config,
                           mlf_graph_tables_t *out_tables) {
  uint8_t *memory = config->memory;
  size_t left = config->memory_bytes;
  const size_t num_slots = (size_t)graph->num_slots + graph->num_steps; /* each step's list has an end */
  const size_t num_io = (size_t)graph->num_inputs + graph->num_outputs;
  out_tables->tensors = carve(&memory, &left, graph->num_tensors, sizeof(DLTensor));
  out_tables->args = carve(&memory, &left, graph->num_args, sizeof(TVMValue));
  out_tables->slots = carve(&memory, &left, num_slots, sizeof(mlf_slot_t));
  out_tables->steps = carve(&memory, &left, graph->num_steps, sizeof(mlf_step_t));
  out_tables->named = carve(&memory, &left, num_io, sizeof(mlf_tensor_t));
  return out_tables->tensors != NULL && out_tables->args != NULL && out_tables->slots != NULL &&
         out_tables->steps != NULL && out_tables->named != NULL;
}

/* Address of a tensor. Parameters are const but for the ABI: mlf_graph_check() refuses a graph in which a
 * kernel writes to them. */
static void *data_of(const mlf_graph_tensor_t *entry, const mlf_graph_config_t *config,
                     const uint8_t *params) {
  if (entry->place == MLF_GRAPH_PLACE_ARENA) {
    return &config->arena[entry->offset];
  }
  return params != NULL ? MLF_ABI_POINTER(params + entry->offset) : NULL;
}

static void fill_tensors(const mlf_graph_t *graph, const mlf_graph_config_t *config, const uint8_t *params,
                         DLTensor *tensors) {
  for (uint32_t i = 0; i < graph->num_tensors; i++) {
    const mlf_graph_tensor_t entry = mlf_graph_tensor_at(graph, i);
    DLTensor *tensor = &tensors[i];
    tensor->data = data_of(&entry, config, params);
    tensor->device.device_type = kDLCPU;
    tensor->device.device_id = 0;
    tensor->ndim = entry.ndim;
    tensor->dtype.code = entry.type_code;
    tensor->dtype.bits = entry.bits;
    tensor->dtype.lanes = entry.lanes;
    tensor->shape = MLF_ABI_POINTER(mlf_graph_extents_at(graph, entry.first_extent));
    tensor->strides = NULL;
    tensor->byte_offset = 0;
  }
}

static void fill_steps(const mlf_graph_t *graph, const mlf_graph_config_t *config,
                       const mlf_graph_tables_t *tables) {
  TVMValue *args = tables->args;
  mlf_slot_t *slots = tables->slots;
  const uint8_t *next_arg = graph->args;
  const uint8_t *next_slot = graph->slots;
  for (uint32_t i = 0; i < graph->num_steps; i++) {
    const uint8_t *data = &graph->steps[(size_t)i * MLF_GRAPH_STEP_BYTES];
    const mlf_graph_kernel_t *kernel = &config->kernels[mlf_blob_u16(data)];
    mlf_step_t *step = &tables->steps[i];
    step->kernel = kernel->kernel;
    step->args = args;
    step->slots = slots;
    step->num_args = kernel->num_args;
    for (uint32_t left = kernel->num_args; left != 0; left--, next_arg += MLF_GRAPH_ARG_BYTES) {
      args->v_handle = &tables->tensors[mlf_blob_u16(next_arg)];
      args++;
    }
    for (uint32_t left = mlf_blob_u16(&data[4]); left != 0; left--, next_slot += MLF_GRAPH_SLOT_BYTES) {
      *slots++ =
          (mlf_slot_t)MLF_SLOT(&config->arena[mlf_blob_u32(next_slot)], mlf_blob_u32(&next_slot[4]));
    }
    *slots++ = (mlf_slot_t)MLF_SLOT_END;
  }
}

static void fill_named(const mlf_graph_t *graph, const mlf_graph_config_t *config, const uint8_t *params,
                       mlf_tensor_t *named) {
  const uint32_t num_io = (uint32_t)graph->num_inputs + graph->num_outputs;
  for (uint32_t i = 0; i < num_io; i++) {
    const uint8_t *data = &graph->named[(size_t)i * MLF_GRAPH_NAMED_BYTES];
    const mlf_graph_tensor_t entry = mlf_graph_tensor_at(graph, mlf_blob_u16(data));
    named[i].name = (const char *)&graph->names[mlf_blob_u32(&data[4])];
    named[i].data = data_of(&entry, config, params);
    named[i].shape = mlf_graph_extents_at(graph, entry.first_extent);
    named[i].size_bytes = entry.size_bytes;
    named[i].ndim = entry.ndim;
    named[i].type_code = entry.type_code;
    named[i].bits = entry.bits;
    named[i].lanes = (uint8_t)entry.lanes;
  }
}

void mlf_graph_fill_tables(const mlf_graph_t *graph, const mlf_graph_config_t *config, const uint8_t *params,
                           const mlf_graph_tables_t *tables) {
  fill_tensors(graph, config, params, tables->tensors);
  fill_steps(graph, config, tables);
  fill_named(graph, config, params, tables->named);
}
