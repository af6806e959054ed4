/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_dynamic.h - a model whose structure is a graph blob, and whose parameters can be replaced.
 *
 * mlf_dynamic_boot() loads the graph with the newest parameters of the store that are whole and fit,
 * else with those of the image. A change takes effect with mlf_dynamic_commit(), and at every boot
 * from then on. None of these functions may be called while the model runs.
 */
#ifndef MLF_DYNAMIC_H
#define MLF_DYNAMIC_H

#include "mlf_graph.h"
#include "mlf_params.h"
#include "mlf_store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  mlf_graph_config_t graph;         /* kernels, arena, memory for the tables */
  const uint8_t *graph_blob;        /* aligned to 8 bytes */
  const uint8_t *params_blob;       /* of the image; NULL only for a graph without parameters */
  const mlf_store_driver_t *driver; /* NULL: the parameters can't be replaced */
  const mlf_store_seal_t *seal;     /* NULL: slots have no seal, and who can write them is trusted */
  mlf_model_t *model;               /* what is loaded */
  uint32_t graph_blob_bytes;
  uint32_t params_blob_bytes;
} mlf_dynamic_config_t;

/* A loaded model; `graph`, `params` and `store` may be read. */
typedef struct {
  const mlf_dynamic_config_t *config;
  mlf_graph_t graph;
  mlf_params_t params; /* in force */
  mlf_store_t store;   /* active == MLF_STORE_NONE: those of the image are in force */
} mlf_dynamic_t;

/* Load config->model; `config` must outlive `dynamic`. On an error the model has no inputs, outputs and
 * steps. Returns what mlf_graph_open(), mlf_graph_load(), mlf_params_open() or, for a driver whose
 * numbers are inconsistent, mlf_store_open() return. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_dynamic_boot(mlf_dynamic_t *dynamic,
                                                   const mlf_dynamic_config_t *config);

/* Replace the parameters: as mlf_store_begin(), _write(), _commit(). E_STATE without a store. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_dynamic_begin(mlf_dynamic_t *dynamic, uint32_t size);
MLF_WARN_UNUSED mlf_blob_status_t mlf_dynamic_write(mlf_dynamic_t *dynamic, uint32_t offset,
                                                    const uint8_t *data, uint32_t size);
MLF_WARN_UNUSED mlf_blob_status_t mlf_dynamic_commit(mlf_dynamic_t *dynamic);

#ifdef __cplusplus
}
#endif

#endif /* MLF_DYNAMIC_H */
