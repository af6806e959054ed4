#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: install-python.sh FOLDER [EXTRA]
# Installs this checkout into the virtual environment FOLDER, with what it needs at run time and, if EXTRA is
# given (dev), for that. Does nothing when all is there; repairs what was interrupted, or moved.
set -eu

venv=$1
extra=${2:-}
python=${PYTHON:-python3}
done_mark=$venv/.installed${extra:+-$extra}
unfinished=$venv/.unfinished

whole() { # finished, and made for the folder where it lies: scripts hold absolute paths
  [ ! -e "$unfinished" ] &&
    [ "$("$venv/bin/pip" --version 2>/dev/null | sed -n 's|^pip [^ ]* from \(.*\)/lib/python.*|\1|p')" -ef "$venv" ]
}
if [ -e "$done_mark" ] && [ -z "$(find pyproject.toml -newer "$done_mark")" ] && whole &&
  "$venv/bin/mlf-sdk" --version >/dev/null 2>&1; then exit 0; fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || {
  echo "Python 3.10 or later is needed: $python is $("$python" --version 2>&1 || echo missing)." \
    "Name another one: make ... PYTHON=python3.12" >&2
  exit 3
}
if ! whole; then
  if [ ! -e "$unfinished" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv" 2>/dev/null)" ]; then
    echo "$venv is no virtual environment: move it away, or name another one: make ... VENV=FOLDER" >&2
    exit 3
  fi
  "$python" -c 'import ensurepip, venv' 2>/dev/null || sh "$(dirname "$0")/install-tools.sh"
  [ ! -e "$venv" ] || echo "$venv is unfinished or was moved: it is made again."
  rm -rf "$venv"
  mkdir -p "$venv"
  touch "$unfinished"
  "$python" -m venv "$venv"
fi
echo "Installing mlf-sdk${extra:+ and what its developers need} into $venv (a minute or two)"
touch "$unfinished"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".${extra:+[$extra]}"
touch "$venv/.installed" "$done_mark"
rm -f "$unfinished"
