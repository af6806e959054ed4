# SPDX-License-Identifier: Apache-2.0
"""Simulators of cores: made once by Verilator, and kept in the cache.

A simulator is kept under everything that decides it: the core's row, the versions of its package and of
Verilator, options, the sources beside the rows, and the compiler. Processes that want the same one wait for
the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec

from mlf_sdk.errors import ToolError
from mlf_sdk.resources import cache_dir
from mlf_sdk.tools.files import make_folder, scratch_folder
from mlf_sdk.tools.locks import cache_in_use, exclusive
from mlf_sdk.tools.process import run_process
from mlf_sdk.tools.programs import program_stamp, require_programs
from mlf_sdk.tools.rtlmodels import VERILATOR, RtlModel, rtl_folder

PROGRAMS = ((VERILATOR,), ("make",), ("g++",))  # Verilator's makefiles name the compiler
_OPTIONS = (
    *("--cc", "--exe", "--build", "-O3", "--noassert", "--x-assign", "fast", "--x-initial", "fast"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-UNOPTFLAT", "-MAKEFLAGS", "OPT_FAST=-O2"),
)
_FLAGS = ("-std=c++17", "-O2")
_TIMEOUT_S = 1800.0
_SIMULATOR = "simulator"


def simulator(model: RtlModel, parameters: Mapping[str, int], reset_vector: int) -> Path:
    """The simulator of a core; made first, unless the same one is kept.

    Args:
        parameters: of its top module, beside those of the row.
        reset_vector: address of the first instruction.

    Raises:
        MissingToolError: Verilator, a compiler, or the core's package is not installed.
        ToolError: Verilator refuses the sources.
    """
    check_tools(model)
    own = msgspec.structs.replace(model, parameters={**model.parameters, **parameters})
    argv = verilator_argv(own, reset_vector)
    folder = cache_dir("rtl") / f"{model.name}-{_key(own, argv)}"
    result = folder / _SIMULATOR
    with cache_in_use():
        if result.is_file():
            return result
        with exclusive(str(folder), _TIMEOUT_S):
            if not result.is_file():
                _build(argv, result)
    return result


def check_tools(model: RtlModel) -> None:
    """Refuse work without the tools and the package of a core.

    Raises:
        MissingToolError: the first one that is missing.
    """
    require_programs(PROGRAMS, f"simulating {model.name}")
    model.place()


def verilator_argv(model: RtlModel, reset_vector: int) -> list[str]:
    """The command that makes a simulator, without the folder to make it in."""
    own, place = rtl_folder(), model.place()
    parameters = {name: str(value) for name, value in model.parameters.items()}
    if model.reset_parameter:
        parameters[model.reset_parameter] = f"32'h{reset_vector:08x}"
    flags = (*_FLAGS, f"-I{own}", f"-DMLF_RESET_VECTOR={reset_vector:#x}u")
    return [
        VERILATOR,
        *_OPTIONS,
        *("-CFLAGS", " ".join(flags)),
        *(f"+define+{name}" for name in model.defines),
        *(f"-G{name}={value}" for name, value in parameters.items()),
        *("--top-module", model.top),
        *(f"-I{place / name}" for name in model.includes),
        *(str(place / name) for name in model.sources),
        *(str(own / name) for name in (*model.own, model.harness)),
        *("-o", _SIMULATOR),
    ]


def _key(model: RtlModel, argv: list[str]) -> str:
    """Hash of everything that decides."""
    own = rtl_folder()
    digest = hashlib.sha256(" ".join(argv).encode())
    digest.update(f"{model.package} {version(model.package)} {program_stamp(PROGRAMS)}".encode())
    for name in ("soc.h", model.harness, *model.own):
        digest.update((own / name).read_bytes())
    return digest.hexdigest()[:16]


def _build(argv: list[str], result: Path) -> None:
    make_folder(result.parent)
    with scratch_folder("build-", result.parent) as folder:
        try:
            run_process([*argv, "--Mdir", str(folder / "made")], timeout_s=_TIMEOUT_S)
        except ToolError as error:
            error.hint = f"The log of the command has more. {error.hint}".strip()
            raise
        (folder / "made" / _SIMULATOR).replace(result)
