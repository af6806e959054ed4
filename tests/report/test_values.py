# SPDX-License-Identifier: Apache-2.0
"""Values of results: fields and properties at every level, references by name, nothing that JSON lacks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec
import numpy as np

from mlf_sdk.errors import InputError
from mlf_sdk.reporting.html.data import Report
from mlf_sdk.reporting.values import plain, result_values


class Colour(Enum):
    RED = "red"


class Inner(msgspec.Struct, frozen=True):
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: tuple[Inner, ...]
    by_name: dict[str, object]
    colour: Colour = Colour.RED

    @property
    def total_bytes(self) -> int:
        return sum(part.size_bytes for part in self.inner)

    @property
    def _hidden(self) -> int:
        raise AssertionError


def test_fields_and_properties_at_every_level() -> None:
    result = Outer(
        inner=(Inner(size_bytes=2), Inner(size_bytes=3)),
        by_name={
            "array": np.zeros((2, 3), "int8"),
            "path": Path("a/b"),
            "error": InputError("wrong", where="here"),
            "none": None,
        },
    )
    assert result_values(result) == {
        "inner": [{"size_bytes": 2}, {"size_bytes": 3}],
        "by_name": {
            "array": {"shape": [2, 3], "dtype": "int8"},
            "path": "a/b",
            "error": {"what": "wrong", "where": "here", "hint": ""},
            "none": None,
        },
        "colour": "red",
        "total_bytes": 5,
    }


def test_a_report_is_json(reports: dict[str, Report]) -> None:
    for report in reports.values():
        values = result_values(report)
        assert msgspec.json.decode(msgspec.json.encode(values)) == values
        assert all("free_bytes" in memory for memory in values["memories"])
    assert plain((1, "x")) == [1, "x"]
