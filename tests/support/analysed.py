# SPDX-License-Identifier: Apache-2.0
"""Models of archives, analysed for the compiler of this machine."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.frontends.mlf import load
from mlf_sdk.ir.model import Model
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.compilers import native_toolchain, source_compiler
from mlf_sdk.tools.programs import Compiler


def host_compiler() -> Compiler | None:
    """The compiler that builds for the host."""
    return source_compiler(find_board("host"), ProjectOptions(toolchain=native_toolchain(None)))


def load_model(path: Path, module: str | None = None) -> Model:
    """Load a model and read its code."""
    return analyse(load.load_model(path, module=module), host_compiler())
