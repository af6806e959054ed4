# SPDX-License-Identifier: Apache-2.0
"""Compilers that builds use for an archive's sources, to preprocess these as the build does."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from mlf_sdk.analysis.compiler import Compiler
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import board_flags, isa_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.isas import fallback_isa

_STANDARD = "-std=gnu99"  # CMAKE_C_STANDARD with CMAKE_C_EXTENSIONS, of the project's CMakeLists.txt
_NATIVE = "cc"

Which = Callable[[str], str | None]


def source_compiler(
    board: Board,
    options: ProjectOptions,
    *,
    which: Which = shutil.which,
    variables: Mapping[str, str] = os.environ,
) -> Compiler | None:
    """Find the compiler of an archive's sources in a project for ``board``.

    Zephyr and applications of users choose compiler and flags themselves: what is found for those, and what
    takes the place of a compiler that is not installed, is not the build's. None: there is no compiler.
    """
    native = shlex.split(variables.get("CC", "")) or [_NATIVE]
    is_builds = board.platform != "zephyr" and options.app != "library"
    if board.platform == "host":
        argv = [*native, *(["-fsanitize=address"] if is_builds else [])]
    else:
        isa = isa_of(board)
        argv = [(isa or fallback_isa()).tools.c, *(board_flags(board) if isa is not None else ())]
    if which(argv[0]) is None:
        argv, is_builds = native, False
    if which(argv[0]) is None:
        return None
    crt = data_dir("crt")
    return Compiler(
        argv=(*argv, _STANDARD, *options.kernel_flags),
        include_dirs=(str(crt / "include"), *([str(crt / "host/acle")] if argv[0] == native[0] else [])),
        library_dirs=tuple(str(crt.parent / folder) for folder in cmsis_nn_includes(options)),
        is_builds=is_builds,
    )


def cmsis_nn_includes(options: ProjectOptions) -> tuple[str, ...]:
    """Return the include folders of the chosen CMSIS-NN checkout; none without one."""
    if options.cmsis_nn is None:
        return ()
    include = Path(options.cmsis_nn) / "Include"
    folders = sorted({p.parent for p in include.rglob("*.h")})
    return (*(p.as_posix() for p in folders), "crt/cmsis")
