# SPDX-License-Identifier: Apache-2.0
"""ONNX models: reference, kernels on the host and an emulated board give what ONNX Runtime does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from compiled_models import KernelRunner, PlannedRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.operators import Move
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.frontends.mlf.compiled import archive_of
from onnx_models import OnnxMaker, convolutional

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def runtime(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs))


def inputs_of(graph: Graph, seed: int = 5) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    values = [graph.values[i] for i in graph.inputs]
    return {v.name: random.standard_normal(v.shape).astype(v.dtype) for v in values}


def agree(path: Path, tolerance: float = 2e-6) -> Graph:
    """Compare ONNX Runtime, the numpy reference, the kernels and those in their arena; by the largest number."""
    graph = load_onnx(path)
    given = inputs_of(graph)
    wanted = runtime(path, given)
    compiled = compile_graph(graph, Choice())
    files = archive_of(compiled)
    runner = KernelRunner(files, path.parent, ("-O1",))
    planned = PlannedRunner(runner, files, path.parent).run(list(given.values()))
    by_kernels = runner.run(list(given.values()))
    assert [found.tobytes() for found in by_kernels] == planned
    for found in (Interpreter(graph).run(given), by_kernels):
        for got, expected in zip(found, wanted, strict=True):
            most = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=0, atol=tolerance * most)
    return compiled.graph


def test_convolutions(tmp_path: Path) -> None:
    m = convolutional()
    graph = agree(m.save(tmp_path / "m.onnx", m.nodes[-1].output[0]))
    kinds = [o.kind for o in graph.operators]
    assert "BatchNormalization" not in kinds and "Relu" not in kinds and "Clip" not in kinds
    # The order of axes changes once, at the input: the layer behind the flattening has its weights in order.
    assert [o.kind for o in graph.operators if isinstance(o, Move)].count("Transpose") == 1


def test_product_of_two_vectors(tmp_path: Path) -> None:
    """Its result has no axes."""
    m = OnnxMaker()
    agree(m.save(tmp_path / "m.onnx", m.add("MatMul", m.input(3, name="a"), m.input(3, name="b"))))


def test_second_outputs_that_nothing_reads(tmp_path: Path) -> None:
    """Models of older exporters name the mask of each Dropout."""
    m = OnnxMaker()
    x = m.add("Exp", m.input(2, 5))
    x = m.add("Dropout", x, outputs=2)
    x = m.add("Reshape", x, m.constant(np.array([1, 2, 5, 1])))
    x = m.add("MaxPool", x, outputs=2, kernel_shape=[2, 1])
    agree(m.save(tmp_path / "m.onnx", m.add("Abs", x)))


def test_parts_that_are_gathered(tmp_path: Path) -> None:
    """Neighbours are read where they lie, without a copy; what lies apart is copied."""
    m = OnnxMaker(9)
    x = m.add("Exp", m.input(4, 3, 5))
    parts = [m.add("Gather", x, m.constant(np.int64(i)), axis=0) for i in range(4)]
    pair = m.add("Gather", x, m.constant(np.array([1, 2])), axis=0)
    apart = m.add("Gather", x, m.constant(np.array([3, 0, 2])), axis=0)
    every = m.add("Gather", x, m.constant(np.array([0, 2])), axis=2)
    outputs = [m.add("Abs", one) for one in (*parts, pair, apart, every)]
    agree(m.save(tmp_path / "m.onnx", *outputs))


def test_only_windows_over_the_border_are_copied(tmp_path: Path) -> None:
    """A workspace that is never written would make the measured arena smaller than the planned one."""
    m = OnnxMaker(8)
    x = m.input(1, 3, 9, 10)
    whole = {"strides": [2, 2]}  # the last window ends in column 8 of 10, in row 8 of 9
    ways = [({}, 0), (whole, 0), ({"pads": [0, 0, 1, 0]}, 1), ({"pads": [1, 0, 0, 0]}, 1), ({"pads": [0, 1, 0, 0]}, 1),
            ({"pads": [0, 0, 0, 1]}, 1), ({**whole, "pads": [0, 0, 0, 1]}, 1), ({"dilations": [4, 4]}, 1), ({"dilations": [4, 1]}, 0),
            ({**whole, "pads": [0, 0, 2, 0]}, 1)]  # fmt: skip
    ends = [m.add("Conv", x, m.weights(5, 3, 3, 3), m.weights(5), **way) for way, _ in ways]
    path = m.save(tmp_path / "m.onnx", *ends)
    agree(path)
    operators = compile_graph(load_onnx(path), Choice()).operators
    kernels = [o.kernel for o in operators if o.kernel is not None and o.operator.kind == "Conv"]
    assert [kernel.workspace_bytes for kernel in kernels] == [2 * 4 * 27 * copied for _, copied in ways]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer(kind: str, direction: str, tmp_path: Path) -> None:
    m = OnnxMaker(3)
    gates, hidden, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 5, 2 if direction == "bidirectional" else 1
    x = m.input(7, 2, 3)
    weights = [m.weights(count, gates * hidden, n) for n in (3, hidden)]
    more = {"linear_before_reset": 1} if kind == "GRU" and direction != "forward" else {}
    ends = 3 if kind == "LSTM" else 2
    m.add(
        kind,
        x,
        *weights,
        m.weights(count, 2 * gates * hidden),
        outputs=ends,
        hidden_size=hidden,
        direction=direction,
        **more,
    )
    agree(m.save(tmp_path / "m.onnx", *m.nodes[-1].output))


def transformer(m: OnnxMaker, x: str, width: int, heads: int) -> str:
    def dense(a: str, rows: int, columns: int) -> str:
        return m.add("Add", m.add("MatMul", a, m.weights(rows, columns, scale=0.2)), m.weights(columns))

    def split(a: str, order: list[int]) -> str:
        parts = m.add("Reshape", a, m.constant(np.array([0, 0, heads, width // heads], np.int64)))
        return m.add("Transpose", parts, perm=order)

    y = m.add("LayerNormalization", x, m.weights(width), m.weights(width))
    q, v = (split(dense(y, width, width), [0, 2, 1, 3]) for _ in range(2))
    k = split(dense(y, width, width), [0, 2, 3, 1])
    scores = m.add("Softmax", m.add("Div", m.add("MatMul", q, k), m.constant(np.float32(2))))
    y = m.add("Transpose", m.add("MatMul", scores, v), perm=[0, 2, 1, 3])
    y = m.add("Reshape", y, m.constant(np.array([0, 0, width], np.int64)))
    x = m.add("Add", x, dense(y, width, width))
    y = m.add("LayerNormalization", x, m.weights(width), m.weights(width))
    y = dense(y, width, 3 * width)
    y = m.add("Mul", m.add("Mul", y, m.constant(np.float32(0.5))), m.add("Add", m.add("Erf", m.add("Div", y, m.constant(np.float32(2**0.5)))), m.constant(np.float32(1))))  # fmt: skip
    return m.add("Add", x, dense(y, 3 * width, width))


def test_a_transformer(tmp_path: Path) -> None:
    m = OnnxMaker(4)
    y = transformer(m, m.input(1, 6, 16), 16, 2)
    y = m.add("ReduceMean", y, axes=[1], keepdims=0)
    agree(m.save(tmp_path / "m.onnx", y))


FUNCTIONS = (
    *(
        "Erf",
        "Exp",
        "Log",
        "Sigmoid",
        "Tanh",
        "Softplus",
        "Elu",
        "Selu",
        "HardSwish",
        "Gelu",
        "Mish",
        "Round",
    ),
)


def test_functions_are_as_exact_as_single_precision(tmp_path: Path) -> None:
    m = OnnxMaker(opset=20)
    x = m.input(2000)
    outputs = [m.add(function, m.add("Abs", x) if function == "Log" else x) for function in FUNCTIONS]
    graph = load_onnx(m.save(tmp_path / "m.onnx", *outputs))
    runner = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path, ("-O1",))
    for span in (1e-3, 1.0, 12.0, 80.0):
        given = np.linspace(-span, span, 2000, dtype=np.float32)
        for got, wanted in zip(runner.run([given]), Interpreter(graph).run([given]), strict=True):
            np.testing.assert_allclose(got.reshape(-1), wanted, rtol=1e-6, atol=1e-7 * min(span, 1.0))


@pytest.mark.parametrize("board", ["mps2-an386", "mps2-an385"])
def test_a_model_runs_on_a_board(board: str, tmp_path: Path) -> None:
    """The Cortex-M4F by its own instructions, the Cortex-M3 without an FPU by the plain ones."""
    m = convolutional(2)
    path = m.save(tmp_path / "small.onnx", m.nodes[-1].output[0])
    given = inputs_of(load_onnx(path))
    np.savez(tmp_path / "in.npz", **given)
    np.savez(tmp_path / "out.npz", **{m.nodes[-1].output[0]: runtime(path, given)[0]})
    found = mlf_sdk.run(path, board=board, inputs=tmp_path / "in.npz", expect=tmp_path / "out.npz")
    assert found.ok


def test_compile_with_a_shape(tmp_path: Path) -> None:
    m = OnnxMaker()
    y = m.add("Relu", m.input("batch", 3, "height", "width"))
    path = m.save(tmp_path / "open.onnx", y)
    found = mlf_sdk.compile(path, tmp_path / "open.tar", shape=("x=1,3,4,5",))
    assert found.model.tensors[found.model.inputs[0]].shape == (1, 3, 4, 5)
    with pytest.raises(mlf_sdk.MlfError, match=r"--shape x=N,3,N,N"):
        mlf_sdk.compile(path, tmp_path / "open.tar")
