# SPDX-License-Identifier: Apache-2.0
"""All faults of a TOML row, each with its place; what msgspec refuses has at least one."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.chips.row import Chip
from mlf_sdk.targets.flashers.row import RunnerRow
from mlf_sdk.tools.rowfaults import type_faults, without_unknown_keys
from mlf_sdk.tools.rowfile import read_row


class Inner(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A table in a table."""

    size: Annotated[int, Meta(ge=1)]
    kind: Literal["a", "b"] = "a"


class Outer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A document."""

    name: str
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    names: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    by_name: dict[Annotated[str, Meta(pattern="^[a-z]+$")], Inner] = {}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({}, ["name: it is missing"]),
        ({"name": "x", "inner": 3}, ["inner: it must be a table, not an integer"]),
        ({"name": "x", "many": {"size": 1}}, ["many: Expected `array`, got `object`; it is {'size': 1}"]),
        (
            {"name": 5, "many": [{"size": 0}, {"sise": 1}]},
            [
                "name: Expected `str`, got `int`; it is 5",
                "many[0].size: Expected `int` >= 1; it is 0",
                "many[1].sise: unknown key; Did you mean size?",
                "many[1].size: it is missing",
            ],
        ),
        ({"name": "x", "names": ["a", 1]}, ["names[1]: Expected `str`, got `int`; it is 1"]),
        (
            {"name": "x", "names": ["a", "c", "b"]},
            ["names: Expected `array` of length <= 2; it is ['a', 'c', 'b']"],
        ),
        (
            {"name": "x", "by_name": {"A": {"size": 1, "kind": "c"}}},
            [
                "by_name.A: Expected `str` matching regex '^[a-z]+$'; it is 'A'",
                "by_name.A.kind: 'c' is none of: a, b",
            ],
        ),
    ],
)
def test_faults(document: dict[str, Any], told: list[str]) -> None:
    assert [str(fault) for fault in type_faults(document, Outer)] == told


def test_a_long_value_is_cut() -> None:
    (fault,) = type_faults({"name": ["x" * 1000]}, Outer)
    assert len(fault.what) < 120


def test_the_rest_is_looked_at_without_unknown_keys() -> None:
    document = {"name": "x", "y": 1, "many": [{"size": 1, "z": 2}], "by_name": {"a": {"size": 2, "q": 0}}}
    rest = {"name": "x", "many": [{"size": 1}], "by_name": {"a": {"size": 2}}}
    assert without_unknown_keys(document, Outer) == rest


def test_one_fault_is_one_line_and_several_are_a_list(tmp_path: Path) -> None:
    path = tmp_path / "row.toml"
    path.write_text("name = 1\n")
    with pytest.raises(InputError) as caught:
        read_row(path, Outer)
    assert caught.value.what == "name: Expected `str`, got `int`; it is 1"
    path.write_text("name = 1\nother = 2\n")
    with pytest.raises(InputError) as caught:
        read_row(path, Outer)
    assert caught.value.what.splitlines()[0] == "there are 2 faults:"
    assert len(caught.value.what.splitlines()) == 3


FOLDERS = {"boards": Board, "chips": Chip, "runners": RunnerRow}
DOCUMENTS = [
    (msgspec.toml.decode(path.read_bytes()), kind)
    for folder, kind in FOLDERS.items()
    for path in sorted((data_dir("board_templates") / folder).glob("*.toml"))
]


def test_the_rows_of_the_sdk_have_none() -> None:
    assert [list(type_faults(document, kind)) for document, kind in DOCUMENTS] == [[]] * len(DOCUMENTS)


def _containers(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [value] if isinstance(value, (dict, list)) and value else []
    return found + [one for part in inner for one in _containers(part)]


@given(st.data())
def test_faults_are_told_exactly_where_msgspec_refuses(data: st.DataObject) -> None:
    document, kind = data.draw(st.sampled_from(DOCUMENTS))
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        one = data.draw(st.sampled_from(_containers(document)))
        key = data.draw(st.sampled_from(sorted(one) if isinstance(one, dict) else range(len(one))))
        new = data.draw(
            st.sampled_from([-1, 0, "x", "", True, 1.5, [], {}, {"x": 1}, ["x"], 1 << 40, "gone"])
        )
        if new == "gone":
            del one[key]
        else:
            one[key] = new
        if not _containers(document):
            break
    try:
        msgspec.convert(document, kind)
        refused = False
    except msgspec.ValidationError:
        refused = True
    assert bool(list(type_faults(document, kind))) == refused
