# SPDX-License-Identifier: Apache-2.0
"""CMake that examines each compiler once a session: most of what configuring a project costs.

A program ``cmake`` in front of the real one keeps what CMake finds out about a compiler (``CMakeFiles/VERSION``) and
whether its sanitizers can be linked, and objcopy; later projects with the same toolchain file, languages and
environment are given it, as CMake itself does when it configures a folder again. Only ``cmake --preset default`` in a folder that was not configured is changed so.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

_SCRIPT = r"""#!/bin/sh
cmake={cmake}
if [ "$*" != "--preset default" ] || [ -e build ] || ! [ -f CMakeLists.txt ]; then exec "$cmake" "$@"; fi
settings="$PATH $CC $CXX $CFLAGS $CXXFLAGS $ASMFLAGS $LDFLAGS $CMAKE_C_COMPILER_LAUNCHER"
key=$( {{ cat board/toolchain.cmake; sed -n 's/^project(.*LANGUAGES//p' CMakeLists.txt; echo "$settings"; }} 2>/dev/null \
  | cksum | tr ' ' -)
kept={kept}/$key
if [ -d "$kept" ]; then
  mkdir -p build/CMakeFiles && cp -R "$kept" build/CMakeFiles/{version} || exit
  exec "$cmake" --preset default --no-warn-unused-cli -DCMAKE_PLATFORM_INFO_INITIALIZED=1 $(cat "$kept/found")
fi
"$cmake" "$@" || exit
{{
  mkdir -p "$kept.$$" && cp build/CMakeFiles/{version}/*.cmake "$kept.$$" \
    && sed -n 's/^MLF_SANITIZE:BOOL=/-DMLF_SANITIZE=/p; s|^CMAKE_OBJCOPY:FILEPATH=/|-DCMAKE_OBJCOPY=/|p' \
      build/CMakeCache.txt > "$kept.$$/found" \
    && sed 's|^include(".*/board/toolchain.cmake")$|include("${{CMAKE_SOURCE_DIR}}/board/toolchain.cmake")|' \
      build/CMakeFiles/{version}/CMakeSystem.cmake > "$kept.$$/CMakeSystem.cmake" \
    && mv -T "$kept.$$" "$kept" || rm -rf "$kept.$$"
}} 2>/dev/null
exit 0
"""


def share_checks(cmake: str, folder: Path, kept: Path) -> str:
    """Put the program into ``folder``; return a PATH that begins with it.

    Args:
        cmake: the real program.
        kept: where findings are kept; processes share both folders.
    """
    said = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=True).stdout
    folder.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    version = said.split()[2]
    names = {"cmake": cmake, "kept": str(kept), "version": version}
    write_program(
        folder / "cmake", _SCRIPT.format(**{name: shlex.quote(text) for name, text in names.items()})
    )
    return os.pathsep.join([str(folder), os.environ["PATH"]])


def write_program(path: Path, text: str) -> None:
    """Write a program that other processes may write at the same time, with the same text, and start."""
    own = path.with_name(f"{path.name}.{os.getpid()}")
    own.write_text(text)
    own.chmod(0o755)
    own.replace(path)
