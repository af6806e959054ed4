/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flash_nvmc.c - slots in the flash of the nRF51 and nRF52 families, by their non-volatile memory controller.
 *
 * mlf_board.h gives MLF_FLASH_CONTROLLER_BASE and MLF_FLASH_PAGE_BYTES. The CPU waits by itself while flash is
 * erased or written that it runs from, so this code may lie there; interrupts wait as well.
 */
#include "cpu.h"
#include "mlf_board.h"
#include "mlf_store_flash.h"

#define NVMC_READY MLF_REG32(MLF_FLASH_CONTROLLER_BASE + 0x400u)
#define NVMC_CONFIG MLF_REG32(MLF_FLASH_CONTROLLER_BASE + 0x504u)
#define NVMC_ERASEPAGE MLF_REG32(MLF_FLASH_CONTROLLER_BASE + 0x508u)

enum { CONFIG_READ, CONFIG_WRITE, CONFIG_ERASE };

/* A page takes a tenth of a second at most; a controller that is busy for this many readings has failed. */
#define MOST_READINGS 10000000u

static int is_ready(void) {
  for (uint32_t i = 0; i < MOST_READINGS; i++) {
    if ((NVMC_READY & 1u) != 0u) {
      return 1;
    }
  }
  return 0;
}

/* Protect the flash again. */
static int32_t finish(int done) {
  NVMC_CONFIG = CONFIG_READ;
  return done ? 0 : -1;
}

int32_t mlf_store_flash_erase(void *ctx, uint32_t offset, uint32_t size) {
  const uintptr_t start = (uintptr_t)ctx + offset;
  int done = is_ready();
  NVMC_CONFIG = CONFIG_ERASE;
  for (uint32_t at = 0; at < size && done; at += MLF_FLASH_PAGE_BYTES) {
    NVMC_ERASEPAGE = (uint32_t)(start + at);
    done = is_ready();
  }
  return finish(done);
}

int32_t mlf_store_flash_program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size) {
  const uintptr_t start = (uintptr_t)ctx + offset;
  int done = is_ready();
  NVMC_CONFIG = CONFIG_WRITE;
  for (uint32_t at = 0; at < size && done; at += MLF_STORE_FLASH_PROGRAM_BYTES) {
    MLF_REG32(start + at) = mlf_blob_u32(&data[at]);
    done = is_ready();
  }
  return finish(done);
}
