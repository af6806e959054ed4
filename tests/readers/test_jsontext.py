# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.jsontext import MAX_JSON_BYTES, convert, load_json


def load(data: bytes) -> tuple[object, list[str]]:
    faults = FaultCollector("a.tar")
    value = load_json(data, "m", faults)
    return value, [str(fault) for fault in faults.faults]


def test_json_is_decoded() -> None:
    assert load(b'{"a": [1, -2.5, "\xc3\xa9", null, true], "b": {"a": 9223372036854775807}}') == (
        {"a": [1, -2.5, "\u00e9", None, True], "b": {"a": 2**63 - 1}},
        [],
    )


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "m: line 1 column 1: not JSON: Expecting value"),
        (b"{}\n{}", "m: line 2 column 1: not JSON: Extra data"),
        (b'"a\nb"', "m: line 1 column 3: not JSON: Invalid control character at"),
        (b"\xef\xbb\xbf{}", "m: line 1 column 1: not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig)"),
        (b'{"a": "\xff"}', "m: byte 7: invalid UTF-8"),
        (b"[" * 100_000, "m: JSON is nested too deeply"),
        (b'[{"a": 1, "b": 2, "b": 3}]', "m: the key 'b' occurs twice in one object"),
        (b"[NaN]", "m: NaN is not JSON"),
        (b"[-Infinity]", "m: -Infinity is not JSON"),
        (b"[1e400]", "m: a number that is out of range: '1e400'"),
        (b"[99999999999999999999]", "m: an integer of 20 digits"),
        (
            b" " * (MAX_JSON_BYTES + 1),
            f"m: JSON of {MAX_JSON_BYTES + 1} bytes; at most {MAX_JSON_BYTES} are read",
        ),
    ],
)
def test_what_is_refused(data: bytes, fault: str) -> None:
    assert load(data) == (msgspec.UNSET, [fault])


class Point(msgspec.Struct):
    x: int
    tags: list[str] = msgspec.field(default_factory=list)


def test_convert_gives_the_type() -> None:
    faults = FaultCollector("a.tar")
    assert convert({"x": 1, "tags": ["a"], "more": 5}, Point, "m", "$.p", faults) == Point(1, ["a"])
    assert faults.faults == []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"x": 1, "tags": ["a", 2]}, "m: $.p[3].tags[1]: Expected `str`, got `int`"),
        ({"x": True}, "m: $.p[3].x: Expected `int`, got `bool`"),
        ({"x": 1.0}, "m: $.p[3].x: Expected `int`, got `float`"),
        ({"x": "1"}, "m: $.p[3].x: Expected `int`, got `str`"),
        ({}, "m: $.p[3]: Object missing required field `x`"),
        (None, "m: $.p[3]: Expected `object`, got `null`"),
    ],
)
def test_convert_names_the_place(value: object, fault: str) -> None:
    faults = FaultCollector("a.tar")
    assert convert(value, Point, "m", "$.p[3]", faults) is None
    assert [str(one) for one in faults.faults] == [fault]
