# SPDX-License-Identifier: Apache-2.0
"""Results as plain values for ``--json``: keys are the names of fields and properties; sizes are in bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import msgspec
import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import MlfError
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.evidence import BOARD_APART
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.targets.boards.row import Board

Values = dict[str, Any]


def result_values(result: object) -> Values:
    """Convert a result, a dataclass or msgspec struct, to a mapping of plain values.

    It has all fields and properties, at every level. Models and boards are given by name, arrays by shape
    and type, paths and enumerations as strings.
    """
    names = [*_field_names(result), *_property_names(type(result))]
    return {name: plain(getattr(result, name)) for name in dict.fromkeys(names)}


def plain(value: Any) -> Any:  # noqa: ANN401, PLR0911 (one return for each kind)
    """Convert any value of a result to JSON types."""
    if isinstance(value, LockModel | Model | Board):
        return value.name
    if isinstance(value, MlfError):
        return {"what": value.what, "where": value.where, "hint": value.hint}
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
        return result_values(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, PurePath) else value


def _field_names(result: object) -> tuple[str, ...]:
    if isinstance(result, msgspec.Struct):
        return result.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(result))  # type: ignore[arg-type]


def _property_names(type_: type) -> list[str]:
    return [
        name
        for base in type_.__mro__
        for name, member in vars(base).items()
        if isinstance(member, property) and not name.startswith("_")
    ]


def _against(report: RunReport) -> str:
    """Origin of the outputs in ``compare``."""
    if report.compare:
        return "reference"
    return "unshared image" if BOARD_APART in report.evidence else "host"


def run_values(report: RunReport) -> Values:
    """Result of a run; ``compare`` is with the reference or, without one, with the host's outputs."""
    compare = plain(report.compare or report.twin)
    return {
        **result_values(report),
        "archive": report.model.archive,
        "archive_sha256": report.model.archive_sha256,
        "compare": compare and {"against": _against(report), **compare},
    }
