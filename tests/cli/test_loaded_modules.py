# SPDX-License-Identifier: Apache-2.0
"""Modules that one walk of a .tflite model loads: no other format, no reader of C, no more than a bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tflite_models import small_network

# Modules of mlf_sdk that a command loads, and how many of them it may.
WALK = """
import sys
from mlf_sdk.cli.main import main
code = main(sys.argv[1:])
found = sorted(name for name in sys.modules if name.startswith("mlf_sdk"))
print("LOADED", *found, file=sys.stderr)
sys.exit(code)
"""
FORMATS = ("mlf_sdk.frontends.exported", "mlf_sdk.frontends.glow", "mlf_sdk.frontends.onnx")
READER = "mlf_sdk.frontends.mlf.archive"
SCANNER = "mlf_sdk.analysis.c.source"


def loaded(*arguments: str | Path) -> set[str]:
    command = [sys.executable, "-c", WALK, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("LOADED ")[2].split())


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    return path


def check(found: set[str], most: int) -> None:
    others = [name for name in found if name.startswith((*FORMATS, "mlf_sdk.compiler.onnx"))]
    assert not others and not found & {READER, SCANNER}
    many = f"{len(found)} modules, more than {most}: import one that few models need where it is used, or raise the bound"
    assert len(found) <= most, (many, sorted(found))


def test_a_model_is_generated(network: Path, tmp_path: Path) -> None:
    made = ("generate", network, "--board", "mps2-an386")
    check(loaded(*made, "-o", tmp_path / "a"), 310)
    again = loaded(*made, "-o", tmp_path / "b")
    check(again, 150)
    assert not any(name.startswith(("mlf_sdk.compiler.kernels", "mlf_sdk.compiler.tflite")) for name in again)


def test_a_model_is_run(network: Path, needs_cc: str) -> None:
    check(loaded("run", network, "--board", "host"), 201)
    check(loaded("run", network, "--board", "host"), 154)
