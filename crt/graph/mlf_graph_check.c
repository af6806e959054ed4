/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of a graph, all before anything is filled in. */
#include "mlf_graph_internal.h"

/* The size that extents and element type make up, or UINT64_MAX. */
static uint64_t size_of(const mlf_graph_t *graph, const mlf_graph_tensor_t *entry) {
  const int64_t *extents = mlf_graph_extents_at(graph, entry->first_extent);
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
    const mlf_graph_tensor_t entry = mlf_graph_tensor_at(graph, i);
    if (mlf_blob_u16(&graph->tensors[(size_t)i * MLF_GRAPH_TENSOR_BYTES + 18u]) != 0 ||
        entry.place > MLF_GRAPH_PLACE_PARAMS || entry.bits == 0 || entry.lanes == 0 ||
        entry.lanes > UINT8_MAX) {
      return MLF_BLOB_E_FORMAT;
    }
    if (entry.first_extent > graph->num_extents || entry.ndim > graph->num_extents - entry.first_extent) {
      return MLF_BLOB_E_INDEX;
    }
    if (size_of(graph, &entry) != entry.size_bytes ||
        !is_inside(entry.offset, entry.size_bytes,
                   entry.place == MLF_GRAPH_PLACE_PARAMS ? graph->params_bytes : graph->arena_bytes)) {
      return MLF_BLOB_E_RANGE;
    }
  }
  return MLF_BLOB_OK;
}

static mlf_blob_status_t check_slots(const mlf_graph_t *graph) {
  for (uint32_t i = 0; i < graph->num_slots; i++) {
    const uint8_t *slot = &graph->slots[(size_t)i * MLF_GRAPH_SLOT_BYTES];
    if (!is_inside(mlf_blob_u32(slot), mlf_blob_u32(&slot[4]), graph->arena_bytes)) {
      return MLF_BLOB_E_RANGE;
    }
  }
  return MLF_BLOB_OK;
}

/* Check the arguments of one step against those that its kernel was compiled for. */
static mlf_blob_status_t check_args(const mlf_graph_t *graph, const mlf_graph_kernel_t *kernel,
                                    const uint8_t *args) {
  for (uint32_t i = 0; i < kernel->num_args; i++) {
    const uint32_t index = mlf_blob_u16(&args[(size_t)i * MLF_GRAPH_ARG_BYTES]);
    if (index >= graph->num_tensors) {
      return MLF_BLOB_E_INDEX;
    }
    const mlf_graph_tensor_t entry = mlf_graph_tensor_at(graph, index);
    if (entry.size_bytes != kernel->arg_bytes[i] ||
        (i >= kernel->num_inputs && entry.place != MLF_GRAPH_PLACE_ARENA)) {
      return MLF_BLOB_E_KERNEL;
    }
  }
  return MLF_BLOB_OK;
}

static mlf_blob_status_t check_steps(const mlf_graph_t *graph, const mlf_graph_config_t *config) {
  mlf_graph_piece_t args = {graph->args, (size_t)graph->num_args * MLF_GRAPH_ARG_BYTES};
  uint32_t slots_left = graph->num_slots;
  for (uint32_t i = 0; i < graph->num_steps; i++) {
    const uint8_t *step = &graph->steps[(size_t)i * MLF_GRAPH_STEP_BYTES];
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
    const uint8_t *step_args = mlf_graph_take(&args, config->kernels[index].num_args, MLF_GRAPH_ARG_BYTES);
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
  for (uint32_t i = 0; i < mlf_graph_num_named(graph); i++) {
    const uint8_t *named = &graph->named[(size_t)i * MLF_GRAPH_NAMED_BYTES];
    const uint32_t index = mlf_blob_u16(named);
    if (mlf_blob_u16(&named[2]) != 0) {
      return MLF_BLOB_E_FORMAT;
    }
    if (index >= graph->num_tensors || mlf_blob_u32(&named[4]) >= graph->names_bytes) {
      return MLF_BLOB_E_INDEX;
    }
    /* inputs, which a host may write, lie in the arena */
    if (i < graph->num_inputs && mlf_graph_tensor_at(graph, index).place != MLF_GRAPH_PLACE_ARENA) {
      return MLF_BLOB_E_RANGE;
    }
  }
  return MLF_BLOB_OK;
}

mlf_blob_status_t mlf_graph_check(const mlf_graph_t *graph, const mlf_graph_config_t *config) {
  mlf_blob_status_t status = check_tensors(graph);
  if (status == MLF_BLOB_OK) {
    status = check_slots(graph);
  }
  if (status == MLF_BLOB_OK) {
    status = check_steps(graph, config);
  }
  return status == MLF_BLOB_OK ? check_named(graph) : status;
}
