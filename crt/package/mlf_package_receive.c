/* SPDX-License-Identifier: Apache-2.0 */
/* Packages as they arrive, and as they lie in a slot. */
#include <string.h>

#include "mlf_package.h"

enum { GRAPH_CODE_ID = 88 }; /* offset in a graph blob: crt/BLOBS.md */

static int32_t give_up(mlf_package_t *package, int32_t status) {
  package->total = 0;
  mlf_store_give_up(&package->config->dynamic->store);
  return status;
}

static int hash_is(const uint8_t *wanted, const uint8_t *data, uint32_t size) {
  uint8_t digest[MLF_SHA512_BYTES];
  return mlf_crypto_sha512(digest, data, size) == 0 && memcmp(digest, wanted, sizeof digest) == 0;
}

static int32_t check_content(const mlf_package_head_t *head, const uint8_t *blob) {
  return hash_is(&head->bytes[MLF_PACKAGE_AT_PARAMS_SHA512], blob, head->params_bytes) &&
                 hash_is(&head->bytes[MLF_PACKAGE_AT_CASES_SHA512], &blob[head->params_bytes],
                         head->cases_bytes)
             ? MLF_BLOB_OK
             : MLF_E_PACKAGE_HASH;
}

/* ---- slots ---------------------------------------------------------------------------------- */

int32_t mlf_package_accept(const void *ctx, const uint8_t *blob, uint32_t blob_bytes, uint32_t seal_bytes) {
  const mlf_package_trust_t *trust = ctx;
  const uint32_t total = blob_bytes + seal_bytes;
  mlf_package_head_t head;
  if (seal_bytes < MLF_PACKAGE_HEAD_BYTES ||
      mlf_package_read_head(&head, &blob[total - MLF_PACKAGE_HEAD_BYTES], total) != MLF_BLOB_OK ||
      head.params_bytes != blob_bytes) {
    return MLF_E_PACKAGE_FORMAT;
  }
  if (head.version <= trust->image_version) {
    return MLF_E_PACKAGE_OLD;
  }
  const int32_t status = mlf_package_check_signer(&head, trust);
  return status == MLF_BLOB_OK ? check_content(&head, blob) : status;
}

/* What is in force: the parameter blob, and behind it, `size` in all, the seal of a package. */
static const uint8_t *blob_in_force(const mlf_dynamic_t *dynamic, uint32_t *out_size) {
  *out_size = dynamic->params.blob_bytes + dynamic->store.seal_bytes;
  return dynamic->params.data - MLF_PARAMS_HEADER_BYTES;
}

/* The head of the package in force; 0: the image's parameters are. */
static int head_in_force(const mlf_dynamic_t *dynamic, mlf_package_head_t *out_head) {
  uint32_t size;
  const uint8_t *blob = blob_in_force(dynamic, &size);
  return dynamic->store.active != MLF_STORE_NONE &&
         mlf_package_read_head(out_head, &blob[size - MLF_PACKAGE_HEAD_BYTES], size) == MLF_BLOB_OK;
}

uint32_t mlf_package_version(const mlf_dynamic_t *dynamic, const mlf_package_trust_t *trust) {
  mlf_package_head_t head;
  return head_in_force(dynamic, &head) ? head.version : trust->image_version;
}

/* ---- a head --------------------------------------------------------------------------------- */

/* Revocations are never taken back: all that are in force stay. */
static int32_t check_revocations(const mlf_package_head_t *head, const mlf_package_head_t *in_force) {
  const uint8_t *revoked = &in_force->bytes[MLF_PACKAGE_AT_REVOKED];
  for (uint32_t i = 0; i < in_force->num_revoked; i++) {
    if (!mlf_package_revokes(head, &revoked[i * MLF_PACKAGE_KEY_ID_BYTES])) {
      return MLF_E_PACKAGE_REVOKED;
    }
  }
  return MLF_BLOB_OK;
}

