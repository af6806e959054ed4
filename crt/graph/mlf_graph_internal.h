/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_graph_internal.h - shared by the files of the graph loader. Not for applications. */
#ifndef MLF_GRAPH_INTERNAL_H
#define MLF_GRAPH_INTERNAL_H

#include "mlf_graph.h"

/* Sizes of an entry of each part: crt/BLOBS.md. */
enum {
  MLF_GRAPH_EXTENT_BYTES = 8,
  MLF_GRAPH_TENSOR_BYTES = 20,
  MLF_GRAPH_SLOT_BYTES = 8,
  MLF_GRAPH_STEP_BYTES = 8,
  MLF_GRAPH_NAMED_BYTES = 8,
  MLF_GRAPH_ARG_BYTES = 2
};

#define MLF_GRAPH_PLACE_ARENA 0u
#define MLF_GRAPH_PLACE_PARAMS 1u

/* Bytes that are consumed from the front. */
typedef struct {
  const uint8_t *at;
  size_t left;
} mlf_graph_piece_t;

/* `count` entries of `size` bytes; NULL when there is less than that. */
const uint8_t *mlf_graph_take(mlf_graph_piece_t *piece, size_t count, size_t size);

/* An entry of the tensors. */
typedef struct {
  uint32_t offset;
  uint32_t size_bytes;
  uint32_t first_extent;
  uint8_t place;
  uint8_t ndim;
  uint8_t type_code;
  uint8_t bits;
  uint16_t lanes;
} mlf_graph_tensor_t;

mlf_graph_tensor_t mlf_graph_tensor_at(const mlf_graph_t *graph, uint32_t index);
const int64_t *mlf_graph_extents_at(const mlf_graph_t *graph, uint32_t index);

/* Inputs, outputs and parameters. */
static inline uint32_t mlf_graph_num_named(const mlf_graph_t *graph) {
  return (uint32_t)graph->num_inputs + graph->num_outputs + graph->num_params;
}

/* Check all entries against each other and against `config`. */
mlf_blob_status_t mlf_graph_check(const mlf_graph_t *graph, const mlf_graph_config_t *config);

/* The tables of a model, in the memory of the config. */
typedef struct {
  DLTensor *tensors;
  TVMValue *args;
  mlf_slot_t *slots;
  mlf_step_t *steps;
  mlf_tensor_t *named; /* inputs, then outputs */
} mlf_graph_tables_t;

/* 0 when they do not fit. */
int mlf_graph_place_tables(const mlf_graph_t *graph, const mlf_graph_config_t *config,
                           mlf_graph_tables_t *out_tables);

/* Only for a graph that was checked. */
void mlf_graph_fill_tables(const mlf_graph_t *graph, const mlf_graph_config_t *config, const uint8_t *params,
                           const mlf_graph_tables_t *tables);

#endif /* MLF_GRAPH_INTERNAL_H */
