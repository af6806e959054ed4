# SPDX-License-Identifier: Apache-2.0
"""What a sanitizer of the host wrote about a bad access, as an explanation of the fault."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from mlf_sdk.triage.explain import Frame, Triage, source_text

_FRAME = re.compile(
    r"^\s*#(?P<number>\d+) 0x(?P<address>[0-9a-f]+) in (?P<function>\S+) "
    r"(?P<path>[^\s:()]+)(?::(?P<line>\d+))?",
    re.MULTILINE,
)
_PLACE = re.compile(r"(?P<path>[^\s:()]+):(?P<line>\d+)(?::\d+)? in (?P<function>\S+)")
_SUMMARY = re.compile(r"^SUMMARY: (?P<what>.+)$|^\S+: runtime error: .+$", re.MULTILINE)


def sanitizer_summary(words: str) -> str:
    """The line that sums a sanitizer's report up; empty when there is none."""
    found = _SUMMARY.search(words)
    return (found["what"] or found.group()) if found else ""


def sanitized(found: Triage, words: str, root: Path) -> Triage:
    """An explanation with the cause and the call path of a sanitizer's report, if ``words`` hold one.

    Args:
        found: what is known so far.
        words: what the program wrote to its standard error.
        root: the project's folder; the source lies there.
    """
    summary = sanitizer_summary(words)
    if not summary:
        return found
    frames: list[Frame] = []
    for match in _FRAME.finditer(words):
        if int(match["number"]) != len(frames):
            break  # the next stack: where the memory came from
        path, line = match["path"].removeprefix("./"), int(match["line"] or 0)
        frames.append(
            Frame(
                address=int(match["address"], 16),
                function=match["function"],
                path=path,
                line=line,
                text=source_text(root, path, line),
            )
        )
    known = [f for f in frames if f.line] or _of_summary(summary, root)
    return replace(found, cause=summary, frames=tuple(known))


def _of_summary(summary: str, root: Path) -> list[Frame]:
    """The place that a summary names; the stack may have been too long to be kept."""
    named = _PLACE.search(summary)
    if named is None:
        return []
    path, line = named["path"].removeprefix("./"), int(named["line"])
    text = source_text(root, path, line)
    return [Frame(address=0, function=named["function"], path=path, line=line, text=text)]