static int32_t check_fit(const mlf_package_t *package, const mlf_package_head_t *head) {
  const mlf_dynamic_t *dynamic = package->config->dynamic;
  if (head->arena_bytes > dynamic->config->graph.arena_bytes) {
    return MLF_E_PACKAGE_ARENA;
  }
  if (memcmp(&head->bytes[MLF_PACKAGE_AT_CODE_ID], &dynamic->graph.blob[GRAPH_CODE_ID], 32) != 0) {
    return MLF_E_PACKAGE_FIRMWARE;
  }
  if (memcmp(&head->bytes[MLF_PACKAGE_AT_GRAPH_ID], dynamic->graph.graph_id, 32) != 0 ||
      head->params_bytes != MLF_PARAMS_HEADER_BYTES + dynamic->graph.params_bytes) {
    return MLF_E_PACKAGE_MODEL;
  }
  return head->cases_bytes <= dynamic->config->seal->most_bytes - MLF_PACKAGE_HEAD_BYTES ? MLF_BLOB_OK
                                                                                         : MLF_E_PACKAGE_ROOM;
}

/* Everything that can be said before flash is touched; the signature first, so that nobody else learns more.
 */
static int32_t check_head(mlf_package_t *package) {
  const mlf_package_trust_t *trust = package->config->trust;
  mlf_package_head_t *head = &package->head;
  mlf_package_head_t in_force;
  uint32_t version = trust->image_version;
  int32_t status = mlf_package_read_head(head, package->bytes, package->total);
  if (status == MLF_BLOB_OK) {
    status = mlf_package_check_signer(head, trust);
  }
  if (status == MLF_BLOB_OK && head_in_force(package->config->dynamic, &in_force)) {
    version = in_force.version;
    status = check_revocations(head, &in_force);
  }
  if (status == MLF_BLOB_OK) {
    status = check_fit(package, head);
  }
  return status == MLF_BLOB_OK && head->version <= version ? (int32_t)MLF_E_PACKAGE_OLD : status;
}

/* ---- receiving ------------------------------------------------------------------------------ */

void mlf_package_init(mlf_package_t *package, const mlf_package_config_t *config) {
  memset(package, 0, sizeof *package);
  package->config = config;
}

int32_t mlf_package_begin(mlf_package_t *package, uint32_t total) {
  (void)give_up(package, 0);
  package->received = 0;
  if (package->config->dynamic->config->driver == NULL || package->config->dynamic->config->seal == NULL) {
    return MLF_BLOB_E_STATE;
  }
  if (total <= MLF_PACKAGE_HEAD_BYTES) {
    return MLF_E_PACKAGE_FORMAT;
  }
  package->total = total;
  return MLF_BLOB_OK;
}

static int32_t write_head(mlf_package_t *package, const uint8_t *data, uint32_t size) {
  if (size > MLF_PACKAGE_HEAD_BYTES - package->received) {
    return MLF_BLOB_E_SIZE;
  }
  memcpy(&package->bytes[package->received], data, size);
  package->received += size;
  if (package->received < MLF_PACKAGE_HEAD_BYTES) {
    return MLF_BLOB_OK;
  }
  int32_t status = check_head(package);
  if (status == MLF_BLOB_OK) {
    status = mlf_store_begin_sealed(&package->config->dynamic->store, package->head.params_bytes,
                                    package->head.cases_bytes + MLF_PACKAGE_HEAD_BYTES);
  }
  return status == MLF_BLOB_OK ? status : give_up(package, status);
}

