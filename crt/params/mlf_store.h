/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_store.h - two slots for parameters, of which one is always whole.
 *
 * New parameters go into the slot that is not in force, piece by piece; the record that makes them
 * count is written last. Whatever happens on the way (power lost, transfer cut, driver failed), the
 * slot in force is never touched. Layout of a slot: crt/BLOBS.md.
 */
#ifndef MLF_STORE_H
#define MLF_STORE_H

#include "mlf_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest program_bytes of a driver, in bytes, a power of two, 32 to 4096: a piece of that size is put
 * together on the stack. */
#ifndef MLF_STORE_MAX_PROGRAM
#define MLF_STORE_MAX_PROGRAM 64
#endif

#if MLF_STORE_MAX_PROGRAM < 32 || MLF_STORE_MAX_PROGRAM > 4096 || \
    (MLF_STORE_MAX_PROGRAM & (MLF_STORE_MAX_PROGRAM - 1)) != 0
#error "MLF_STORE_MAX_PROGRAM must be a power of two, 32 to 4096"
#endif

#define MLF_STORE_MAGIC 0x53464C4Du /* "MLFS" */
#define MLF_STORE_VERSION 1u
#define MLF_STORE_RECORD_BYTES 32u
#define MLF_STORE_BLOB_AT MLF_STORE_MAX_PROGRAM /* offset of the blob in a slot */
#define MLF_STORE_NONE 0xFFu                    /* no slot */

/* Bytes of a slot for `params_bytes` of parameters (constant expression), where `erase_bytes` are erased at
 * once: a multiple of MLF_PARAMS_ALIGNMENT. */
#define MLF_STORE_SLOT_BYTES(params_bytes, erase_bytes)                                              \
  ((MLF_PARAMS_HEADER_BYTES + MLF_STORE_BLOB_AT + (uint32_t)(params_bytes) + (erase_bytes)-1u) /     \
   (erase_bytes) * (erase_bytes))

/* Memory of two slots, one behind the other. Offsets count from the beginning of the first one; what is
 * erased or programmed is aligned, in offset and in size, to erase_bytes or program_bytes. */
typedef struct {
  const uint8_t *map;     /* where the slots are read (and used), aligned to MLF_PARAMS_ALIGNMENT */
  uint32_t slot_bytes;    /* of each slot: a multiple of erase_bytes */
  uint32_t erase_bytes;   /* the least that can be erased: a multiple of program_bytes */
  uint32_t program_bytes; /* the least that can be written: a power of two, up to MLF_STORE_MAX_PROGRAM */
  uint8_t erased;         /* what an erased byte reads as */
  /* Each returns 0 when all of it is done and can be read, else anything. Each program_bytes is
   * programmed once after it was erased. */
  int32_t (*erase)(void *ctx, uint32_t offset, uint32_t size);
  int32_t (*program)(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size);
  void *ctx; /* handed to both; may be NULL */
} mlf_store_driver_t;

/* A check of what lies in a slot besides the parameters' own: a signature. `blob` is the parameter blob, with
 * `seal_bytes` behind it. Returns MLF_BLOB_OK, or anything else to refuse the slot. Called when a store is
 * opened. */
typedef struct {
  int32_t (*accept)(const void *ctx, const uint8_t *blob, uint32_t blob_bytes, uint32_t seal_bytes);
  const void *ctx;
  uint32_t most_bytes; /* of a seal: slots have that much room more */
} mlf_store_seal_t;

/* A store; its members are private. */
typedef struct {
  const mlf_store_driver_t *driver;
  const mlf_store_seal_t *seal; /* NULL: slots have no seal */
  mlf_params_fit_t fit;
  uint32_t seal_bytes; /* behind the blob of the slot in force */
  uint32_t newest;     /* the highest generation of any record */
  uint32_t generation; /* of the slot in force */
  uint32_t expected;   /* bytes of the blob and the seal under way; 0: none */
  uint32_t written;    /* of them */
  uint32_t erased_to;  /* offset in the slot under way, up to where it is erased */
  uint8_t active;      /* slot in force, or MLF_STORE_NONE */
} mlf_store_t;

/* Find the newest whole parameters that fit; `out_params` is written only when there are some.
 * `driver` and `fit->graph_id` must outlive the store.
 * Returns MLF_BLOB_OK, E_STATE when there are none, E_ALIGN or E_LIMIT when the driver's numbers are
 * inconsistent or its slots are too small. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_store_open(mlf_store_t *store, const mlf_store_driver_t *driver,
                                                 const mlf_params_fit_t *fit, mlf_params_t *out_params);

/* As mlf_store_open(), but only slots with a seal that `seal` accepts are taken; `seal` must outlive the
 * store. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_store_open_sealed(mlf_store_t *store, const mlf_store_driver_t *driver,
                                                        const mlf_store_seal_t *seal,
                                                        const mlf_params_fit_t *fit,
                                                        mlf_params_t *out_params);

/* Start to write a blob of `size` bytes; what another start had written is given up.
 * Returns MLF_BLOB_OK, E_MISMATCH (no blob of that size fits) or E_FLASH. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_store_begin(mlf_store_t *store, uint32_t size);

/* As mlf_store_begin(), for a blob with `seal_bytes` behind it; a sealed store takes no other.
 * Returns E_STATE as well: the store has no seals; E_LIMIT: the seal is too large. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_store_begin_sealed(mlf_store_t *store, uint32_t size,
                                                         uint32_t seal_bytes);

/* Write the next piece. Its size is a multiple of program_bytes unless it is the last one.
 * Returns MLF_BLOB_OK, E_STATE, E_GAP, E_SIZE, E_ALIGN; E_FLASH gives up what is under way. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_store_write(mlf_store_t *store, uint32_t offset, const uint8_t *data,
                                                  uint32_t size);

/* Give up what is under way, if anything is. */
void mlf_store_give_up(mlf_store_t *store);

/* Check what was written, read back from the slot, without putting it in force.
 * Returns MLF_BLOB_OK and writes `out_params`, or E_STATE, or what mlf_params_open() returns. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_store_check(const mlf_store_t *store, mlf_params_t *out_params);

/* Check what was written, read back from the slot, and put it in force. Ends what is under way.
 * Returns MLF_BLOB_OK and writes `out_params`, or E_STATE, E_FLASH, or what mlf_params_open() returns:
 * then the parameters in force stay in force. */
MLF_WARN_UNUSED mlf_blob_status_t mlf_store_commit(mlf_store_t *store, mlf_params_t *out_params);

#ifdef __cplusplus
}
#endif

#endif /* MLF_STORE_H */
