# SPDX-License-Identifier: Apache-2.0
"""What the tables of hostile archives share: the good archives that they break, and the table itself."""

from __future__ import annotations

import struct
from typing import Any

from archives import Spec, build, graph_member

HOSTILE: dict[str, bytes] = {}
SAYS: dict[str, str] = {}

SPEC = Spec(nop=True)
GOOD = build(SPEC)
GRAPH = graph_member(SPEC)
PARAMS = "parameters/tiny.params"
HEADER = "codegen/host/include/tvmgen_tiny.h"
SOURCE = "codegen/host/src/tiny_lib1.c"
AOT = build(kind="aot-c")
OPERATOR = build(kind="operator")

SPELLS = {
    "command substitution": "a$(touch pwned)",
    "variable": "a${HOME}",
    "backtick": "a`id`",
    "double quote": 'a"b',
    "single quote": "a'b",
    "comment end": "a*/b",
    "jinja braces": "a{{ 7*7 }}",
    "jinja block": "a{% raw %}",
    "newline": "a\nb",
    "semicolon": "a;b",
    "escape sequence": "a\x1b[2Jb",
    "right-to-left override": "a\u202eb",
}


def add(name: str, data: bytes, says: str) -> None:
    """Put one archive into the table, with what its error must say."""
    if name in HOSTILE:
        raise ValueError(name)
    HOSTILE[name] = data
    SAYS[name] = says


def patched(data: bytes, offset: int, layout: str, *values: Any) -> bytes:
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, *values)
    return bytes(changed)
