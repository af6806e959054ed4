/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_package.h - signed packages of a model's parameters: received, verified, tried, put in force. The
 * format is specified in crt/PACKAGES.md.
 *
 * The head of a package comes first, and is verified before flash is touched. Its parameters and cases
 * go into the slot that is not in force; they are hashed as they lie there. Then the model is loaded with
 * them and runs the cases of the package. Only when all of them pass is the record written that makes the
 * new model count: whatever ends the device before (power, watchdog, fault), the next boot has the old one.
 */
#ifndef MLF_PACKAGE_H
#define MLF_PACKAGE_H

#include "mlf_crypto.h"
#include "mlf_dynamic.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_PACKAGE_MAGIC 0x4B464C4Du /* "MLFK" */
#define MLF_PACKAGE_VERSION 1u
#define MLF_PACKAGE_HEAD_BYTES 384u   /* signed part and signature */
#define MLF_PACKAGE_SIGNED_BYTES 320u /* of the head */
#define MLF_PACKAGE_ALIGNMENT 64u     /* parameters and cases together are a multiple of it */
#define MLF_PACKAGE_MOST_REVOKED 4u
#define MLF_PACKAGE_KEY_ID_BYTES 8u /* the first bytes of a public key */

/* Status of a package, beside those of mlf_blob_status_t. The numbers fit an i8. */
typedef enum {
  MLF_E_PACKAGE_FORMAT = -80,    /* no package of a version that is known, or sizes that disagree */
  MLF_E_PACKAGE_KEY = -81,       /* signed by a key that is not trusted */
  MLF_E_PACKAGE_REVOKED = -82,   /* signed by a revoked key, or it drops a revocation that is in force */
  MLF_E_PACKAGE_SIGNATURE = -83, /* the signature is wrong */
  MLF_E_PACKAGE_FIRMWARE = -84,  /* for a firmware with other kernels */
  MLF_E_PACKAGE_MODEL = -85,     /* for another model */
  MLF_E_PACKAGE_ARENA = -86,     /* it needs a larger arena */
  MLF_E_PACKAGE_OLD = -87,       /* not newer than what is in force */
  MLF_E_PACKAGE_ROOM = -88,      /* larger than a slot */
  MLF_E_PACKAGE_HASH = -89,      /* its content is not what was signed */
  MLF_E_PACKAGE_CASE = -90       /* an output of a self-test case is wrong, or the model failed */
} mlf_package_status_t;

/* The keys that may sign, and what the image holds. */
typedef struct {
  const uint8_t (*keys)[MLF_PUBLIC_KEY_BYTES];
  uint32_t image_version; /* of the parameters in the image: a package must be newer */
  uint8_t num_keys;
} mlf_package_trust_t;

/* Offsets in a head of what is longer than a number: crt/PACKAGES.md. */
typedef enum {
  MLF_PACKAGE_AT_GRAPH_ID = 32, /* 32 bytes */
  MLF_PACKAGE_AT_CODE_ID = 64,  /* 32 bytes */
  MLF_PACKAGE_AT_PARAMS_SHA512 = 96,
  MLF_PACKAGE_AT_CASES_SHA512 = 160,
  MLF_PACKAGE_AT_REVOKED = 256, /* ids of keys, one behind the other */
  MLF_PACKAGE_AT_KEY_ID = 288   /* of the key that signed */
} mlf_package_offset_t;

/* Content of a head that is well formed. */
typedef struct {
  const uint8_t *bytes; /* the head itself */
  uint32_t version;
  uint32_t params_bytes; /* of the parameter blob */
  uint32_t cases_bytes;
  uint32_t arena_bytes;
  uint16_t num_cases;
  uint8_t num_revoked;
} mlf_package_head_t;

/* Read a head of MLF_PACKAGE_HEAD_BYTES bytes, of a package of `total` bytes, that many at least. Returns
 * MLF_BLOB_OK or MLF_E_PACKAGE_FORMAT: `out_head` is then not written. */
MLF_WARN_UNUSED int32_t mlf_package_read_head(mlf_package_head_t *out_head, const uint8_t *bytes,
                                              uint32_t total);

