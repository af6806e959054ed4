/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_store.h"

#include <string.h>

/* Offsets in a record: crt/BLOBS.md. */
enum {
  AT_VERSION = 4,
  AT_RECORD_BYTES = 6,
  AT_GENERATION = 8,
  AT_BLOB_BYTES = 12,
  AT_BLOB_CRC = 16,
  AT_SEAL_BYTES = 20,
  AT_ZERO = 24,
  AT_RECORD_CRC = 28
};

typedef struct {
  uint32_t generation;
  uint32_t blob_bytes;
  uint32_t blob_crc; /* of the blob's header */
  uint32_t seal_bytes;
} record_t;

static void put_u32(uint8_t *out, uint32_t value) {
  for (uint32_t i = 0; i < 4; i++) {
    out[i] = (uint8_t)(value >> (8u * i));
  }
}

static int is_power_of_two(uint32_t value) { return value != 0 && (value & (value - 1u)) == 0; }

static int is_newer(uint32_t a, uint32_t b) { return a != b && a - b < 0x80000000u; }

static const uint8_t *slot_at(const mlf_store_driver_t *driver, uint32_t slot) {
  return &driver->map[(size_t)slot * driver->slot_bytes];
}

/* ---- records -------------------------------------------------------------------------------- */

static int read_record(const mlf_store_driver_t *driver, uint32_t slot, record_t *out_record) {
  const uint8_t *data = slot_at(driver, slot);
  if (mlf_blob_u32(data) != MLF_STORE_MAGIC || mlf_blob_u16(&data[AT_VERSION]) != MLF_STORE_VERSION ||
      mlf_blob_u16(&data[AT_RECORD_BYTES]) != MLF_STORE_RECORD_BYTES || mlf_blob_u32(&data[AT_ZERO]) != 0 ||
      mlf_crc32(0, data, AT_RECORD_CRC) != mlf_blob_u32(&data[AT_RECORD_CRC])) {
    return 0;
  }
  out_record->generation = mlf_blob_u32(&data[AT_GENERATION]);
  out_record->blob_bytes = mlf_blob_u32(&data[AT_BLOB_BYTES]);
  out_record->blob_crc = mlf_blob_u32(&data[AT_BLOB_CRC]);
  out_record->seal_bytes = mlf_blob_u32(&data[AT_SEAL_BYTES]);
  return 1;
}

static void make_record(uint8_t *out, const record_t *record) {
  (void)memset(out, 0, MLF_STORE_RECORD_BYTES);
  put_u32(out, MLF_STORE_MAGIC);
  put_u32(&out[AT_VERSION], MLF_STORE_VERSION | MLF_STORE_RECORD_BYTES << 16);
  put_u32(&out[AT_GENERATION], record->generation);
  put_u32(&out[AT_BLOB_BYTES], record->blob_bytes);
  put_u32(&out[AT_BLOB_CRC], record->blob_crc);
  put_u32(&out[AT_SEAL_BYTES], record->seal_bytes);
  put_u32(&out[AT_RECORD_CRC], mlf_crc32(0, out, AT_RECORD_CRC));
}

/* Non-zero when a slot has the seal that the store asks for, or none where it asks for none. */
static int is_sealed(const mlf_store_t *store, const uint8_t *blob, const record_t *record) {
  if (store->seal == NULL || record->seal_bytes == 0) {
    return store->seal == NULL && record->seal_bytes == 0;
  }
  const uint32_t room = store->driver->slot_bytes - MLF_STORE_BLOB_AT - record->blob_bytes;
  return record->seal_bytes <= store->seal->most_bytes && record->seal_bytes <= room &&
         store->seal->accept(store->seal->ctx, blob, record->blob_bytes, record->seal_bytes) == MLF_BLOB_OK;
}

/* The parameters of a slot, if its record and they themselves are whole, and fit. */
static int open_slot(const mlf_store_t *store, uint32_t slot, const record_t *record,
                     mlf_params_t *out_params) {
  mlf_params_t found;
  if (record->blob_bytes > store->driver->slot_bytes - MLF_STORE_BLOB_AT) {
    return 0;
  }
  const uint8_t *blob = slot_at(store->driver, slot) + MLF_STORE_BLOB_AT;
  if (mlf_params_open(&found, blob, record->blob_bytes, &store->fit) != MLF_BLOB_OK ||
      found.blob_bytes != record->blob_bytes || found.header_crc != record->blob_crc ||
      !is_sealed(store, blob, record)) {
    return 0;
  }
  *out_params = found;
  return 1;
}

