# SPDX-License-Identifier: Apache-2.0
"""Preprocessed text of an archive's sources: the text that the build's compiler compiles.

Lines from headers outside of the archive (those of the C library, the runtime, CMSIS-NN) are left out:
their macros are expanded, and their declarations define no kernel.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.text import read_text, without_tables
from mlf_sdk.errors import CodeError, MissingToolError
from mlf_sdk.tools.process import ProcessError, run_process
from mlf_sdk.tools.programs import Compiler, was_killed

_TIMEOUT_S: Final = 60.0
_MARKER: Final = re.compile(r'^# \d+ "((?:[^"\\\n]|\\.)*)"[ \d]*$', re.MULTILINE)
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LINE: Final = re.compile(r"#\s*(?:line\b|\d)")
_CONDITION: Final = re.compile(r"#\s*(?:if(?:n?def)?|elif(?:n?def)?)\b(.*)", re.DOTALL)
_LANGUAGE: Final = re.compile(r"[\s!()]*(?:defined\b)?[\s(]*__cplusplus[\s)]*")
_IFNDEF: Final = re.compile(r"#\s*ifndef\s+(\w+)\s*")
_DEFINE: Final = re.compile(r"#\s*define\s+(\w+)")


class Preprocessed(msgspec.Struct, frozen=True, kw_only=True):
    """Text of a source; ``reason``: why the build may compile another one, else empty."""

    text: str
    reason: str = ""


def preprocess(
    compiler: Compiler,
    files: Mapping[str, bytes],
    sources: Sequence[str],
    *,
    stubs: Sequence[str] = (),
) -> dict[str, Preprocessed]:
    """Run the compiler's preprocessor over C sources of an archive.

    Args:
        compiler: the build's, or another one.
        files: sources and headers of the archive, by member.
        sources: members to preprocess.
        stubs: names of headers that are nowhere: empty ones take their place.

    Raises:
        CodeError: the compiler does not accept a source, or does not come to an end with it.
        ToolError: it is missing, or was ended.
    """
    return dict(_preprocess(compiler, tuple(files.items()), tuple(sources), tuple(stubs)))


@lru_cache(maxsize=4)
def _preprocess(
    compiler: Compiler,
    files: tuple[tuple[str, bytes], ...],
    sources: tuple[str, ...],
    stubs: tuple[str, ...],
) -> tuple[tuple[str, Preprocessed], ...]:
    is_certain = compiler.is_builds and not stubs
    texts = {member: without_tables(data.decode("utf-8", "replace")) for member, data in files}
    reason = next(filter(None, (_doubt(text, is_certain=is_certain) for text in texts.values())), "")
    with tempfile.TemporaryDirectory(prefix="mlf-") as name:
        code, outside = Path(name, "code"), Path(name, "stubs")
        written = {code / member: text for member, text in texts.items()}
        for path, text in (written | {outside / stub: "" for stub in stubs}).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        headers = sorted({str(Path(member).parent) for member, _ in files if member.endswith(".h")})
        folders = (*compiler.include_dirs, ".", *headers, *compiler.library_dirs, str(outside))
        argv = [*compiler.argv, "-E", "-w", *(f"-I{folder}" for folder in folders)]
        outputs = (_output([*argv, source], code) for source in sources)
        own = ("".join(_own_parts(output)) for output in outputs)
        return tuple((s, Preprocessed(text=t, reason=reason)) for s, t in zip(sources, own, strict=True))


def _output(argv: Sequence[str], folder: Path) -> str:
    try:
        return run_process(argv, cwd=folder, timeout_s=_TIMEOUT_S).stdout
    except MissingToolError:
        raise
    except ProcessError as error:
        if error.returncode is not None and was_killed(error.returncode, error.tail):
            raise
        raise CodeError(error.what, where=error.where, hint=error.hint) from error


def as_written(files: Mapping[str, bytes], sources: Sequence[str]) -> dict[str, Preprocessed]:
    """Text of sources as they are written, and why the build may compile another one; needs no compiler."""
    texts = {member: data.decode("utf-8", "replace") for member, data in files.items()}
    reasons = (_doubt(text, is_certain=False) for text in texts.values())
    reason = next(filter(None, reasons), "")
    if any(scan_source(text, m).functions for m, text in texts.items() if m.endswith(".h")):
        reason = reason or "a header of the archive defines functions"
    return {source: Preprocessed(text=texts[source], reason=reason) for source in sources}


def _doubt(text: str, *, is_certain: bool) -> str:
    """Return the reason why preprocessing a file here may differ from what the build compiles; '' if none."""
    source = read_text(text)
    directives = [_COMMENT.sub(" ", directive) for _, directive in source.directives]
    if source.is_remapped or any(_LINE.match(directive) for directive in directives):
        return "the lines of the source are numbered or spelt in another way"
    if any("MLF_" in directive for directive in directives):
        return "the source depends on options of the runtime"
    guard = _IFNDEF.fullmatch(directives[0]) if directives else None
    if guard is not None and len(directives) > 1:
        defined = _DEFINE.match(directives[1])
        directives = directives[1:] if defined is not None and defined[1] == guard[1] else directives
    conditions = (match[1] for match in map(_CONDITION.match, directives) if match is not None)
    if not is_certain and any(_LANGUAGE.fullmatch(condition) is None for condition in conditions):
        return "the source has conditions that only the build's compiler and headers decide"
    return ""


def _own_parts(output: str) -> Iterator[str]:
    """Yield the lines that come from files of the archive: their names are relative."""
    match = _MARKER.search(output)
    while match is not None:
        following = _MARKER.search(output, match.end())
        if not match[1].startswith(("/", "<")):
            yield output[match.end() : len(output) if following is None else following.start()]
        match = following
