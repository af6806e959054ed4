# SPDX-License-Identifier: Apache-2.0
"""Readers of compiled models: one folder for each format, found by the content of a file.

`load` gives a `Model`, whatever the format.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.frontends.registry import (
    Examination,
    Frontend,
    find_frontend,
    frontends,
    register_frontend,
    unregister_frontend,
)
from mlf_sdk.frontends.stated import NOTHING, Stated

if TYPE_CHECKING:
    from mlf_sdk.ir.model import Model
    from mlf_sdk.tools.programs import Compiler

__all__ = [
    "Examination",
    "Frontend",
    "Stated",
    "examine",
    "find_frontend",
    "frontends",
    "load",
    "modules",
    "register_frontend",
    "unregister_frontend",
]


def load(path: Path, module: str | None = None, stated: Stated = NOTHING) -> Model:
    """Load a compiled model of any known format.

    Args:
        path: a file or a folder.
        module: name of the model to load, where the file holds several.
        stated: facts that the file does not hold.

    Raises:
        ArchiveError: the file is broken; all of its faults at once.
        ModuleChoiceError: it holds several models, and ``module`` names none of them.
        UndecidedError: it does not state which of its tensors are outputs.
        InputError: it can't be read, or is of no known format.
    """
    return find_frontend(path).load_stated(path, module, stated)


def modules(path: Path) -> tuple[str, ...]:
    """Names of the models in ``path``; empty when there is no choice. Errors as in `load`."""
    return find_frontend(path).modules(path)


def examine(
    path: Path, module: str | None = None, stated: Stated = NOTHING, compiler: Compiler | None = None
) -> Examination:
    """Load a model, analyse it for a compiler, and list what is unusual; errors as in `load`."""
    return find_frontend(path).examine(path, module, stated, compiler)