/* ---- opening -------------------------------------------------------------------------------- */

static mlf_blob_status_t check_driver(const mlf_store_driver_t *driver, uint32_t params_bytes,
                                      uint32_t seal_bytes) {
  if ((uintptr_t)driver->map % MLF_PARAMS_ALIGNMENT != 0 || driver->slot_bytes % MLF_PARAMS_ALIGNMENT != 0 ||
      !is_power_of_two(driver->program_bytes) || driver->program_bytes > MLF_STORE_MAX_PROGRAM ||
      driver->erase_bytes == 0 || driver->erase_bytes % driver->program_bytes != 0 ||
      driver->erase_bytes < MLF_STORE_RECORD_BYTES || driver->slot_bytes % driver->erase_bytes != 0) {
    return MLF_BLOB_E_ALIGN;
  }
  const uint32_t overhead = MLF_PARAMS_HEADER_BYTES + MLF_STORE_BLOB_AT;
  return driver->slot_bytes >= overhead && params_bytes <= driver->slot_bytes - overhead &&
                 seal_bytes <= driver->slot_bytes - overhead - params_bytes
             ? MLF_BLOB_OK
             : MLF_BLOB_E_LIMIT;
}

mlf_blob_status_t mlf_store_open(mlf_store_t *store, const mlf_store_driver_t *driver,
                                 const mlf_params_fit_t *fit, mlf_params_t *out_params) {
  return mlf_store_open_sealed(store, driver, NULL, fit, out_params);
}

mlf_blob_status_t mlf_store_open_sealed(mlf_store_t *store, const mlf_store_driver_t *driver,
                                        const mlf_store_seal_t *seal, const mlf_params_fit_t *fit,
                                        mlf_params_t *out_params) {
  record_t records[2];
  (void)memset(store, 0, sizeof *store);
  store->driver = driver;
  store->seal = seal;
  store->fit = *fit;
  store->active = MLF_STORE_NONE;
  const mlf_blob_status_t status =
      check_driver(driver, fit->params_bytes, seal != NULL ? seal->most_bytes : 0);
  if (status != MLF_BLOB_OK) {
    return status;
  }
  const int first = read_record(driver, 0, &records[0]);
  const int second = read_record(driver, 1, &records[1]);
  const int second_is_newer = second && (!first || is_newer(records[1].generation, records[0].generation));
  uint32_t slot = second_is_newer ? 1u : 0u;
  if (!first && !second) {
    return MLF_BLOB_E_STATE;
  }
  store->newest = records[slot].generation;
  for (uint32_t left = first && second ? 2u : 1u; left != 0; left--, slot = 1u - slot) {
    if (open_slot(store, slot, &records[slot], out_params)) {
      store->active = (uint8_t)slot;
      store->generation = records[slot].generation;
      store->seal_bytes = records[slot].seal_bytes;
      return MLF_BLOB_OK;
    }
  }
  return MLF_BLOB_E_STATE;
}

/* ---- changing ------------------------------------------------------------------------------- */

static uint32_t spare_slot(const mlf_store_t *store) { return store->active == 0 ? 1u : 0u; }

static mlf_blob_status_t give_up(mlf_store_t *store) {
  store->expected = 0;
  return MLF_BLOB_E_FLASH;
}

/* Erase the slot under way until `end` can be programmed. */
static int erase_to(mlf_store_t *store, uint32_t end) {
  const mlf_store_driver_t *driver = store->driver;
  const uint32_t base = spare_slot(store) * driver->slot_bytes;
  while (store->erased_to < end) {
    if (driver->erase(driver->ctx, base + store->erased_to, driver->erase_bytes) != 0) {
      return 0;
    }
    store->erased_to += driver->erase_bytes;
  }
  return 1;
}

