/* SPDX-License-Identifier: Apache-2.0 */
/* Zephyr's headers by their names before and since 3.1, and declarations shared by this folder. */
#ifndef MLF_ZEPHYR_H
#define MLF_ZEPHYR_H

#if __has_include(<zephyr/kernel.h>)
#include <zephyr/device.h>
#include <zephyr/devicetree.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/fatal.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/ring_buffer.h>
#include <zephyr/timing/timing.h>
#else
#include <device.h>
#include <devicetree.h>
#include <drivers/uart.h>
#include <fatal.h>
#include <sys/ring_buffer.h>
#include <timing/timing.h>
#include <zephyr.h>
#endif

#if __has_include(<zephyr/version.h>)
#include <zephyr/version.h>
#else
#include <version.h>
#endif

#include <mlf/mlf_platform.h>

/* The thread that asked for the bounds of its stack, and these; 0: none did. An overflow may have overwritten
 * the kernel's own notes when a fault comes. */
struct mlf_zephyr_stack {
  const struct k_thread *thread;
  uintptr_t bottom;
  uintptr_t top;
};
extern struct mlf_zephyr_stack mlf_zephyr_stack;

#endif /* MLF_ZEPHYR_H */
