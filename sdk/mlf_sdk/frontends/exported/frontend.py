# SPDX-License-Identifier: Apache-2.0
"""The frontend of libraries that TVM's ``export_library`` writes."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.frontends.exported.files import is_library, read_library
from mlf_sdk.frontends.exported.load import build_model, function_names
from mlf_sdk.frontends.registry import StatedFrontend
from mlf_sdk.frontends.stated import Stated
from mlf_sdk.ir.model import Model


class ExportedFrontend(StatedFrontend):
    """Archives with sources or objects, shared libraries, and objects."""

    name = "exported"
    title = "TVM's exported library"

    def recognise(self, path: Path) -> bool:
        """Look for the names of its members, or for the symbol of the modules."""
        return is_library(path)

    def load_stated(self, path: Path, module: str | None, stated: Stated) -> Model:
        """Load the model, with parameters that the user gives."""
        return build_model(read_library(path), module, stated)

    def modules(self, path: Path) -> tuple[str, ...]:
        """Names of the functions of the bytecode."""
        return function_names(read_library(path))
