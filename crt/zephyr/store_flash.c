/* SPDX-License-Identifier: Apache-2.0 */
/* store_flash.c - slots for parameters in the partition mlf_params_partition, which is read where it is mapped. */
#include "mlf_zephyr.h"

#include <zephyr/drivers/flash.h>
#include <zephyr/storage/flash_map.h>
#ifdef CONFIG_FLASH_SIMULATOR
#include <zephyr/drivers/flash/flash_simulator.h>
#endif

#include "store_flash.h"

#if !DT_NODE_EXISTS(DT_NODELABEL(mlf_params_partition))
#error "Give the parameters a partition: a fixed partition with the label mlf_params_partition in an overlay"
#endif

#define PARTITION_AT FIXED_PARTITION_OFFSET(mlf_params_partition)
#define PARTITION_BYTES FIXED_PARTITION_SIZE(mlf_params_partition)
#define FLASH_NODE DT_MEM_FROM_FIXED_PARTITION(DT_NODELABEL(mlf_params_partition))

static const struct device *const flash = FIXED_PARTITION_DEVICE(mlf_params_partition);
static uint32_t taken; /* bytes of the partition that have slots */

/* Beginning of the partition, as the CPU reads it. */
static const uint8_t *mapped(void) {
#ifdef CONFIG_FLASH_SIMULATOR
  size_t size;

  return (const uint8_t *)flash_simulator_get_memory(flash, &size) + (PARTITION_AT - DT_REG_ADDR(FLASH_NODE));
#else
  return (const uint8_t *)(DT_REG_ADDR(FLASH_NODE) + PARTITION_AT);
#endif
}

/* `ctx` is the driver: its slots begin where its map does. */
static off_t place_of(const void *ctx, uint32_t offset) {
  const mlf_store_driver_t *const driver = ctx;

  return (off_t)PARTITION_AT + (off_t)(driver->map - mapped()) + (off_t)offset;
}

static int32_t erase(void *ctx, uint32_t offset, uint32_t size) {
#if KERNEL_VERSION_NUMBER >= ZEPHYR_VERSION(4, 0, 0)
  return flash_flatten(flash, place_of(ctx, offset), size); /* memories that need no erasing as well */
#else
  return flash_erase(flash, place_of(ctx, offset), size);
#endif
}

static int32_t program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size) {
  return flash_write(flash, place_of(ctx, offset), data, size);
}

int32_t mlf_store_flash_open(mlf_store_driver_t *out_driver, uint32_t slot_bytes) {
  struct flash_pages_info page;
  uint32_t unit, slot;

  if (!device_is_ready(flash) || flash_get_page_info_by_offs(flash, (off_t)(PARTITION_AT + taken), &page) != 0) {
    return -1;
  }
  unit = (uint32_t)flash_get_write_block_size(flash);
  slot = (slot_bytes + (uint32_t)page.size - 1u) / (uint32_t)page.size * (uint32_t)page.size;
  if (unit > MLF_STORE_MAX_PROGRAM || 2u * slot > PARTITION_BYTES - taken) {
    return -1;
  }
  *out_driver = (mlf_store_driver_t){
      .map = mapped() + taken,
      .slot_bytes = slot,
      .erase_bytes = (uint32_t)page.size,
      .program_bytes = unit,
      .erased = flash_get_parameters(flash)->erase_value,
      .erase = erase,
      .program = program,
      .ctx = out_driver,
  };
  taken += 2u * slot;
  return 0;
}
