# SPDX-License-Identifier: Apache-2.0
"""Reports of the sanitizers on the host: summary and call path of an invalid access."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from mlf_sdk.triage.explain import CallFrame, Triage, fold_repeats, source_text

_FRAME = re.compile(
    r"^\s*#(?P<number>\d+) 0x(?P<address>[0-9a-f]+)(?: in)? *(?P<place>.*?)\s*$", re.MULTILINE
)
# A C++ function has its argument types behind it; a frame without debug information "(module+offset)".
_SOURCE = re.compile(r"(?P<function>[^\s(]+(?:\(.*?\))?) (?P<path>(?!\()[^:]+):(?P<line>\d+)(?::\d+)?")
_RUNTIME = re.compile(r"(^|/)(libsanitizer|compiler-rt)/")
_PLACE = re.compile(r"(?P<path>[^\s:()]+):(?P<line>\d+)(?::\d+)? in (?P<function>\S+)")
_SUMMARY = re.compile(r"^SUMMARY: (?P<what>.+)$|^\S+: runtime error: .+$", re.MULTILINE)


def sanitizer_summary(output: str) -> str:
    """Summary line of a sanitizer's report; empty when there is none."""
    match = _SUMMARY.search(output)
    return (match["what"] or match.group()) if match else ""


def add_sanitizer_report(triage: Triage, output: str, root: Path) -> Triage:
    """Replace cause and call path by those of a sanitizer's report, where ``output`` holds one.

    Args:
        found: explanation so far.
        output: standard error of the program.
        root: folder of the project, which holds the sources.
    """
    summary = sanitizer_summary(output)
    if not summary:
        return triage
    frames = _innermost_stack(output, root) or _of_summary(summary, root)
    return replace(triage, cause=summary, frames=fold_repeats(frames))


def _innermost_stack(output: str, root: Path) -> list[CallFrame]:
    """Frames with a source line of the first stack, without the sanitizer's own that lie innermost.

    These are there where the access happens in an intercepted function (``memset``), and where a recursion
    uses the stack up while the sanitizer's code runs.
    """
    frames: list[CallFrame] = []
    for count, match in enumerate(_FRAME.finditer(output)):
        if int(match["number"]) != count:
            break  # the next stack is that of the allocation
        source = _SOURCE.fullmatch(match["place"])
        if source is None or (not frames and _RUNTIME.search(source["path"])):
            continue
        path, line = source["path"].removeprefix("./"), int(source["line"])
        frame = CallFrame(
            address=int(match["address"], 16),
            function=source["function"],
            path=path,
            line=line,
            text=source_text(root, path, line),
        )
        frames.append(frame)
    return frames


def _of_summary(summary: str, root: Path) -> list[CallFrame]:
    """CallFrame of the place in a summary, for a report whose stack was cut off."""
    named = _PLACE.search(summary)
    if named is None:
        return []
    path, line = named["path"].removeprefix("./"), int(named["line"])
    text = source_text(root, path, line)
    return [CallFrame(address=0, function=named["function"], path=path, line=line, text=text)]
