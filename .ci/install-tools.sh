#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing of the tools that building and emulating need (Debian, Ubuntu).
# Further package names may be given; they are installed without a look for a command.
set -eu

missing="$*"
add() { missing="${missing:+$missing }$*"; }
need() { # command package
  command -v "$1" >/dev/null 2>&1 || add "$2"
}
compiles() { # language compiler options...; the source is standard input
  language=$1
  shift
  "$@" -x "$language" -o /dev/null - >/dev/null 2>&1
}
python=${PYTHON:-python3}
need "$python" python3
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || add python3-venv
compiles c cc -fsanitize=address <<'END' || add gcc libc6-dev
int main(void) { return 0; }
END
need c++ g++
need make make
need cmake cmake
need ninja ninja-build
need arm-none-eabi-gcc gcc-arm-none-eabi
need qemu-system-arm qemu-system-arm
if [ ! -e /usr/lib/arm-none-eabi/newlib/libc.a ] && [ ! -e /usr/arm-none-eabi/lib/libc.a ] &&
  [ "$(arm-none-eabi-gcc -print-file-name=nano.specs 2>/dev/null || echo nano.specs)" = nano.specs ]; then
  add libnewlib-arm-none-eabi
fi
compiles c++ arm-none-eabi-g++ -fsyntax-only <<'END' || add libstdc++-arm-none-eabi-newlib
#include <cmath>
END
[ -n "$missing" ] || exit 0

# Without administrator's rights install-python.sh takes compiler, emulator and build tools from Python's package index.
if [ $# -eq 0 ] && [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1 &&
  "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  echo "No administrator's rights: Zig, Unicorn, CMake and Ninja of Python's package index take the place of: $missing"
  exit 0
fi

by_hand() { # reason
  echo "$1 Run this as an administrator, then the same command again:" >&2
  echo "  apt-get install --no-install-recommends $missing" >&2
  exit 3
}
if ! command -v apt-get >/dev/null 2>&1; then
  echo "These packages of Debian are missing, and there is no apt-get to install them with: $missing" >&2
  exit 3
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || by_hand "Tools are missing."
  sudo=sudo
fi
echo "Installing with apt-get${sudo:+ (sudo asks for your password)}: $missing"
apt() {
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"
}
# What an interrupted installation left half done is finished first, and what it left broken is installed again.
broken=
if ! $sudo dpkg --configure -a; then
  broken=$(dpkg-query -W -f '${db:Status-Eflag} ${binary:Package}\n' | sed -n 's/^reinstreq //p')
  [ -n "$broken" ] || by_hand "dpkg failed."
  echo "Installing again what an interruption left broken:" $broken
fi
{
  apt update &&
    { [ -z "$broken" ] || apt install -y --reinstall --no-install-recommends $broken; } &&
    apt install -y --no-install-recommends $missing
} || by_hand "apt-get failed."
