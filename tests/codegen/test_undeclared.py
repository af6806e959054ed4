# SPDX-License-Identifier: Apache-2.0
"""The archive's code: its warnings are not shown, but a function that nobody declared ends the build."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.errors import ToolError


@pytest.fixture
def app(tmp_path: Path, needs_host: None) -> Path:
    mlf_sdk.generate(write(build(Spec()), tmp_path / "tiny.tar"), tmp_path / "app", board="host")
    return tmp_path / "app"


def append(app: Path, text: str) -> None:
    code = next((app / "model/tiny/codegen").rglob("*_lib1.c"))
    code.write_text(code.read_text() + text)


@pytest.mark.toolchain
def test_an_undeclared_function(app: Path):
    append(app, "\nfloat extra(float x) { return nosuchf(x); }\n")
    with pytest.raises(ToolError, match=r"implicit declaration of function .nosuchf"):
        mlf_sdk.build(app)


@pytest.mark.toolchain
def test_what_generated_code_is_like_is_not_shown(app: Path):
    append(app, "\nint *extra(char *x) { int unused; return x; }\nchar *more(void) { return 7; }\n")
    assert "warning" not in mlf_sdk.build(app).log
