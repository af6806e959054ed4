# SPDX-License-Identifier: Apache-2.0
"""Cores that packages of Python ship as RTL: one TOML row each in ``board_templates/rtl/models``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError, MissingToolError
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.checks import name_hint
from mlf_sdk.tools.rowfile import read_row

VERILATOR = "verilator"
RTL_EXTRA = "'mlf-sdk[rtl]'"


class RtlModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A core, and how a simulator is made of it.

    Attributes:
        name: as board rows have it.
        package: of Python that has the sources.
        module: the package's module.
        folder: of the sources, in the module.
        sources: files of the core, in this folder.
        includes: folders for what the sources include, likewise.
        own: sources in ``rtl`` that belong to the core.
        harness: source in ``rtl`` that binds the core to memories and console.
        top: the module that is simulated.
        defines: macros of the sources.
        parameters: of the top module.
        reset_parameter: the one that takes the address of the first instruction; empty: none.
    """

    name: str
    package: str
    module: str
    folder: str
    sources: tuple[str, ...]
    includes: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    harness: str
    top: str
    defines: tuple[str, ...] = ()
    parameters: Mapping[str, int] = {}
    reset_parameter: str = ""

    def place(self) -> Path:
        """Folder of the core's sources.

        Raises:
            MissingToolError: the package is not installed.
        """
        spec = find_spec(self.module)
        places = spec.submodule_search_locations if spec is not None else None
        if not places:
            raise MissingToolError(
                f"the package '{self.package}' is not installed",
                where=f"RTL of {self.name}",
                hint=f"Install it: pip install {RTL_EXTRA}.",
            )
        return Path(places[0]) / self.folder


def rtl_folder() -> Path:
    """Folder of the simulators' sources: devices, harness of each core, rows."""
    return data_dir("board_templates") / "rtl"


@cache
def load_models() -> Mapping[str, RtlModel]:
    """Every core by name.

    Raises:
        InputError: a row is not as it must be.
    """
    rows = (read_row(path, RtlModel) for path in sorted((rtl_folder() / "models").glob("*.toml")))
    return {row.name: row for row in rows}


def find_model(name: str) -> RtlModel:
    """The core of a name.

    Raises:
        InputError: there is none.
    """
    models = load_models()
    if name not in models:
        raise InputError(f"there is no RTL of '{name}'", where="rtl.model", hint=name_hint(name, models))
    return models[name]
