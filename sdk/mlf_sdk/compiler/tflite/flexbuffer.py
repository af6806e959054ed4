# SPDX-License-Identifier: Apache-2.0
"""Options of custom operators: maps of the FlexBuffers format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlf_sdk.compiler.graph import refuse


def options_of(data: bytes, needed: Iterable[str]) -> dict[str, Any]:
    """Options of an operator by their names; raises UnsupportedError where one that is needed is missing."""
    from flatbuffers import flexbuffers

    if not data:
        refuse("has no options")
    try:
        result = flexbuffers.Loads(bytearray(data))
    except Exception:  # the reader of the format checks nothing
        refuse("its options are damaged")
    missing = [name for name in needed if not isinstance(result, dict) or name not in result]
    if missing:
        refuse(f"its options lack {missing[0]}")
    return dict(result)


def whole_number(options: dict[str, Any], name: str, least: int, most: int) -> int:
    """A whole number among the options; raises UnsupportedError where it is none or out of range."""
    value = options[name]
    if not isinstance(value, int) or not least <= value <= most:
        refuse(f"has {name} {value!r:.40}; a whole number from {least} to {most} is needed")
    return int(value)
