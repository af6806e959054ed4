/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nvmc.h - a non-volatile memory controller that checks each access to it, and to its flash. */
#ifndef FAKE_NVMC_H
#define FAKE_NVMC_H

#include <stdint.h>

/* The register at an address, or the word of flash, for one access. What the one before it wrote takes effect. */
volatile uint32_t *fake_nvmc_register(uintptr_t address);

/* The flash, and the function that changes it: to erased bytes where `data` is NULL. It may not return. Ends
 * what is under way. */
void fake_nvmc_reset(uint8_t *flash, uint32_t size,
                     int32_t (*change)(uint32_t offset, const uint8_t *data, uint32_t size));

#endif /* FAKE_NVMC_H */
