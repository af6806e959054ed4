/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_nvmc.h"

#include <string.h>

#include "../check.h"
#include "mlf_board.h"

enum { READY = 0x400, CONFIG = 0x504, ERASEPAGE = 0x508, BUSY_READINGS = 2 };
enum { CONFIG_READ, CONFIG_WRITE, CONFIG_ERASE };

typedef enum { NOTHING, SET_CONFIG, ERASE, WRITE } access_t;

static struct {
  uint8_t *flash;
  uint32_t size;
  int32_t (*change)(uint32_t offset, const uint8_t *data, uint32_t size);
  volatile uint32_t word; /* of the register that is accessed */
  uint32_t config;
  uint32_t busy; /* readings until it is ready */
  uint32_t at;   /* offset of the word that is written */
  access_t last;
} nvmc;

void fake_nvmc_reset(uint8_t *flash, uint32_t size,
                     int32_t (*change)(uint32_t offset, const uint8_t *data, uint32_t size)) {
  memset(&nvmc, 0, sizeof nvmc);
  nvmc.flash = flash;
  nvmc.size = size;
  nvmc.change = change;
}

static void erase(void) {
  const uint32_t offset = nvmc.word - (uint32_t)(uintptr_t)nvmc.flash;
  CHECK(nvmc.config == CONFIG_ERASE && offset < nvmc.size && offset % MLF_FLASH_PAGE_BYTES == 0);
  nvmc.busy = BUSY_READINGS;
  (void)nvmc.change(offset, NULL, MLF_FLASH_PAGE_BYTES);
}

static void write_word(void) {
  uint8_t wanted[4];
  memcpy(wanted, &nvmc.flash[nvmc.at], sizeof wanted);
  memset(&nvmc.flash[nvmc.at], 0xFF, sizeof wanted); /* it was erased */
  nvmc.busy = BUSY_READINGS;
  (void)nvmc.change(nvmc.at, wanted, sizeof wanted);
}

static void settle(void) {
  const access_t last = nvmc.last;
  nvmc.last = NOTHING;
  if (last == SET_CONFIG) {
    CHECK(nvmc.word <= CONFIG_ERASE);
    nvmc.config = nvmc.word;
  } else if (last == ERASE) {
    erase();
  } else if (last == WRITE) {
    write_word();
  }
}

volatile uint32_t *fake_nvmc_register(uintptr_t address) {
  settle();
  const uintptr_t offset = address - (uintptr_t)nvmc.flash;
  if (offset < nvmc.size) {
    static const uint8_t erased[4] = {0xFF, 0xFF, 0xFF, 0xFF};
    CHECK(nvmc.config == CONFIG_WRITE && nvmc.busy == 0 && offset % 4u == 0);
    CHECK(memcmp(&nvmc.flash[offset], erased, sizeof erased) == 0); /* once after each erase */
    nvmc.at = (uint32_t)offset;
    nvmc.last = WRITE;
    return (volatile uint32_t *)(void *)&nvmc.flash[offset];
  }
  const uintptr_t at = address - MLF_FLASH_CONTROLLER_BASE;
  CHECK(at == READY || at == CONFIG || at == ERASEPAGE);
  CHECK(at == READY || nvmc.busy == 0);
  nvmc.last = at == CONFIG ? SET_CONFIG : at == ERASEPAGE ? ERASE : NOTHING;
  nvmc.busy -= at == READY && nvmc.busy != 0 ? 1u : 0u;
  nvmc.word = at == READY && nvmc.busy == 0 ? 1u : 0u;
  return &nvmc.word;
}
