/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - registers of a simulated controller, for crt/baremetal/flash_nvmc.c on the host. */
#ifndef MLF_CPU_H
#define MLF_CPU_H

#include "fake_nvmc.h"

#define MLF_REG32(address) (*fake_nvmc_register((uintptr_t)(address)))

#endif /* MLF_CPU_H */
