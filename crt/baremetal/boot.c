/* SPDX-License-Identifier: Apache-2.0 */
#include <mlf/mlf_platform.h>

/* RAM that start-up does not clear keeps its value over a reset; after power-on it holds anything. */
static uint32_t boots __attribute__((section(".bss.noinit.mlf_boots")));

uint32_t mlf_boot_nonce(void) {
  boots++;
  return (boots * 2654435761u) | 1u;
}
