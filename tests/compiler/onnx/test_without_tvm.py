# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel where TVM can't be used: one error that names them all, and the extra."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import Generation, Kernels
from mlf_sdk.compiler.relax import package
from mlf_sdk.errors import InputError
from onnx_models import OnnxMaker

AUTO = Generation(kernels=Kernels.AUTO)


def gaps(path: Path) -> Path:
    """A model with two operators that no own kernel computes, one behind the other."""
    m = OnnxMaker()
    x = m.add("LpPool", m.add("Relu", m.input(1, 4, 6, 6)), kernel_shape=[2, 2])
    return m.save(path, m.add("GridSample", x, m.weights(1, 3, 3, 2)))


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "tvm_version", lambda: "")


@pytest.mark.usefixtures("absent")
def test_all_operators_and_the_extra_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = gaps(tmp_path / "m.onnx")
    called = Caller(capsys)("compile", path, "-o", tmp_path / "m.tar")
    assert called.code == 2 and not (tmp_path / "m.tar").exists()
    for part in (
        "2 faults",
        "node 1 LpPool ('/LpPool_2')",
        "node 2 GridSample",
        "pip install 'mlf-sdk[tvm]'",
    ):
        assert part in called.err
    with pytest.raises(InputError) as caught:
        load_onnx(path, generation=Generation(kernels=Kernels.OWN))
    assert "LpPool" in str(caught.value) and "tvm" not in str(caught.value)


def test_only_versions_that_were_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "tvm_version", lambda: "0.12.0")
    with pytest.raises(InputError, match=r"TVM 0\.12\.0 is installed; 0\.27\.0 was tried"):
        load_onnx(gaps(tmp_path / "m.onnx"), generation=AUTO)
    with pytest.raises(InputError, match=r"TVM 0\.12\.0 is installed"):
        mlf_sdk.export_tvm(object(), None, tmp_path / "m.tar")


@pytest.mark.usefixtures("absent")
def test_own_kernels_need_no_tvm(tmp_path: Path) -> None:
    m = OnnxMaker()
    path = m.save(tmp_path / "m.onnx", m.add("Relu", m.add("Gemm", m.input(1, 4), m.weights(4, 3))))
    made = mlf_sdk.compile(path, tmp_path / "m.tar")
    assert all(step.layer is None or not step.layer.origin for step in made.model.steps)
    with pytest.raises(InputError, match="TVM is not installed"):
        mlf_sdk.compile(path, tmp_path / "n.tar", kernels="tvm")
    with pytest.raises(InputError, match="TVM is not installed"):
        mlf_sdk.export_tvm(object(), {"w": np.zeros(1, np.float32)}, tmp_path / "n.tar")
