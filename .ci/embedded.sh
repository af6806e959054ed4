#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names the extra that has compiler, emulator and build tools, where some are missing and nobody here may install them.
[ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1 || exit 0
for program in arm-none-eabi-gcc qemu-system-arm cmake ninja; do
  command -v "$program" >/dev/null 2>&1 || { echo embedded && exit 0; }
done
