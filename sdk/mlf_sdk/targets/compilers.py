# SPDX-License-Identifier: Apache-2.0
"""Compilers that builds use for an archive's sources, to preprocess these as the build does."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.compiler.cores import core_of
from mlf_sdk.compiler.options import Asm
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Model, UnitKind
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import board_toolchain, isa_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.isas import fallback_isa
from mlf_sdk.tools.process import ProcessError, run_process
from mlf_sdk.tools.programs import Compiler, find_program

_STANDARD = "-std=gnu99"  # CMAKE_C_STANDARD with CMAKE_C_EXTENSIONS, of the project's CMakeLists.txt
_NATIVE = "cc"
_GNU = "gcc"  # the toolchain of an architecture's row, and what CMake finds on this machine
_TIMEOUT_S = 60.0
_INSTRUCTIONS = {"__ARM_FEATURE_DSP": "DSP", "__ARM_FEATURE_MVE": "MVE"}  # by the macro of their compilers

Which = Callable[[str], str | None]


def source_compiler(
    board: Board,
    options: ProjectOptions,
    *,
    which: Which = find_program,
    variables: Mapping[str, str] = os.environ,
) -> Compiler | None:
    """Find the compiler of an archive's sources in a project for ``board``.

    Zephyr and applications of users choose compiler and flags themselves: what is found for those, and what
    takes the place of a compiler that is not installed, is not the build's. None: there is no compiler.
    """
    native = [
        *native_compiler(options.toolchain if board.platform == "host" else native_toolchain(None, which))
    ]
    native = native or shlex.split(variables.get("CC", "")) or [_NATIVE]
    is_builds = board.platform != "zephyr" and options.app != "library"
    own_headers = False
    if board.platform == "host":
        argv = [*native, *(["-fsanitize=address"] if is_builds else [])]
    elif isa_of(board) is not None:
        toolchain = board_toolchain(board, options.toolchain or _GNU)
        argv, own_headers = [*toolchain.argv(which)], toolchain.own_headers
    else:
        argv = [fallback_isa().tools.c]
    if which(argv[0]) is None:
        argv, is_builds, own_headers = native, False, False
    if which(argv[0]) is None:
        return None
    crt = data_dir("crt")
    return Compiler(
        argv=(*argv, _STANDARD, *options.kernel_flags),
        include_dirs=(
            str(crt / "include"),
            *([str(crt / "libc/include")] if own_headers else []),
            *([str(crt / "acle")] if argv[: len(native)] == native and not own_headers else []),
        ),
        library_dirs=tuple(str(crt.parent / folder) for folder in cmsis_nn_includes(options)),
        is_builds=is_builds,
    )


def native_names() -> tuple[str, ...]:
    """Compilers of this machine that CMake looks for."""
    return ("cc", "gcc", "clang", *shlex.split(os.environ.get("CC", ""))[:1])


def native_toolchain(wanted: str | None, which: Which = find_program) -> str:
    """Name of the toolchain for programs of this machine: what was asked for, else what is installed."""
    if wanted is not None:
        return wanted
    if any(map(which, native_names())):
        return _GNU
    from mlf_sdk.tools.toolchains import AUTOMATIC, load_toolchains  # takes time to load

    return AUTOMATIC if any(map(which, load_toolchains()[AUTOMATIC].programs)) else _GNU


def native_compiler(toolchain: str, which: Which = find_program) -> tuple[str, ...]:
    """Compiler of a toolchain for programs of this machine; empty: that of this machine."""
    if toolchain == _GNU:
        return ()
    from mlf_sdk.tools.toolchains import load_toolchains

    row = load_toolchains().get(toolchain)
    if row is None:
        return ()
    result = next((name for name in row.programs if which(name) is not None), row.programs[0])
    return (result, *row.arguments, *row.native_arguments)


def check_sources(models: Iterable[Model], board: Board, options: ProjectOptions) -> None:
    """Refuse sources and objects that a toolchain has no program for.

    Raises:
        InputError: C++ sources, or objects to edit, of a toolchain without a compiler or an editor of these.
    """
    if not options.toolchain or board.platform != "baremetal" or options.app == "library":
        return
    toolchain = board_toolchain(board, options.toolchain)
    for model in models:
        kinds = {unit.kind for unit in model.units if unit.linked}
        if not toolchain.is_gnu and UnitKind.CXX in kinds:
            what = "C++ sources are compiled by gcc alone"
        elif not toolchain.objcopy and UnitKind.OBJECT in kinds:
            what = f"the toolchain '{toolchain.name}' can't edit the model's object files"
        else:
            continue
        raise InputError(what, where=f"model {model.name}", hint=f"Choose the other one: --toolchain {_GNU}.")


def check_instructions(models: Iterable[Model], board: Board, options: ProjectOptions) -> None:
    """Refuse a compiler that leaves out instructions that kernels for the board's core were written for.

    Plain C would take their place unseen, 4 to 38 times slower. Kernels for another core may be plain C.

    Raises:
        InputError: macros of the core are not defined: which, and what to do.
    """
    core = core_of(board.cpu, dsp=board.dsp)
    macros = {macro: name for macro, name in _INSTRUCTIONS.items() if macro in core.macros}
    concerned = [model for model in models if _uses(model, core.name, macros)]
    compiler = source_compiler(board, options) if concerned else None
    if compiler is None or not compiler.is_builds:
        return
    argv = [*compiler.argv, "-dM", "-E", "-x", "c", os.devnull]
    try:
        text = run_process(argv, timeout_s=_TIMEOUT_S).stdout
    except ProcessError:
        return  # the build says what is wrong with it
    defined = {words[1] for line in text.splitlines() if len(words := line.split()) > 1}
    missing = {macro: name for macro, name in macros.items() if macro not in defined}
    if missing:
        names = " and ".join(missing.values())
        raise InputError(
            f"{compiler.argv[0]} makes no {names} instructions for the {core.name} ({', '.join(missing)} not "
            "defined): kernels would run as plain C, many times slower",
            where=concerned[0].provenance.source,
            hint=f"Leave flags such as -mcpu and -march out of --cflags ({' '.join(options.kernel_flags)}), "
            f"or compile the model with --asm {Asm.NO.value}.",
        )


def _uses(model: Model, core: str, macros: Iterable[str]) -> bool:
    """Return whether kernels of a model were chosen for a core, with code that asks for one of its macros."""
    said = model.provenance.options
    if said.get("core") != core or said.get("asm") == Asm.NO.value:
        return False
    return any(macro.encode() in unit.data for macro in macros for unit in model.units)


def cmsis_nn_includes(options: ProjectOptions) -> tuple[str, ...]:
    """Return the include folders of the chosen CMSIS-NN checkout; none without one."""
    if options.cmsis_nn is None:
        return ()
    include = Path(options.cmsis_nn) / "Include"
    folders = sorted({p.parent for p in include.rglob("*.h")})
    return (*(p.as_posix() for p in folders), "crt/cmsis", "crt/acle")
