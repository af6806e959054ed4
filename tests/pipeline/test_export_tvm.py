# SPDX-License-Identifier: Apache-2.0
"""Archives of Relax modules: deployed like any others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.compiler.relax.package import tvm_fault
from mlf_sdk.errors import InputError

if tvm_fault():
    pytest.skip(tvm_fault(), allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("default")  # TVM's own


def module_of(shape: Any = (1, 12)) -> Any:
    """y = softmax(relu(x @ w + b)), and the sum before it."""
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    w = relax.Var("w", relax.TensorType((12, 10), "float32"))
    b = relax.Var("b", relax.TensorType((10,), "float32"))
    with builder.function("main", [x, w, b]):
        with builder.dataflow():
            summed = builder.emit(relax.op.add(relax.op.matmul(x, w), b))
            found = builder.emit_output(relax.op.nn.softmax(relax.op.nn.relu(summed)))
            kept = builder.emit_output(summed)
        builder.emit_func_output(relax.Tuple([found, kept]))
    return builder.get()


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {"w": random.standard_normal((12, 10)).astype(np.float32), "b": random.random(10, np.float32)}


@pytest.mark.qemu
def test_a_module_runs_on_a_board(tmp_path: Path) -> None:
    params, path = weights(), tmp_path / "dense.tar"
    model = mlf_sdk.export_tvm(module_of(), params, path, core="cortex-m4", name="dense")
    assert [model.tensors[i].name for i in model.inputs] == ["x"]
    assert all(step.layer is not None and step.layer.origin == "TVM 0.27.0" for step in model.steps)
    x = np.random.default_rng(3).standard_normal((1, 12)).astype(np.float32)
    total = x @ params["w"] + params["b"]
    powers = np.exp(np.maximum(total, 0))
    np.savez(tmp_path / "in.npz", x=x)
    np.savez(tmp_path / "out.npz", output0=powers / powers.sum(), output1=total)
    report = mlf_sdk.run(
        path, board="mps2-an386", inputs=tmp_path / "in.npz", expect=tmp_path / "out.npz",
        atol=1e-5, build_dir=tmp_path / "build",
    )  # fmt: skip
    assert report.ok, report


def test_what_can_not_be_exported(tmp_path: Path) -> None:
    import tvm
    from tvm import relax, tirx

    def refused(module: Any, params: Any = None, **options: Any) -> str:
        with pytest.raises(InputError) as caught:
            mlf_sdk.export_tvm(module, params, tmp_path / "m.tar", **options)
        assert not (tmp_path / "m.tar").exists() and caught.value.exit_code == 2
        return str(caught.value)

    assert "not an IRModule" in refused(object())
    assert "not an IRModule with a function 'main'" in refused(tvm.IRModule({}))
    assert "main has no parameter 'v'; it has x, w, b" in refused(module_of(), {"v": np.zeros(1, np.float32)})
    assert "cortex-m0" in refused(module_of(), core="6502")
    assert "identifier" in refused(module_of(), name="a b")
    assert "fixed shape" in refused(module_of((tirx.Var("n", "int64"), 12)), weights())
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            found = builder.emit_output(relax.op.sort(x))
        builder.emit_func_output(found)
    assert "of TVM's runtime" in refused(builder.get())
