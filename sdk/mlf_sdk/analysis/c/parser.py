# SPDX-License-Identifier: Apache-2.0
"""The parser of C: tree-sitter with its grammar of C, within bounds of its own.

Chosen over libclang on the C sources of 60 archives (163 files, 26 MB). libclang needs every header
to know a type (158 of the 163 gave errors, and it drops statements then), ends the process with a
segmentation fault on a sum of 100,000 terms, takes 15 us per node from Python and installs 61 MB.
tree-sitter needs no header, keeps what it does not understand as an error node, never recurses, and
installs 2.8 MB. On some broken texts its time grows faster than their size, hence the time limit.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Point

BASE_SECONDS: Final = 2.0
SECONDS_PER_CHAR: Final = 2e-6
"""CPU time that a source may take, about ten times what generated code does."""

_NODE_CHUNK: Final = 128  # the text of a node is read in pieces of so many bytes


def parse(code: str, *, base_seconds: float = BASE_SECONDS) -> Node | None:
    """Parse ASCII text; return the root of its syntax tree, or None when it takes too long."""
    from tree_sitter import Parser

    data = code.encode("ascii")
    chunk = [len(data)]
    limit = time.thread_time() + base_seconds + SECONDS_PER_CHAR * len(data)

    def read(offset: int, _: Point) -> bytes:
        return data[offset : offset + chunk[0]]

    def is_late(_offset: int, _has_error: bool) -> bool:
        return time.thread_time() > limit

    try:
        root = Parser(_language()).parse(read, progress_callback=is_late).root_node
    except ValueError:
        return None
    chunk[0] = _NODE_CHUNK
    return root


@cache
def _language() -> Language:
    import tree_sitter_c
    from tree_sitter import Language

    return Language(tree_sitter_c.language())
