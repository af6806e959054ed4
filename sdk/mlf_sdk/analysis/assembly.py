# SPDX-License-Identifier: Apache-2.0
"""Sources of assembly in GNU syntax: the symbols that they define and the words that they hold."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_GLOBAL: Final = re.compile(r"^[ \t]*\.glob[a]?l[ \t]+([A-Za-z_.$][\w.$]*)", re.MULTILINE)
_LABEL: Final = re.compile(r"^[ \t]*([A-Za-z_.$][\w.$]*):", re.MULTILINE)
_WORD: Final = re.compile(r"[A-Za-z_.$][\w.$]*")
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class AssemblyScan(msgspec.Struct, frozen=True):
    """Names in a source, under whatever condition.

    Attributes:
        symbols: with external linkage, that it defines.
        words: outside of comments; among them all symbols that it needs.
    """

    symbols: tuple[str, ...]
    words: frozenset[str]


def scan_assembly(text: str) -> AssemblyScan:
    """Find the names in a source that the preprocessor reads first."""
    text = _COMMENT.sub(" ", text)
    labels = set(_LABEL.findall(text))
    names = dict.fromkeys(name for name in _GLOBAL.findall(text) if name in labels)
    return AssemblyScan(tuple(names), frozenset(_WORD.findall(text)))