/* Whether a head revokes the key with an id of MLF_PACKAGE_KEY_ID_BYTES bytes. */
int mlf_package_revokes(const mlf_package_head_t *head, const uint8_t *id);

/* Check who signed a head: one of the trusted keys that the head itself does not revoke.
 * Returns MLF_BLOB_OK, MLF_E_PACKAGE_KEY, _REVOKED or _SIGNATURE. */
MLF_WARN_UNUSED int32_t mlf_package_check_signer(const mlf_package_head_t *head,
                                                 const mlf_package_trust_t *trust);

/* Run the cases of a package on a loaded model: the outputs must be equal, or within their tolerances.
 * Returns MLF_BLOB_OK, MLF_E_PACKAGE_CASE and writes the number of the case, or MLF_E_PACKAGE_FORMAT. */
MLF_WARN_UNUSED int32_t mlf_package_run_cases(const mlf_model_t *model, const mlf_package_head_t *head,
                                              const uint8_t *cases, uint16_t *out_case);

/* ---- receiving ------------------------------------------------------------------------------ */

typedef struct {
  mlf_dynamic_t *dynamic;           /* booted with mlf_package_seal() as its config's seal */
  const mlf_package_trust_t *trust; /* at least one key */
  /* Called with 1 before the cases run and with 0 behind them: start and stop a watchdog. NULL: there is
   * none. */
  void (*watch)(void *ctx, int starts);
  void *ctx;
} mlf_package_config_t;

/* A receiver; its members are private. */
typedef struct {
  const mlf_package_config_t *config;
  mlf_package_head_t head;
  uint32_t total;    /* bytes of the package under way; 0: none */
  uint32_t received; /* of them */
  uint16_t failed_case;
  uint8_t bytes[MLF_PACKAGE_HEAD_BYTES];
} mlf_package_t;

/* Start a receiver; `config` must outlive it. */
void mlf_package_init(mlf_package_t *package, const mlf_package_config_t *config);

/* A store's check of its slots by `trust`: use `{mlf_package_accept, &trust, room}`. */
int32_t mlf_package_accept(const void *ctx, const uint8_t *blob, uint32_t blob_bytes, uint32_t seal_bytes);

/* Version in force: of the package, else of the image. */
uint32_t mlf_package_version(const mlf_dynamic_t *dynamic, const mlf_package_trust_t *trust);

/* Start to receive a package of `total` bytes, and give up another.
 * Returns MLF_BLOB_OK, MLF_E_PACKAGE_FORMAT or MLF_BLOB_E_STATE (the model has no store). */
MLF_WARN_UNUSED int32_t mlf_package_begin(mlf_package_t *package, uint32_t total);

/* Take the next piece, of any size: behind the head, of a multiple of the store's program_bytes. What
 * completes the head must end with it. A head that is refused, or flash that fails, gives up the package.
 * Returns MLF_BLOB_OK, MLF_BLOB_E_STATE, _GAP, _SIZE, _ALIGN, _FLASH, or any of mlf_package_status_t. */
MLF_WARN_UNUSED int32_t mlf_package_write(mlf_package_t *package, uint32_t offset, const uint8_t *data,
                                          uint32_t size);

/* Take the next piece from what is in force: `size` bytes from `from` on of its parameter blob, and of the
 * cases behind it where a package is in force. Only behind the head; it is hashed and signed like what is
 * sent. Returns as mlf_package_write(), and MLF_BLOB_E_RANGE: there is no such piece. */
MLF_WARN_UNUSED int32_t mlf_package_copy(mlf_package_t *package, uint32_t offset, uint32_t size,
                                         uint32_t from);

/* Verify what was received as it lies in flash, run its cases, and put it in force. Ends what is under way.
 * On an error the model that was in force still is, and loaded.
 * Returns MLF_BLOB_OK, or as mlf_package_write(). */
MLF_WARN_UNUSED int32_t mlf_package_commit(mlf_package_t *package);

#ifdef __cplusplus
}
#endif

#endif /* MLF_PACKAGE_H */
