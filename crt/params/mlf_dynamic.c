/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_dynamic.h"

#include <string.h>

/* The parameters to start with: the store's, else the image's. */
static mlf_blob_status_t find_params(mlf_dynamic_t *dynamic, mlf_params_t *out_params) {
  const mlf_dynamic_config_t *config = dynamic->config;
  const mlf_params_fit_t fit = {dynamic->graph.graph_id, dynamic->graph.params_bytes};
  (void)memset(out_params, 0, sizeof *out_params);
  if (config->driver != NULL) {
    const mlf_blob_status_t status =
        mlf_store_open_sealed(&dynamic->store, config->driver, config->seal, &fit, out_params);
    if (status != MLF_BLOB_E_STATE) {
      return status;
    }
  }
  if (config->params_blob == NULL) {
    return fit.params_bytes == 0 ? MLF_BLOB_OK : MLF_BLOB_E_MISMATCH;
  }
  return mlf_params_open(out_params, config->params_blob, config->params_blob_bytes, &fit);
}

mlf_blob_status_t mlf_dynamic_boot(mlf_dynamic_t *dynamic, const mlf_dynamic_config_t *config) {
  (void)memset(dynamic, 0, sizeof *dynamic);
  (void)memset(config->model, 0, sizeof *config->model);
  dynamic->config = config;
  dynamic->store.active = MLF_STORE_NONE;
  mlf_blob_status_t status = mlf_graph_open(&dynamic->graph, config->graph_blob, config->graph_blob_bytes);
  if (status == MLF_BLOB_OK) {
    status = find_params(dynamic, &dynamic->params);
  }
  if (status == MLF_BLOB_OK) {
    status = mlf_graph_load(&dynamic->graph, &config->graph, dynamic->params.data, config->model);
  }
  return status;
}

mlf_blob_status_t mlf_dynamic_begin(mlf_dynamic_t *dynamic, uint32_t size) {
  return dynamic->config->driver != NULL ? mlf_store_begin(&dynamic->store, size) : MLF_BLOB_E_STATE;
}

mlf_blob_status_t mlf_dynamic_write(mlf_dynamic_t *dynamic, uint32_t offset, const uint8_t *data,
                                    uint32_t size) {
  return dynamic->config->driver != NULL ? mlf_store_write(&dynamic->store, offset, data, size)
                                         : MLF_BLOB_E_STATE;
}

mlf_blob_status_t mlf_dynamic_commit(mlf_dynamic_t *dynamic) {
  const mlf_dynamic_config_t *config = dynamic->config;
  mlf_blob_status_t status = MLF_BLOB_E_STATE;
  if (config->driver != NULL) {
    status = mlf_store_commit(&dynamic->store, &dynamic->params);
  }
  if (status == MLF_BLOB_OK) { /* checked at boot already: only the parameters are others */
    status = mlf_graph_load(&dynamic->graph, &config->graph, dynamic->params.data, config->model);
  }
  return status;
}
