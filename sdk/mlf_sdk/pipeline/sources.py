# SPDX-License-Identifier: Apache-2.0
"""C source of a model's kernels in a generated project: the functions of steps, and what they call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.codegen.lock import LockModel

LONGEST: Final = 24_000
"""Characters of a kernel's source that are kept."""
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
        text = path.read_text(encoding="utf-8", errors="replace")
        functions: dict[str, FunctionDefinition] = {}
        for function in scan_source(text, path.name).functions:
            functions.setdefault(function.name, function)
        lines = [line.rstrip() for line in text.split("\n")]
        rest = sorted(wanted & functions.keys() - result.keys())
        while rest:
            name = rest.pop()
            first, last = functions[name].lines
            source = "\n".join(lines[_comment_start(lines, first - 1) : last])
            calls = sorted(functions[name].called & functions.keys() - {name})
            result[name] = KernelSource(
                path=path.relative_to(folder).as_posix(),
                line=first,
                text=source[:LONGEST],
                is_cut=len(source) > LONGEST,
                calls=tuple(calls),
            )
            rest += [one for one in calls if one not in result and one not in rest]
    return result


def _comment_start(lines: list[str], number: int) -> int:
    """First line of the comment that ends right before ``number``."""
    start = number
    if start and lines[start - 1].rstrip().endswith("*/"):
        start = next((n for n in range(start - 1, -1, -1) if lines[n].lstrip().startswith("/*")), number)
    while start and lines[start - 1].startswith("//"):
        start -= 1
    return start
