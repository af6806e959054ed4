/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_store_ram.h - a store's slots in RAM: for boards whose flash has no driver, for emulators (in
 * memory that start-up leaves alone it outlives a reset), and for tests.
 */
#ifndef MLF_STORE_RAM_H
#define MLF_STORE_RAM_H

#include "mlf_store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_STORE_RAM_ERASE_BYTES 64u /* MLF_STORE_SLOT_BYTES() is a multiple of it */
#define MLF_STORE_RAM_PROGRAM_BYTES 4u
#define MLF_STORE_RAM_ERASED 0xFFu

/* A driver's erase and program for memory: `ctx` is its beginning. */
int32_t mlf_store_ram_erase(void *ctx, uint32_t offset, uint32_t size);
int32_t mlf_store_ram_program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size);

/* A constant driver for `memory` (uint8_t[2 * slot_size], aligned to MLF_PARAMS_ALIGNMENT). */
#define MLF_STORE_RAM_DRIVER(memory, slot_size)                                           \
  {                                                                                       \
    .map = (memory), .slot_bytes = (slot_size), .erase_bytes = MLF_STORE_RAM_ERASE_BYTES, \
    .program_bytes = MLF_STORE_RAM_PROGRAM_BYTES, .erased = MLF_STORE_RAM_ERASED,         \
    .erase = mlf_store_ram_erase, .program = mlf_store_ram_program, .ctx = (memory)       \
  }

#ifdef __cplusplus
}
#endif

#endif /* MLF_STORE_RAM_H */
