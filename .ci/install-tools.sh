#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing of the tools that building and emulating need (Debian, Ubuntu).
# Further package names may be given; they are installed without a look for a command.
set -eu

missing="$*"
need() { # command package
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
echo 'int main(void) { return 0; }' | cc -x c -fsanitize=address -o /dev/null - >/dev/null 2>&1 ||
  missing="$missing gcc libc6-dev"
need c++ g++
need make make
need cmake cmake
need ninja ninja-build
need arm-none-eabi-gcc gcc-arm-none-eabi
need qemu-system-arm qemu-system-arm
if [ ! -e /usr/lib/arm-none-eabi/newlib/libc.a ] && [ ! -e /usr/arm-none-eabi/lib/libc.a ] &&
  [ "$(arm-none-eabi-gcc -print-file-name=nano.specs 2>/dev/null || echo nano.specs)" = nano.specs ]; then
  missing="$missing libnewlib-arm-none-eabi"
fi
if ! echo '#include <cmath>' | arm-none-eabi-g++ -x c++ -fsyntax-only - >/dev/null 2>&1; then
  missing="$missing libstdc++-arm-none-eabi-newlib"
fi
[ -n "$(echo $missing)" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "These are missing, and there is no apt-get to install them with:$missing" >&2
  exit 3
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "Install as root: apt-get install$missing" >&2; exit 3; }
  sudo=sudo
fi
echo "Installing with apt-get${sudo:+ (sudo asks for your password)}:$missing"
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
