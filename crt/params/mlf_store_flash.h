/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_store_flash.h - a store's slots in the flash of a board, which its row's flash_controller writes.
 *
 * mlf_board.h, included before the driver is used, gives MLF_FLASH_PAGE_BYTES. A board's own driver defines the two functions.
 */
#ifndef MLF_STORE_FLASH_H
#define MLF_STORE_FLASH_H

#include "mlf_store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_STORE_FLASH_PROGRAM_BYTES 4u
#define MLF_STORE_FLASH_ERASED 0xFFu

/* A driver's erase and program: `ctx` is where the slots begin. `size` is a multiple of MLF_FLASH_PAGE_BYTES,
 * or of MLF_STORE_FLASH_PROGRAM_BYTES. Return 0, or anything else when the controller does not answer. */
int32_t mlf_store_flash_erase(void *ctx, uint32_t offset, uint32_t size);
int32_t mlf_store_flash_program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size);

/* A constant driver for `memory` (uint8_t[2 * slot_size] in flash, at the beginning of a page). */
#define MLF_STORE_FLASH_DRIVER(memory, slot_size)                                         \
  {                                                                                       \
    .map = (memory), .slot_bytes = (slot_size), .erase_bytes = MLF_FLASH_PAGE_BYTES,      \
    .program_bytes = MLF_STORE_FLASH_PROGRAM_BYTES, .erased = MLF_STORE_FLASH_ERASED,     \
    .erase = mlf_store_flash_erase, .program = mlf_store_flash_program, .ctx = (memory)   \
  }

#ifdef __cplusplus
}
#endif

#endif /* MLF_STORE_FLASH_H */
