# SPDX-License-Identifier: Apache-2.0
"""What a failed build says of the code, and what of the tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlf_sdk.analysis.c.preprocess import Compiler, preprocess
from mlf_sdk.errors import CodeError, MissingToolError, ToolError
from mlf_sdk.tools.diagnostics import refuses_code

SOURCES = {
    "syntax": "int f(void) { return; ",
    "header": '#include "nowhere.h"\n',
    "assembler": 'void f(void) { __asm__("vmladava.s8 r0, q0, q1"); }',
    "symbol": "int g(void); int main(void) { return g(); }",
}


@pytest.mark.parametrize("name", SOURCES)
def test_diagnostics_of_the_compiler_name_the_code(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.c").write_text(SOURCES[name])
    command = ["cc", "x.c"] if name == "symbol" else ["cc", "-c", "x.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=None)
    assert done.returncode and refuses_code(done.stderr), done.stderr


@pytest.mark.parametrize(
    "output",
    [
        "gcc: fatal error: Killed signal terminated program cc1\ncompilation terminated.",
        "FAILED: CMakeFiles/app.elf.dir/x.c.o\nTerminated\nninja: build stopped: subcommand failed.",
        "ninja: error: mkdir(CMakeFiles): No such file or directory",
        "cc1: fatal error: can't open 'x.s' for writing: No space left on device",
    ],
)
def test_a_killed_tool_says_nothing_of_the_code(output: str) -> None:
    assert not refuses_code(output)


def compiler(tmp_path: Path, text: str) -> Compiler:
    script = tmp_path / "cc.sh"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return Compiler(argv=(str(script),))


def test_a_preprocessor_that_was_killed_is_no_reason_to_read_the_code_otherwise(tmp_path: Path) -> None:
    files = {"a.c": b"int a;\n"}
    killed = "echo 'cc: fatal error: Killed signal terminated program cc1' >&2; exit 1"
    with pytest.raises(ToolError) as caught:
        preprocess(compiler(tmp_path, killed), files, ["a.c"])
    assert not isinstance(caught.value, CodeError | MissingToolError)
    with pytest.raises(ToolError) as caught:
        preprocess(compiler(tmp_path, "kill -9 $$"), files, ["a.c"])
    assert not isinstance(caught.value, CodeError | MissingToolError)
    with pytest.raises(CodeError):
        preprocess(compiler(tmp_path, "echo 'a.c:1:2: error: no' >&2; exit 1"), files, ["a.c"])
    with pytest.raises(MissingToolError):
        preprocess(Compiler(argv=("no-such-compiler",)), files, ["a.c"])