/* Program bytes at an aligned offset of the slot under way; a rest is filled up with erased bytes. */
static int program(const mlf_store_t *store, uint32_t offset, const uint8_t *data, uint32_t size) {
  const mlf_store_driver_t *driver = store->driver;
  const uint32_t at = spare_slot(store) * driver->slot_bytes + offset;
  const uint32_t rest = size & (driver->program_bytes - 1u);
  const uint32_t whole = size - rest;
  uint8_t last[MLF_STORE_MAX_PROGRAM];
  if (whole != 0 && driver->program(driver->ctx, at, data, whole) != 0) {
    return 0;
  }
  if (rest == 0) {
    return 1;
  }
  (void)memset(last, driver->erased, sizeof last);
  (void)memcpy(last, &data[whole], rest);
  return driver->program(driver->ctx, at + whole, last, driver->program_bytes) == 0;
}

static mlf_blob_status_t begin(mlf_store_t *store, uint32_t size, uint32_t seal_bytes) {
  store->expected = 0;
  store->written = 0;
  store->erased_to = 0;
  if (size < MLF_PARAMS_HEADER_BYTES || size - MLF_PARAMS_HEADER_BYTES != store->fit.params_bytes) {
    return MLF_BLOB_E_MISMATCH;
  }
  if (!erase_to(store, MLF_STORE_RECORD_BYTES)) { /* an old record goes first */
    return MLF_BLOB_E_FLASH;
  }
  store->expected = size + seal_bytes;
  return MLF_BLOB_OK;
}

mlf_blob_status_t mlf_store_begin(mlf_store_t *store, uint32_t size) {
  return store->seal == NULL ? begin(store, size, 0) : MLF_BLOB_E_STATE;
}

mlf_blob_status_t mlf_store_begin_sealed(mlf_store_t *store, uint32_t size, uint32_t seal_bytes) {
  if (store->seal == NULL || seal_bytes == 0) {
    return MLF_BLOB_E_STATE;
  }
  return seal_bytes <= store->seal->most_bytes ? begin(store, size, seal_bytes) : MLF_BLOB_E_LIMIT;
}

mlf_blob_status_t mlf_store_write(mlf_store_t *store, uint32_t offset, const uint8_t *data, uint32_t size) {
  if (store->expected == 0) {
    return MLF_BLOB_E_STATE;
  }
  if (offset != store->written) {
    return MLF_BLOB_E_GAP;
  }
  const uint32_t left = store->expected - store->written;
  if (size > left) {
    return MLF_BLOB_E_SIZE;
  }
  if (size != left && (size & (store->driver->program_bytes - 1u)) != 0) {
    return MLF_BLOB_E_ALIGN;
  }
  const uint32_t at = MLF_STORE_BLOB_AT + offset;
  if (!erase_to(store, at + size) || !program(store, at, data, size)) {
    return give_up(store);
  }
  store->written += size;
  return MLF_BLOB_OK;
}

void mlf_store_give_up(mlf_store_t *store) { store->expected = 0; }

mlf_blob_status_t mlf_store_check(const mlf_store_t *store, mlf_params_t *out_params) {
  if (store->expected == 0 || store->written != store->expected) {
    return MLF_BLOB_E_STATE;
  }
  const uint8_t *blob = slot_at(store->driver, spare_slot(store)) + MLF_STORE_BLOB_AT;
  return mlf_params_open(out_params, blob, MLF_PARAMS_HEADER_BYTES + store->fit.params_bytes, &store->fit);
}

mlf_blob_status_t mlf_store_commit(mlf_store_t *store, mlf_params_t *out_params) {
  uint8_t bytes[MLF_STORE_RECORD_BYTES];
  const uint32_t slot = spare_slot(store);
  const uint32_t expected = store->expected;
  mlf_params_t found;
  record_t record;
  const mlf_blob_status_t status = mlf_store_check(store, &found);
  if (status == MLF_BLOB_E_STATE) {
    return status;
  }
  store->expected = 0;
  if (status != MLF_BLOB_OK) {
    return status;
  }
  record.generation = store->newest + 1u;
  record.blob_bytes = found.blob_bytes;
  record.blob_crc = found.header_crc;
  record.seal_bytes = expected - found.blob_bytes;
  make_record(bytes, &record);
  if (!program(store, 0, bytes, sizeof bytes) ||
      memcmp(slot_at(store->driver, slot), bytes, sizeof bytes) != 0) {
    return MLF_BLOB_E_FLASH;
  }
  store->newest = record.generation;
  store->generation = record.generation;
  store->seal_bytes = record.seal_bytes;
  store->active = (uint8_t)slot;
  *out_params = found;
  return MLF_BLOB_OK;
}
