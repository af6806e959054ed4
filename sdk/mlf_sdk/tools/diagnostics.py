# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of compilers and linkers."""

from __future__ import annotations

import re

_OF_CODE = re.compile(
    r":\d+(:\d+)?: (fatal )?error: "  # compiler or preprocessor: file, line, column
    r"|^\S+:\d+: Error: "  # assembler
    r"|undefined reference to |multiple definition of |cannot find -l|: in function [`']",
    re.MULTILINE,
)
_KILLED = re.compile(r"signal terminated program|^(Killed|Terminated)$", re.MULTILINE)


def refuses_code(output: str) -> bool:
    """Return whether the output of a failed build names a line or a symbol of the code.

    Where it does not, the tools failed: they were killed, or the disk is full. The
    same build may succeed later.
    """
    return _OF_CODE.search(output) is not None


def was_killed(returncode: int, output: str) -> bool:
    """Return whether a compiler, or a program that it started, was ended by a signal."""
    return returncode < 0 or _KILLED.search(output) is not None
