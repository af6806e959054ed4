# SPDX-License-Identifier: Apache-2.0
"""The script of the how-to about scikit-learn trains and exports what the page goes on with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mlf_sdk
from doc_blocks import blocks, commands

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto-sklearn.md").read_text()


@pytest.mark.toolchain
def test_the_script_of_the_page(tmp_path: Path) -> None:
    for package in ("sklearn", "skl2onnx", "onnxruntime"):
        pytest.importorskip(
            package, reason=f"{package} is not installed: the page is run with its example files"
        )
    found = blocks(PAGE)
    script = next(block for block in found if block.directives.get("file") == "train.py")
    (tmp_path / "train.py").write_text(script.text)
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    said = [command for block in found for command in commands(block) if command.text == "python train.py"]
    assert tuple(done.stdout.splitlines()) == said[0].expected[:2]
    copied = {Path(block.directives["copy"]).name for block in found if "copy" in block.directives}
    assert copied == {path.name for path in tmp_path.iterdir()} - {"train.py"}
    for name in ("forest", "logistic"):
        cases = tmp_path / f"{name}.npz"
        report = mlf_sdk.run(tmp_path / f"{name}.onnx", board="host", inputs=cases, expect=cases)
        assert report.ok
        assert report.accuracy == 1.0