int32_t mlf_package_write(mlf_package_t *package, uint32_t offset, const uint8_t *data, uint32_t size) {
  if (package->total == 0) {
    return MLF_BLOB_E_STATE;
  }
  if (offset != package->received) {
    return MLF_BLOB_E_GAP;
  }
  if (size > package->total - package->received) {
    return MLF_BLOB_E_SIZE;
  }
  if (size == 0) {
    return MLF_BLOB_OK;
  }
  if (package->received < MLF_PACKAGE_HEAD_BYTES) {
    return write_head(package, data, size);
  }
  const int32_t status =
      mlf_store_write(&package->config->dynamic->store, offset - MLF_PACKAGE_HEAD_BYTES, data, size);
  if (status == MLF_BLOB_OK) {
    package->received += size;
  }
  return status == MLF_BLOB_E_FLASH ? give_up(package, status) : status;
}

int32_t mlf_package_copy(mlf_package_t *package, uint32_t offset, uint32_t size, uint32_t from) {
  const mlf_dynamic_t *dynamic = package->config->dynamic;
  uint32_t room;
  uint8_t piece[MLF_STORE_MAX_PROGRAM]; /* not from flash to flash: a driver may not read what it programs */
  if (package->total == 0 || package->received < MLF_PACKAGE_HEAD_BYTES) {
    return MLF_BLOB_E_STATE;
  }
  const uint8_t *const blob = blob_in_force(dynamic, &room);
  if (from > room || size > room - from) {
    return MLF_BLOB_E_RANGE;
  }
  for (uint32_t done = 0; done < size;) {
    const uint32_t count = size - done < sizeof piece ? size - done : (uint32_t)sizeof piece;
    (void)memcpy(piece, &blob[from + done], count);
    const int32_t status = mlf_package_write(package, offset + done, piece, count);
    if (status != MLF_BLOB_OK) {
      return status;
    }
    done += count;
  }
  return MLF_BLOB_OK;
}

static int32_t load(const mlf_dynamic_t *dynamic, const mlf_params_t *params) {
  const mlf_dynamic_config_t *config = dynamic->config;
  return mlf_graph_load(&dynamic->graph, &config->graph, params->data, config->model);
}

static void watch(const mlf_package_config_t *config, int starts) {
  if (config->watch != NULL) {
    config->watch(config->ctx, starts);
  }
}

/* The model with the new parameters, for its cases; then with the old ones again. */
static int32_t try_model(mlf_package_t *package, const mlf_params_t *params) {
  const mlf_package_config_t *config = package->config;
  const mlf_dynamic_t *dynamic = config->dynamic;
  int32_t status = load(dynamic, params);
  if (status != MLF_BLOB_OK) {
    return status;
  }
  watch(config, 1);
  status = mlf_package_run_cases(dynamic->config->model, &package->head, &params->data[params->data_bytes],
                                 &package->failed_case);
  watch(config, 0);
  const int32_t restored = load(dynamic, &dynamic->params);
  return status != MLF_BLOB_OK ? status : restored;
}

int32_t mlf_package_commit(mlf_package_t *package) {
  mlf_dynamic_t *dynamic = package->config->dynamic;
  mlf_params_t params;
  if (package->total == 0 || package->received != package->total) {
    return MLF_BLOB_E_STATE;
  }
  int32_t status = mlf_store_write(&dynamic->store, package->head.params_bytes + package->head.cases_bytes,
                                   package->bytes, MLF_PACKAGE_HEAD_BYTES);
  if (status == MLF_BLOB_OK) {
    status = mlf_store_check(&dynamic->store, &params);
  }
  if (status == MLF_BLOB_OK) { /* as it lies in flash, the copy of the head as well */
    const uint8_t *blob = params.data - MLF_PARAMS_HEADER_BYTES;
    const uint32_t body = package->head.params_bytes + package->head.cases_bytes;
    status = memcmp(&blob[body], package->bytes, MLF_PACKAGE_HEAD_BYTES) == 0
                 ? check_content(&package->head, blob)
                 : (int32_t)MLF_BLOB_E_FLASH;
  }
  if (status == MLF_BLOB_OK) {
    status = try_model(package, &params);
  }
  if (status == MLF_BLOB_OK) {
    status = mlf_dynamic_commit(dynamic);
  }
  return give_up(package, status);
}
