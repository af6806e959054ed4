/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_graph.h - the dynamic executor: a graph blob, checked and turned into an ordinary mlf_model_t.
 *
 *     static uint64_t tables[MLF_GRAPH_WORDS(TENSORS, ARGS, SLOTS, STEPS, INPUTS_AND_OUTPUTS)];
 *     mlf_graph_t graph;
 *     mlf_model_t model;
 *     if (mlf_graph_open(&graph, blob, size) == MLF_BLOB_OK &&
 *         mlf_graph_load(&graph, &config, params, &model) == MLF_BLOB_OK) {
 *       status = mlf_run(&model);
 *     }
 *
 * Everything is checked before anything is written: a blob is refused whole. Kernels are named by
 * their index in a table of the image, and get arguments of exactly the sizes that they were compiled
 * for: no blob makes a kernel touch memory outside of the arena and the parameters. The blob must stay
 * where it is while the model is used: names and extents are not copied.
 */
#ifndef MLF_GRAPH_H
#define MLF_GRAPH_H

#include <tvm/runtime/c_runtime_api.h>

#include "mlf_blob.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_GRAPH_MAGIC 0x47464C4Du /* "MLFG" */
#define MLF_GRAPH_VERSION 1u
#define MLF_GRAPH_HEADER_BYTES 152u
#define MLF_GRAPH_ID_BYTES 32u
#define MLF_GRAPH_ALIGNMENT 16u /* of tensors and workspaces, and of arena and parameters themselves */

/* Bytes of memory, and 64-bit words, that the tables of a model take (constant expressions). */
#define MLF_GRAPH_MEMORY_BYTES(tensors, args, slots, steps, inputs_outputs)                              \
  ((tensors) * sizeof(DLTensor) + (args) * sizeof(TVMValue) + ((slots) + (steps)) * sizeof(mlf_slot_t) + \
   (steps) * sizeof(mlf_step_t) + (inputs_outputs) * sizeof(mlf_tensor_t))
#define MLF_GRAPH_WORDS(tensors, args, slots, steps, inputs_outputs) \
  ((MLF_GRAPH_MEMORY_BYTES(tensors, args, slots, steps, inputs_outputs) + 7u) / 8u)

/* A kernel of the image, and the arguments that it takes. */
typedef struct {
  mlf_kernel_t kernel;
  const uint32_t *arg_bytes; /* the exact size of each argument */
  uint16_t num_args;
  uint16_t num_inputs; /* the arguments from here on are written, and lie in the arena */
} mlf_graph_kernel_t;

/* What the image provides to a graph. */
typedef struct {
  const mlf_graph_kernel_t *kernels; /* by index; NULL only with num_kernels == 0 */
  const int32_t *type_codes;         /* num_type_codes times 7 (DLTensor *) */
  uint8_t *arena;                    /* aligned to MLF_GRAPH_ALIGNMENT */
  void *memory;                      /* for the tables, aligned to 8 bytes */
  size_t memory_bytes;               /* MLF_GRAPH_MEMORY_BYTES() or more */
  uint32_t arena_bytes;
  uint16_t num_kernels;
  uint16_t num_type_codes; /* the most arguments that a step may have */
} mlf_graph_config_t;

/* An opened blob: the addresses of its parts. Read-only for applications. */
typedef struct {
  const uint8_t *blob;
  const uint8_t *graph_id; /* MLF_GRAPH_ID_BYTES; parameters are made for one graph */
  const uint8_t *extents;
  const uint8_t *tensors;
  const uint8_t *slots;
  const uint8_t *steps;
  const uint8_t *named;
  const uint8_t *args;
  const uint8_t *names;
  uint32_t blob_bytes;
  uint32_t arena_bytes;  /* that it needs */
  uint32_t params_bytes; /* that it needs */
  uint32_t num_extents;
  uint32_t num_args;
  uint32_t num_slots;
  uint32_t names_bytes;
  uint16_t num_tensors;
  uint16_t num_steps;
  uint16_t num_kernels;
  uint16_t num_params;
  uint8_t num_inputs;
  uint8_t num_outputs;
  uint8_t flags;
} mlf_graph_t;

/* Check the header, the CRC and the sizes of all parts of a blob that lies in at most `size` bytes.
 * `blob` is aligned to 8 bytes. On an error `graph` is not written.
 * Returns MLF_BLOB_OK, E_ALIGN, E_SIZE, E_FORMAT or E_CRC. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_graph_open(mlf_graph_t *graph, const uint8_t *blob, size_t size);

/* Check everything else against `config`, then fill in the tables and `out_model`.
 * `params` are graph->params_bytes bytes; it may be NULL when that is 0. May be called again, to put
 * other parameters in force. On an error nothing is written.
 * Returns MLF_BLOB_OK, E_ALIGN, E_FORMAT, E_LIMIT, E_INDEX, E_RANGE, E_KERNEL. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_graph_load(const mlf_graph_t *graph, const mlf_graph_config_t *config,
                                                 const uint8_t *params, mlf_model_t *out_model);

#ifdef __cplusplus
}
#endif

#endif /* MLF_GRAPH_H */
