# SPDX-License-Identifier: Apache-2.0
"""C source of a model's kernels in a generated project: the functions of steps, and what they call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlf_sdk.codegen.lock import LockModel

LONGEST: Final = 24_000
"""Characters of a kernel's source that are kept."""
_HEAD = re.compile(r"^(?!#|//|/\*|\s)[^;{}=]*?\b(\w+)\s*\([^;]*$")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_SUFFIXES = (".c", ".cc")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """Source of a function of a kernel.

    Attributes:
        path: of its file, in the project.
        line: of its function in the file, from 1.
        text: of the function, with the comment before it.
        is_cut: the text is longer than what is kept, which is its begin.
        calls: functions of the same file that it calls.
    """

    path: str
    line: int
    text: str
    is_cut: bool
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    line: int
    text: str


def kernel_sources(folder: Path, model: LockModel) -> dict[str, KernelSource]:
    """Find the functions of a model's steps in its C files.

    Args:
        folder: of the project.
        model: of its lock.

    Returns:
        By name: the functions of steps, and those of the same file that they call, directly or not; what lies
        in objects and libraries is not there.
    """
    wanted = {name for step in model.steps for name in (step.symbol, step.name)}
    result: dict[str, KernelSource] = {}
    for path in sorted((folder / "model" / model.c_name).rglob("*")):
        if path.suffix not in _SUFFIXES or not path.is_file():
            continue
        functions = _functions(path.read_text(encoding="utf-8", errors="replace"))
        place = path.relative_to(folder).as_posix()
        rest = sorted(wanted & functions.keys() - result.keys())
        while rest:
            name = rest.pop()
            function = functions[name]
            calls = sorted({*_NAME.findall(function.text)} & functions.keys() - {name})
            result[name] = KernelSource(
                path=place,
                line=function.line,
                text=function.text[:LONGEST],
                is_cut=len(function.text) > LONGEST,
                calls=tuple(calls),
            )
            rest += [one for one in calls if one not in result and one not in rest]
    return result


def _functions(text: str) -> dict[str, _Function]:
    """Functions of a C file whose heads and last braces begin their lines, with the comment before each."""
    lines = text.splitlines()
    result: dict[str, _Function] = {}
    number = 0
    while number < len(lines):
        head = _HEAD.match(lines[number])
        opening = _opening(lines, number) if head else None
        if head is None or opening is None:
            number += 1
            continue
        end = next((n for n in range(opening, len(lines)) if lines[n].startswith("}")), len(lines) - 1)
        start = _comment_start(lines, number)
        body = "\n".join(line.rstrip() for line in lines[start : end + 1])
        result.setdefault(head[1], _Function(line=number + 1, text=body))
        number = end + 1
    return result


def _opening(lines: list[str], number: int) -> int | None:
    """Line of the brace that opens a body whose head begins at ``number``; None: a declaration, or a call."""
    for at in range(number, min(number + 12, len(lines))):
        line = lines[at].rstrip()
        if line.endswith("{"):
            return at
        if line.endswith((";", "}")):
            return None
    return None


def _comment_start(lines: list[str], number: int) -> int:
    """First line of the comment that ends right before ``number``."""
    start = number
    if start and lines[start - 1].rstrip().endswith("*/"):
        start = next((n for n in range(start - 1, -1, -1) if lines[n].lstrip().startswith("/*")), number)
    while start and lines[start - 1].startswith("//"):
        start -= 1
    return start
