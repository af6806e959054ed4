#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the C sources of Monocypher 3.1.2 into a folder, from the source distribution that a package of PyPI has:
# monocypher.sh FOLDER
set -euo pipefail
folder=$1
[ ! -f "$folder/src/optional/monocypher-ed25519.c" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install setuptools wheel cffi
"$work/venv/bin/pip" -q download --no-deps --no-binary :all: --no-build-isolation -d "$work" monocypher-py==0.0.3
tar xzf "$work"/monocypher-py-0.0.3.tar.gz -C "$work"
mkdir -p "$folder"
mv "$work/monocypher-py-0.0.3/src/monocypher-3.1.2-src" "$folder/src"
