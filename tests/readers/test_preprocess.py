# SPDX-License-Identifier: Apache-2.0
"""Preprocessed sources: the compiler's own text of the archive's lines, and doubts where it may be another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlf_sdk.analysis.c.preprocess import as_written, preprocess
from mlf_sdk.errors import CodeError, MissingToolError, ToolError
from mlf_sdk.tools.programs import Compiler

CC = Compiler(argv=("cc", "-std=gnu99"))
OTHER = Compiler(argv=("cc",), is_builds=False)
GUARDED = b"#ifndef OWN_H_\n#define OWN_H_\nint own;\n#endif\n"
LANGUAGE = b'#ifdef __cplusplus\nextern "C" {\n#endif\n#if defined(__cplusplus)\n}\n#endif\n'
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")


def text(source: bytes, compiler: Compiler = CC, **headers: bytes) -> str:
    files = {"src/k.c": source, **{f"include/{name}.h": data for name, data in headers.items()}}
    return " ".join(preprocess(compiler, files, ["src/k.c"])["src/k.c"].text.split())


def reason(source: bytes, compiler: Compiler = OTHER, stubs: tuple[str, ...] = (), **headers: bytes) -> str:
    files = {"src/k.c": source, **{f"include/{name}.h": data for name, data in headers.items()}}
    return preprocess(compiler, files, ["src/k.c"], stubs=stubs)["src/k.c"].reason


@needs_cc
def test_the_lines_that_are_compiled() -> None:
    source = (
        b'#include <stddef.h>\n#include "own.h"\n#ifdef OWN_H_\nvoid* p = NULL;\n#else\nint dead;\n#endif\n'
    )
    assert text(source, own=GUARDED) == "int own; void* p = ((void *)0) ;"
    assert text(b"int a = WIDTH;\n", Compiler(argv=("cc", "-DWIDTH=4"))) == "int a = 4;"


@needs_cc
def test_long_tables_say_nothing() -> None:
    table = b"int t[] = {" + b"1, " * 200 + b"};\n"
    assert text(table) == "int t[] = {};"
    assert "one" in text(table.replace(b"{", b"{ one,"))


@needs_cc
def test_headers_that_are_nowhere() -> None:
    source = b"#include <missing.h>\nint a;\n"
    assert reason(source, CC, ("missing.h",)) == ""
    with pytest.raises(ToolError, match="missing"):
        reason(source)


@needs_cc
@pytest.mark.parametrize(
    "source", [b"int a;\n", LANGUAGE, GUARDED, b"#define A 1\n#pragma once\nint a = A;\n"]
)
def test_text_that_no_compiler_changes(source: bytes) -> None:
    assert reason(source) == ""


@needs_cc
@pytest.mark.parametrize(
    ("source", "compiler", "expected"),
    [
        (b"#if defined(__ARM_FEATURE_DSP)\nint a;\n#endif\n", OTHER, "conditions"),
        (b"#ifndef A\n#define B\n#endif\n", OTHER, "conditions"),
        (b"#ifndef A\nint a;\n#endif\n", OTHER, "conditions"),
        (b"#if defined(__ARM_FEATURE_DSP)\nint a;\n#endif\n", CC, ""),
        (b'#line 4 "/usr/include/other.h"\nint a;\n', CC, "numbered"),
        (b'# /* far */ 4 "/usr/include/other.h"\nint a;\n', CC, "numbered"),
        (b'#li\\\nne 4 "/usr/include/other.h"\nint a;\n', CC, "numbered"),
        (b'%:line 4 "/usr/include/other.h"\nint a;\n', CC, "numbered"),
        (b"#if MLF_TRACE\nint a;\n#endif\n", CC, "options of the runtime"),
    ],
)
def test_doubts(source: bytes, compiler: Compiler, expected: str) -> None:
    found = reason(source, compiler)
    assert expected in found and bool(expected) == bool(found)


def test_without_a_compiler() -> None:
    files = {"k.c": b'#include "own.h"\nint k(void) { return 0; }\n', "own.h": GUARDED}
    found = as_written(files, ["k.c"])["k.c"]
    assert (found.text, found.reason) == (files["k.c"].decode(), "")
    files["own.h"] = b"int f(void) { return 1; }\n"
    assert as_written(files, ["k.c"])["k.c"].reason == "a header of the archive defines functions"
    files["k.c"] = b"#if A\n#endif\n"
    assert "conditions" in as_written(files, ["k.c"])["k.c"].reason


def script_as_compiler(tmp_path: Path, text: str) -> Compiler:
    script = tmp_path / "cc.sh"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return Compiler(argv=(str(script),))


def test_a_preprocessor_that_was_killed_is_no_reason_to_read_the_code_otherwise(tmp_path: Path) -> None:
    files = {"a.c": b"int a;\n"}
    killed = "echo 'cc: fatal error: Killed signal terminated program cc1' >&2; exit 1"
    with pytest.raises(ToolError) as caught:
        preprocess(script_as_compiler(tmp_path, killed), files, ["a.c"])
    assert not isinstance(caught.value, CodeError | MissingToolError)
    with pytest.raises(ToolError) as caught:
        preprocess(script_as_compiler(tmp_path, "kill -9 $$"), files, ["a.c"])
    assert not isinstance(caught.value, CodeError | MissingToolError)
    with pytest.raises(CodeError):
        preprocess(script_as_compiler(tmp_path, "echo 'a.c:1:2: error: no' >&2; exit 1"), files, ["a.c"])
    with pytest.raises(MissingToolError):
        preprocess(Compiler(argv=("no-such-compiler",)), files, ["a.c"])
