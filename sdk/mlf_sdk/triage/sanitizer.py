# SPDX-License-Identifier: Apache-2.0
"""Reports of the sanitizers on the host: summary and call path of an invalid access."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from mlf_sdk.triage.explain import CallFrame, Triage, source_text

_FRAME = re.compile(
    r"^\s*#(?P<number>\d+) 0x(?P<address>[0-9a-f]+) in (?P<function>\S+) "
    r"(?P<path>[^\s:()]+)(?::(?P<line>\d+))?",
    re.MULTILINE,
)
_PLACE = re.compile(r"(?P<path>[^\s:()]+):(?P<line>\d+)(?::\d+)? in (?P<function>\S+)")
_SUMMARY = re.compile(r"^SUMMARY: (?P<what>.+)$|^\S+: runtime error: .+$", re.MULTILINE)


def sanitizer_summary(output: str) -> str:
    """Summary line of a sanitizer's report; empty when there is none."""
    found = _SUMMARY.search(output)
    return (found["what"] or found.group()) if found else ""


def add_sanitizer_report(found: Triage, output: str, root: Path) -> Triage:
    """Replace cause and call path by those of a sanitizer's report, where ``output`` holds one.

    Args:
        found: explanation so far.
        output: standard error of the program.
        root: folder of the project, which holds the sources.
    """
    summary = sanitizer_summary(output)
    if not summary:
        return found
    frames: list[CallFrame] = []
    for match in _FRAME.finditer(output):
        if int(match["number"]) != len(frames):
            break  # the next stack is that of the allocation
        path, line = match["path"].removeprefix("./"), int(match["line"] or 0)
        frames.append(
            CallFrame(
                address=int(match["address"], 16),
                function=match["function"],
                path=path,
                line=line,
                text=source_text(root, path, line),
            )
        )
    known = [f for f in frames if f.line] or _of_summary(summary, root)
    return replace(found, cause=summary, frames=tuple(known))


def _of_summary(summary: str, root: Path) -> list[CallFrame]:
    """CallFrame of the place in a summary, for a report whose stack was cut off."""
    named = _PLACE.search(summary)
    if named is None:
        return []
    path, line = named["path"].removeprefix("./"), int(named["line"])
    text = source_text(root, path, line)
    return [CallFrame(address=0, function=named["function"], path=path, line=line, text=text)]
