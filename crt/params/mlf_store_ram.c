/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_store_ram.h"

#include <string.h>

int32_t mlf_store_ram_erase(void *ctx, uint32_t offset, uint32_t size) {
  (void)memset((uint8_t *)ctx + offset, (int)MLF_STORE_RAM_ERASED, size);
  return 0;
}

int32_t mlf_store_ram_program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size) {
  (void)memcpy((uint8_t *)ctx + offset, data, size);
  return 0;
}
