#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets: build.sh FOLDER
set -eu
crt=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
out=$1
mkdir -p "$out"
flags="-std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Wconversion -Wshadow -Werror -g -O2 -fno-omit-frame-pointer
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -DMLF_TRACE=1 -DMLF_OBSERVE=1
  -DMLF_RPC_MAX_PAYLOAD=256"
for folder in include graph params rpc package secure mlperf tests; do flags="$flags -I$crt/$folder"; done
common="$crt/tests/tiny_model.c $(echo "$crt"/src/*.c "$crt"/graph/*.c)"
store="$crt/params/mlf_params.c $crt/params/mlf_store.c $crt/params/mlf_store_ram.c $crt/params/mlf_dynamic.c"
rpc="$crt/params/mlf_params_rpc.c $(echo "$crt"/rpc/*.c)"
for target in ${FUZZERS:-graph params rpc package secure mlperf}; do
  sources=$common
  more=
  [ $target = graph ] || sources="$sources $store"
  [ $target != mlperf ] || sources="$crt/src/mlf.c $crt/src/mlf_backend.c $crt/src/mlf_observe.c $(echo "$crt"/mlperf/*.c)"
  [ $target != package ] || sources="$sources $rpc $crt/tests/tiny_package.c $crt/tests/fake_crypto.c $(echo "$crt"/package/mlf_package*.c)"
  [ $target != rpc ] || sources="$sources $rpc"
  if [ $target = secure ]; then
    more="-DMLF_RPC_SECURE=1 -DMLF_STREAMS=0 -UMLF_OBSERVE"
    sources="$crt/src/mlf_crc32.c $crt/secure/mlf_secure.c $crt/tests/fake_models.c $crt/tests/fake_crypto.c $(echo "$crt"/rpc/*.c)"
  fi
  # shellcheck disable=SC2086
  "${CLANG:-clang}" $flags $more "$crt/fuzz/fuzz_$target.c" $sources -o "$out/fuzz_$target"
done
