# SPDX-License-Identifier: Apache-2.0
"""Defaults of a folder: ``mlf.toml``, or ``[tool.mlf-sdk]`` of ``pyproject.toml``.

The nearest file at or above the current folder counts. Its keys are options of `Request`:

    board = "mps2-an386"
    port = "/dev/ttyACM0"
    zephyr-base = "/opt/zephyr"
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import option_of
from mlf_sdk.pipeline.request import Request
from mlf_sdk.tools.checks import name_hint

CONFIG_NAME = "mlf.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Defaults by field of the request.

    Attributes:
        path: the file; None: there is none.
        values: by name of the field.
    """

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def defaults_for(self, unset: Iterable[str], *, board_given: bool = False) -> dict[str, Any]:
        """Values for the fields in ``unset``.

        Args:
            unset: fields that the command line does not state.
            board_given: it states the board: the port of the file is that of another board, and is left out.
        """
        wanted = set(unset)
        if board_given and "board" in self.values:
            wanted -= {"port", "baud", "max_baud", "board_file", "platform"}
        return {name: value for name, value in self.values.items() if name in wanted}


def read_config(start: Path | None = None) -> Config:
    """Read the nearest configuration at or above a folder.

    Args:
        start: the folder; default: the current one.

    Raises:
        InputError: the file is no TOML, or states unknown options or invalid values.
    """
    folder = (start or Path.cwd()).resolve()
    for parent in (folder, *folder.parents):
        own, project = parent / CONFIG_NAME, parent / "pyproject.toml"
        if own.is_file():
            return _config(own, _toml(own))
        if project.is_file():
            table = _toml(project).get("tool", {}).get("mlf-sdk")
            if table is not None:
                return _config(project, table)
    return Config()


def _toml(path: Path) -> dict[str, Any]:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict)
    except (OSError, ValueError) as error:
        raise InputError(f"can't read the configuration: {error}", where=str(path)) from error


def _config(path: Path, table: Mapping[str, Any]) -> Config:
    known = {one.name: one for one in dataclasses.fields(Request) if not option_of(one).hidden}
    spelt = {name.removesuffix("_s"): name for name in known}
    hints = typing.get_type_hints(Request)
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = spelt.get(key.replace("-", "_"), key.replace("-", "_"))
        if name == "pre" and isinstance(value, dict):
            values[name] = str(path)  # the file is read where the section is needed
            continue
        if name not in known:
            raise InputError(f"unknown option '{key}'", where=str(path), hint=name_hint(name, spelt))
        values[name] = typed_value(value, hints[name], f"{path}: {key}")
        if option_of(known[name]).is_path:
            values[name] = below(path.parent, values[name])
    Request(**values)  # says what is wrong with a value
    return Config(path=path, values=values)


def typed_value(value: Any, hint: Any, where: str) -> Any:  # noqa: ANN401
    """Value of a configuration as the type of its option.

    Args:
        value: as the file states it.
        hint: type of the field, such as ``str | None``.
        where: place to name in an error.

    Raises:
        InputError: it is of another type.
    """
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for part in parts:
        if typing.get_origin(part) is tuple and isinstance(value, list):
            return tuple(str(item) for item in value)
        if part is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if part in (bool, int, str) and type(value) is part:
            return value
    raise InputError(f"invalid value {value!r}", where=where, hint="See: mlf-sdk run --help-all")


def below(folder: Path, value: Any) -> Any:  # noqa: ANN401
    """Value of an option with paths, or NAME=PATH, relative to a folder; a sequence keeps its type."""
    if isinstance(value, tuple | list):
        return type(value)(below(folder, item) for item in value)
    if not value:
        return value
    name, equals, path = value.rpartition("=")
    return f"{name}{equals}{folder / path}"
