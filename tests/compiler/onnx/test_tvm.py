# SPDX-License-Identifier: Apache-2.0
"""Kernels that TVM generates: single nodes, whole models and Relax modules against ONNX Runtime and numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from compiled_models import KernelRunner
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import Generation, Kernels
from mlf_sdk.compiler.relax.package import tvm_fault
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.compiled import archive_of
from onnx_models import OnnxMaker, convolutional

if tvm_fault():
    pytest.skip(tvm_fault(), allow_module_level=True)
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytestmark = pytest.mark.filterwarnings("default")  # TVM's own

Array = np.ndarray[Any, np.dtype[Any]]
AUTO, WHOLE = Generation(kernels=Kernels.AUTO), Generation(kernels=Kernels.TVM)
INT = np.int64


def compiled(path: Path, generation: Generation) -> CompiledGraph:
    return compile_graph(load_onnx(path, generation=generation), Choice())


def agree(
    path: Path, generation: Generation, inputs: list[Array] | None = None, tolerance: float = 1e-5
) -> CompiledGraph:
    """Compare the kernels on the host with ONNX Runtime; relative to the largest number."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(7)
    given = inputs or [random.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()]
    wanted = session.run(None, dict(zip([i.name for i in session.get_inputs()], given, strict=True)))
    made = compiled(path, generation)
    runner = KernelRunner(archive_of(made), path.parent, ("-O1", "-Wno-maybe-uninitialized"))
    for got, expected in zip(runner.run(given), wanted, strict=True):
        got = got.reshape(expected.shape)
        finite = expected[np.isfinite(expected)] if expected.dtype.kind == "f" else expected
        most = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * most if tolerance else 0)
    return made


def origins(made: CompiledGraph) -> list[str]:
    return [o.kernel.origin for o in made.operators if o.kernel is not None]


def sampled(m: OnnxMaker) -> str:
    return m.add("GridSample", m.input(1, 2, 5, 5), m.weights(1, 4, 3, 2))


def aligned(m: OnnxMaker) -> str:
    boxes = m.constant(np.array([[0, 0, 3, 3], [1, 1, 4, 2]], np.float32))
    return m.add(
        "RoiAlign",
        m.input(1, 2, 6, 6),
        boxes,
        m.constant(np.array([0, 0], INT)),
        output_height=2,
        output_width=2,
    )


def power_pool(m: OnnxMaker) -> str:
    return m.add("LpPool", m.add("Abs", m.input(1, 3, 8, 8)), kernel_shape=[2, 2], strides=[2, 2], p=2)


NODES: list[Callable[[OnnxMaker], str]] = [
    sampled, aligned, power_pool,
]  # fmt: skip


@pytest.mark.toolchain
@pytest.mark.parametrize("make", NODES, ids=lambda make: make.__name__)
def test_an_operator_without_own_kernels(make: Callable[[OnnxMaker], str], tmp_path: Path) -> None:
    m = OnnxMaker(2)
    made = agree(m.save(tmp_path / "m.onnx", m.add("Tanh", make(m))), AUTO)
    found = origins(made)
    assert "TVM 0.27.0" in found and found[-1] == "", "the Tanh behind it is ours"


def test_what_tvm_lacks_too_is_refused(tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.input(3, 3)
    ends = [m.add("Det", x), m.add("NonZero", x)]
    with pytest.raises(InputError) as caught:
        compiled(m.save(tmp_path / "m.onnx", *ends), AUTO)
    for part in ("/Det_1", "/NonZero_2", "by TVM neither"):
        assert part in str(caught.value)


@pytest.mark.toolchain
@pytest.mark.parametrize("schedule", [False, True])
def test_maxima_of_memory_that_changes(schedule: bool, tmp_path: Path) -> None:
    """TVM's generator takes the operand of a second maximum from the first one where their texts are equal."""
    m = OnnxMaker(4)
    x = m.input(1, 3, 9, 9)
    pooled = m.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    low = m.add("ReduceMin", x, axes=[2], keepdims=0)
    both = m.add("Max", m.add("Min", x, m.constant(np.float32(0.5))), m.constant(np.float32(-0.25)))
    path = m.save(tmp_path / "m.onnx", pooled, low, both, m.add("Clip", both, m.constant(np.float32(-0.1))))
    agree(path, Generation(kernels=Kernels.TVM, schedule=schedule), tolerance=0)


@pytest.mark.toolchain
def test_constants_keep_every_bit(tmp_path: Path) -> None:
    """TVM's generator prints seven digits, and infinities as no compiler reads them."""
    numbers = np.array([1 + 2**-23, 16777215, np.pi, 1e-45, 3.4028235e38, -1e-7, 0.1, 1 / 3], np.float32)
    m = OnnxMaker()
    x = m.input(1, 5)
    ends = [m.add("Mul", x, m.constant(n)) for n in numbers]
    made = agree(m.save(tmp_path / "m.onnx", *ends), WHOLE, [np.ones((1, 5), np.float32)], tolerance=0)
    assert set(origins(made)) == {"TVM 0.27.0"}
    m = OnnxMaker()
    x = m.input(1, 5)
    sign = m.add("Greater", x, m.constant(np.float32(0)))
    limits = [m.constant(np.float32(n)) for n in (np.inf, -np.inf)]
    path = m.save(tmp_path / "i.onnx", m.add("Where", sign, *limits), m.add("Relu", m.add("Sqrt", x)))
    agree(path, WHOLE, [np.array([[-1, 0, 2, -3, 4]], np.float32)], tolerance=0)


@pytest.mark.toolchain
@pytest.mark.parametrize("generation", [WHOLE, Generation(kernels=Kernels.TVM, unroll=False),
                                        Generation(kernels=Kernels.TVM, schedule=False)], ids=["fast", "small", "plain"])  # fmt: skip
def test_a_whole_model(generation: Generation, tmp_path: Path) -> None:
    m = convolutional()
    made = agree(m.save(tmp_path / "m.onnx", m.nodes[-1].output[0]), generation)
    assert set(origins(made)) == {"TVM 0.27.0"}
    assert "restrict" in made.code.foreign and "TVMBackend" not in made.code.foreign


@pytest.mark.qemu
def test_a_mixed_model_on_a_board(tmp_path: Path) -> None:
    m = OnnxMaker(1)
    x = m.input(1, 4, 8, 8)
    y = m.add("Relu", m.add("Conv", x, m.weights(6, 4, 3, 3), m.weights(6)))
    y = m.add("LpPool", y, kernel_shape=[2, 2])
    path = m.save(
        tmp_path / "m.onnx",
        m.add("GridSample", m.add("Conv", y, m.weights(2, 6, 1, 1)), m.weights(1, 3, 2, 2)),
        y,
    )
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {"x": np.random.default_rng(3).standard_normal((1, 4, 8, 8)).astype(np.float32)}
    names = [o.name for o in session.get_outputs()]
    np.savez(tmp_path / "in.npz", **given)
    np.savez(tmp_path / "out.npz", **dict(zip(names, session.run(None, given), strict=True)))
    mlf_sdk.compile(path, tmp_path / "m.tar", board="mps2-an386")
    report = mlf_sdk.run(
        tmp_path / "m.tar", board="mps2-an386", inputs=tmp_path / "in.npz", expect=tmp_path / "out.npz",
        atol=1e-5, build_dir=tmp_path / "build",
    )  # fmt: skip
    assert report.ok, report
