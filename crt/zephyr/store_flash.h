/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_flash.h - a store's slots in a partition of flash: the node label mlf_params_partition in the
 * devicetree.
 */
#ifndef MLF_STORE_FLASH_H
#define MLF_STORE_FLASH_H

#include <mlf_store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Make a driver for two slots of at least `slot_bytes`, behind those that were made before.
 * Returns 0, or -1 when the flash is not ready, its blocks are too large for a store, or the partition is too
 * small. */
MLF_WARN_UNUSED int32_t mlf_store_flash_open(mlf_store_driver_t *out_driver, uint32_t slot_bytes);

#ifdef __cplusplus
}
#endif

#endif /* MLF_STORE_FLASH_H */
