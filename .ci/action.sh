#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What action.yml runs; its inputs are the variables MLF_*. MLF_SDK names a program that is installed already.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
work=${RUNNER_TEMP:-/tmp}/mlf-sdk-action
if [ -z "${MLF_SDK:-}" ]; then
  sh "$root/.ci/install-tools.sh"
  (cd "$root" && sh .ci/install-python.sh "$work/venv" onnx,oracle)
  MLF_SDK=$work/venv/bin/mlf-sdk
fi
gate() { # command and options of mlf-sdk: its output is shown, and is the job's summary
  status=0
  text=$("$MLF_SDK" "$@" 2>&1) || status=$?
  printf '%s\n' "$text"
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    printf '\n```console\n$ mlf-sdk %s\n%s\n```\n' "$*" "$text" >>"$GITHUB_STEP_SUMMARY"
  fi
  [ "$status" -eq 0 ] || exit "$status"
}

if [ -n "${MLF_CASES:-}" ]; then
  gate test "$MLF_MODEL" --board "$MLF_BOARD" --cases "$MLF_CASES" --junit "$MLF_JUNIT" \
    ${MLF_MIN_ACCURACY:+--min-accuracy "$MLF_MIN_ACCURACY"}
else
  gate run "$MLF_MODEL" --board "$MLF_BOARD" --strict
fi
if [ -n "${MLF_BUDGET:-}${MLF_BASELINE:-}" ]; then
  rm -rf "$work/project"
  gate generate "$MLF_MODEL" -o "$work/project" --board "$MLF_BOARD"
  gate build "$work/project"
  gate check "$work/project" ${MLF_BUDGET:+--budget "$MLF_BUDGET"} \
    ${MLF_BASELINE:+--baseline "$MLF_BASELINE" --tolerance "$MLF_TOLERANCE"}
fi
