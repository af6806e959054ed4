# SPDX-License-Identifier: Apache-2.0
"""What a failed build says of the code, and what of the tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlf_sdk.tools.programs import refuses_code

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
