# SPDX-License-Identifier: Apache-2.0
"""Weights, scales and indices that a run computes: reference and kernels of all goals against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mlf_sdk
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.errors import MlfError
from onnx_agreement import LIMITS, agree
from onnx_models import OnnxMaker

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
INT, Array = np.int64, np.ndarray[Any, np.dtype[Any]]
Make = Callable[[OnnxMaker], list[str]]


def convolutions(m: OnnxMaker) -> list[str]:
    x = m.input(2, 4, 7, 6)
    w, bias = m.input(6, 2, 3, 2, name="w"), m.input(6, name="b")
    ways: list[dict[str, Any]] = [{}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"dilations": [2, 1]}]
    found = [m.add("Conv", x, w, bias, group=2, **way) for way in ways]
    found.append(m.add("Relu", m.add("Conv", x, m.weights(4, 1, 3, 3), m.input(4, name="c"), group=4)))
    back = m.add(
        "ConvTranspose", found[0], w, m.input(4, name="d"), group=2, strides=[2, 1], dilations=[1, 2]
    )
    line = m.add("Reshape", x, m.constant(np.array([2, 4, 42], INT)))
    return [*found, back, m.add("Conv", line, m.input(3, 4, 5, name="v"), pads=[2, 0])]


def products(m: OnnxMaker) -> list[str]:
    x = m.input(3, 5)
    w, bias = m.input(5, 4, name="w"), m.input(1, 4, name="b")
    found = [m.add("Gemm", x, w, bias, alpha=0.5, beta=2.0), m.add("MatMul", x, w)]
    return [*found, m.add("Gemm", x, m.weights(4, 5), bias, transB=1)]


def statistics(m: OnnxMaker) -> list[str]:
    x, scale, bias = m.input(2, 6, 4, 3), m.input(6, name="s"), m.input(6, name="b")
    mean, variance = m.input(6, name="m"), m.add("Abs", m.input(6, name="v"))
    found = [m.add("BatchNormalization", x, scale, bias, mean, variance)]
    found.append(m.add("BatchNormalization", m.add("Reshape", x, m.constant(np.array([24, 6], INT))), scale, bias, mean, variance))  # fmt: skip
    found.append(m.add("InstanceNormalization", x, scale, bias))
    return [*found, m.add("GroupNormalization", x, m.input(2, name="p"), m.input(2, name="q"), num_groups=2)]


def rows(m: OnnxMaker) -> list[str]:
    x = m.input(2, 3, 4)
    found = [m.add("LayerNormalization", x, m.input(4, name="s"), m.input(4, name="b"))]
    found.append(m.add("LayerNormalization", x, m.input(3, 4, name="t"), axis=1))
    found.append(m.add("LayerNormalization", x, m.weights(2, 1, 4), m.weights(3, 4)))
    return [*found, m.add("LayerNormalization", x, m.weights(1), m.weights(4))]


def response(m: OnnxMaker) -> list[str]:
    x = m.input(2, 6, 5, 4)
    found = [m.add("LRN", x, size=size, alpha=0.2, beta=0.6, bias=1.5) for size in (1, 3, 5, 15)]
    behind = m.add("Conv", x, m.weights(6, 6, 3, 3))  # channels last
    return [*found, m.add("LRN", behind, size=5)]


def pooled(m: OnnxMaker) -> list[str]:
    x = m.add("Round", m.input(2, 3, 7, 6))  # with equal elements
    ways: list[dict[str, Any]] = [
        {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1]},
        {"kernel_shape": [2, 2], "dilations": [2, 3], "storage_order": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ]
    for way in ways:
        m.add("MaxPool", x, outputs=2, **way)
    return [name for node in m.nodes[1:] for name in node.output]


def swishes(m: OnnxMaker) -> list[str]:
    x = m.input(50)
    return [m.add("QuickGelu", x, alpha=1.3, domain="com.microsoft"), m.add("QuickGelu", x, domain="com.microsoft")]  # fmt: skip


def triangles(m: OnnxMaker) -> list[str]:
    x = m.input(2, 4, 5)
    found = [m.add("Trilu", x, upper=u) for u in (0, 1)]
    found += [m.add("Trilu", x, m.constant(INT(k)), upper=u) for k in (-2, 2) for u in (0, 1)]
    eye = m.add("EyeLike", m.add("Reshape", x, m.constant(np.array([4, 10], INT))), k=1)
    return [*found, m.add("Abs", eye), m.add("Hardmax", x), m.add("Hardmax", m.add("Round", x), axis=0)]


def largest(m: OnnxMaker) -> list[str]:
    x, two = m.add("Round", m.add("Mul", m.input(3, 7, 2), m.constant(np.float32(2)))), np.array([2], INT)
    for axis, least, count in (
        (1, 0, two),
        (-1, 1, two),
        (0, 1, np.array([3], INT)),
        (1, 1, np.array([7], INT)),
    ):
        m.add("TopK", x, m.constant(count), axis=axis, largest=1 - least, outputs=2)
    return [name for node in m.nodes[2:] for name in node.output]


def hot(m: OnnxMaker) -> list[str]:
    places, depth = m.input(2, 4, dtype=TensorProto.INT64), m.constant(INT(3))
    values = m.constant(np.array([-1, 4], np.float32))
    found = [m.add("OneHot", places, depth, values, axis=axis) for axis in (-1, 0, 1)]
    real = m.add(
        "OneHot", m.add("Round", m.input(5, name="r")), depth, m.input(2, name="v", dtype=TensorProto.INT64)
    )
    whole = m.input(3, dtype=TensorProto.INT32, name="i")
    return [*found, real, m.add("OneHot", whole, m.constant(np.int32(3)), values)]


def gathered(m: OnnxMaker) -> list[str]:
    x, found = m.input(4, 3, 5), []

    def constant(*shape: int) -> str:
        return m.constant(m.random.integers(-3, 3, shape).astype(INT))

    def computed(*shape: int) -> str:
        return m.input(*shape, dtype=TensorProto.INT64, name=f"p{len(m.inputs)}")

    for places in (constant, computed):
        found += [m.add("GatherND", x, places(2, 3, n)) for n in (1, 2, 3)]
        found.append(m.add("GatherND", x, places(4, 2, 1), batch_dims=1))
        found += [
            m.add("GatherElements", x, places(*s), axis=a) for a, s in ((0, (7, 3, 5)), (-1, (4, 2, 9)))
        ]
    return found


def scattered(m: OnnxMaker) -> list[str]:
    x, whole, found = m.input(4, 3, 5), m.input(4, 3, 5, name="whole", dtype=TensorProto.INT32), []
    once = {"none": [[0, 1], [2, -1], [-1, 0]], "other": [[0, 1], [0, 1], [-1, 0]]}
    for reduction in ("none", "add", "mul", "max", "min"):
        at = np.array(once["none" if reduction == "none" else "other"], INT)
        more = {} if reduction == "none" else {"reduction": reduction}
        found.append(m.add("ScatterND", x, m.constant(at), m.input(3, 5, name=f"u{reduction}"), **more))
        found.append(m.add("ScatterElements", x, m.constant(at[None]), m.weights(1, 3, 2), axis=1, **more))
    new = m.input(2, 3, 5, name="n", dtype=TensorProto.INT32)
    found.append(m.add("ScatterND", whole, m.constant(np.array([[1], [3]], INT)), new))
    places = m.input(2, 3, dtype=TensorProto.INT64, name="places")
    found.append(m.add("ScatterND", x, places, m.weights(2), reduction="add"))
    places = m.input(2, 3, 1, dtype=TensorProto.INT64, name="others")
    return [*found, m.add("ScatterElements", x, places, m.weights(2, 3, 1), axis=-1, reduction="add")]


def scales(m: OnnxMaker) -> list[str]:
    x, scale = m.input(2, 5, 3), m.add("Add", m.add("Abs", m.input(name="s")), m.constant(np.float32(0.01)))
    each = m.constant(np.array([0.02, 0.05, 0.01, 0.03, 0.04], np.float32))
    found = []
    for kind in (np.int8, np.uint8, np.int16, np.uint16):
        found.append(m.add("QuantizeLinear", x, scale, m.constant(kind(7))))
        found.append(m.add("QuantizeLinear", x, each, m.constant(np.arange(5, dtype=kind)), axis=1))
        found.append(m.add("DequantizeLinear", found[-2], scale, m.constant(kind(3))))
        found.append(m.add("DequantizeLinear", found[-2], each, axis=-2))
    whole = m.input(4, dtype=TensorProto.INT32, name="w")
    found.append(m.add("DequantizeLinear", whole, m.constant(np.float32(0.3))))
    plain = m.add("QuantizeLinear", x, scale)
    return [*found, plain, m.add("Conv", m.add("DequantizeLinear", plain, scale), m.weights(2, 5, 1))]


def blocks(m: OnnxMaker) -> list[str]:
    """Weights of four bits in blocks, and of 16 bits."""
    data = m.random.integers(-8, 8, (8, 6))
    weights = helper.make_tensor("w4", TensorProto.INT4, (8, 6), data.astype(np.int8).reshape(-1))
    m.constants.append(weights)
    scale = m.constant(np.abs(m.random.standard_normal((2, 6))).astype(np.float32))
    zero = helper.make_tensor("z4", TensorProto.INT4, (2, 6), m.random.integers(-2, 3, 12))
    m.constants.append(zero)
    wide = m.constant(m.random.integers(-3000, 3000, (8, 6)).astype(np.int16))
    real = [m.add("DequantizeLinear", "w4", scale, "z4", block_size=4, axis=0)]
    real.append(m.add("DequantizeLinear", wide, m.constant(np.float32(0.001))))
    x = m.input(3, 8)
    return [m.add("MatMul", x, r) for r in real]


def sums(m: OnnxMaker) -> list[str]:
    x, y, z = m.input(2, 3, 4), m.input(2, 4, 5, name="y"), m.input(5, 3, name="z")
    w = m.weights(4, 6, 2)
    found = [m.add("Einsum", x, y, equation=e) for e in ("bij,bjk->bik", "bij, bkl -> ikjl", "bij,bjk")]
    found += [m.add("Einsum", x, w, equation=e) for e in ("bij,jhd->bhid", "...j,jhd->d...h", "bij,jhd->bi")]
    found += [m.add("Einsum", x, equation=e) for e in ("bij->jib", "bij->i", "bij->", "...i->...")]
    return [
        *found,
        m.add("Einsum", x, y, z, equation="bij,bjk,ki->bk"),
        m.add("Einsum", z, z, equation="ij,ij->ij"),
    ]


def bits(m: OnnxMaker) -> list[str]:
    found = []
    for kind, dtype in ((TensorProto.UINT8, np.uint8), (TensorProto.UINT32, np.uint32)):
        x, by = (
            m.input(7, dtype=kind, name=dtype.__name__),
            m.constant(np.array([0, 1, 3, 5, 7, 2, 4], dtype)),
        )
        found += [m.add("BitShift", x, by, direction=way) for way in ("LEFT", "RIGHT")]
    real = m.input(3, name="r")
    ends = m.add("Concat", real, m.constant(np.array([np.inf, -np.inf, np.nan], np.float32)), axis=0)
    found += [
        m.add("IsInf", ends),
        m.add("IsInf", ends, detect_negative=0),
        m.add("IsInf", ends, detect_positive=0),
    ]
    rows = m.add("Mul", m.input(2, 3, 4, name="n"), m.constant(np.array([[[1], [0], [1]]], np.float32)))
    return [*found, *(m.add("LpNormalization", rows, axis=a, p=p) for a in (1, -1) for p in (1, 2))]


CASES: dict[str, tuple[Make, int]] = {
    f.__name__: (f, opset)
    for f, opset in (
        (convolutions, 17), (products, 17), (statistics, 18), (rows, 17), (response, 17), (pooled, 17),
        (swishes, 17), (triangles, 17), (largest, 17), (hot, 17), (gathered, 17), (scattered, 18),
        (scales, 21), (sums, 17), (bits, 17), (blocks, 21),
    )
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators(name: str, tmp_path: Path) -> None:
    make, opset = CASES[name]
    m = OnnxMaker(4, opset)
    agree(m.save(tmp_path / "m.onnx", *make(m)))


def integers(m: OnnxMaker, x_type: int, zero: bool) -> list[str]:
    """Products and convolutions of bytes: weights that are constant or not, zero points of any kind."""
    unsigned = x_type == TensorProto.UINT8
    kind = np.uint8 if unsigned else np.int8
    x, a = m.input(2, 4, 5, 6, dtype=x_type), m.input(2, 3, 7, dtype=x_type, name="a")
    points: list[str] = [m.constant(kind(7))] if zero else []
    found = []
    for w_kind in (np.uint8, np.int8):
        low, high = LIMITS[w_kind]
        weights = m.constant(m.random.integers(low, high, (6, 2, 3, 3)).astype(w_kind))
        more = [*points, m.constant(w_kind(100))] if zero else []
        pads = {"pads": [1, 1, 0, 2], "strides": [1, 2]}
        found.append(m.add("ConvInteger", x, weights, *more, group=2, **pads))
        matrix = m.constant(m.random.integers(low, high, (7, 5)).astype(w_kind))
        each = m.constant(m.random.integers(low, high, 5).astype(w_kind))
        found.append(m.add("MatMulInteger", a, matrix, *([*points, each] if zero else [])))
    b = m.input(7, 4, dtype=TensorProto.INT8, name="b")
    found.append(m.add("MatMulInteger", a, b, *([*points, m.input(dtype=TensorProto.INT8, name="z")] if zero else [])))  # fmt: skip
    return found


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("x_type", [TensorProto.UINT8, TensorProto.INT8])
def test_products_of_integers(x_type: int, zero: bool, tmp_path: Path) -> None:
    """Bit for bit; ONNX Runtime has no ConvInteger of signed activations."""
    m = OnnxMaker(4)
    ends = integers(m, x_type, zero)
    agree(m.save(tmp_path / "m.onnx", *(e for e in ends if x_type == TensorProto.UINT8 or "matmul" in e)))


def dynamic(m: OnnxMaker) -> str:
    """A layer as ONNX Runtime's dynamic quantiser writes it, behind a convolution of its kind."""

    def quantised(x: str, kind: str, weights: Array, scale: str, **more: Any) -> str:
        y = m.add("DynamicQuantizeLinear", x, outputs=3)
        sums = m.add(kind, y, m.constant(weights), f"{y}_2", m.constant(np.int8(0)), **more)
        return m.add("Mul", m.add("Cast", sums, to=TensorProto.FLOAT), m.add("Mul", f"{y}_1", scale))

    x = m.input(1, 3, 8, 8)
    scale = m.constant(np.float32(0.01))
    weights = m.random.integers(-64, 64, (4, 3, 3, 3)).astype(np.int8)
    y = m.add("Relu", quantised(x, "ConvInteger", weights, scale, pads=[1, 1, 1, 1]))
    y = m.add("Flatten", m.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]))
    matrix = m.random.integers(-64, 64, (64, 10)).astype(np.int8)
    return m.add("Add", quantised(y, "MatMulInteger", matrix, scale), m.weights(10))


def test_dynamic_quantisation(tmp_path: Path) -> None:
    m = OnnxMaker(6)
    path = m.save(tmp_path / "m.onnx", dynamic(m))
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    agree(path, [x], [30 * x], [np.abs(x)], [-np.abs(x)], [np.zeros_like(x)])


def test_on_a_board(tmp_path: Path) -> None:
    """Every operator of this page on an emulated Cortex-M4F, as ONNX Runtime computes it."""
    m = OnnxMaker(6)
    y = m.add("Reshape", dynamic(m), m.constant(np.array([1, 5, 2, 1], INT)))
    y = m.add("LRN", y, size=3)
    top = m.add("TopK", m.add("Flatten", y), m.constant(np.array([3], INT)), outputs=2)
    hot = m.add("OneHot", f"{top}_1", m.constant(INT(10)), m.constant(np.array([0, 1], np.float32)))
    places = m.add("GatherElements", m.add("Flatten", y), f"{top}_1", axis=1)
    put = m.add("ScatterElements", m.add("Flatten", y), f"{top}_1", places, axis=1, reduction="add")
    m.add(
        "MaxPool",
        m.add("Reshape", put, m.constant(np.array([1, 1, 2, 5], INT))),
        outputs=2,
        kernel_shape=[2, 2],
    )
    ends = [hot, put, *m.nodes[-1].output]
    path = m.save(tmp_path / "m.onnx", *ends)
    x = np.random.default_rng(3).standard_normal((1, 3, 8, 8)).astype(np.float32)
    wanted = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.savez(tmp_path / "in.npz", x=x)
    np.savez(tmp_path / "out.npz", **dict(zip(ends, wanted, strict=True)))
    found = mlf_sdk.run(path, board="mps2-an386", inputs=tmp_path / "in.npz", expect=tmp_path / "out.npz")
    assert found.ok


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes"),
    [
        ("Conv", [(4, 3, 1, 1), (3,)], {}),
        ("Conv", [(4, 3, 1, 1), (1,)], {}),
        ("ConvTranspose", [(3, 2, 1, 1), (3,)], {}),
        ("BatchNormalization", [(2,)] * 4, {}),
        ("BatchNormalization", [(1,)] * 4, {}),
        ("InstanceNormalization", [(1,), (1,)], {}),
        ("LayerNormalization", [(3,)], {}),
        ("LRN", [], {}),
        ("Clip", [(2,)], {}),
    ],
)
def test_parameters_that_do_not_fit(
    kind: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], tmp_path: Path
) -> None:
    """What ONNX Runtime refuses, whether they are constant or computed."""
    for constant in (True, False):
        m = OnnxMaker()
        x = m.input(1, 3, 4, 4)
        more = [m.weights(*s) if constant else m.input(*s, name=f"p{i}") for i, s in enumerate(shapes)]
        path = m.save(tmp_path / "m.onnx", m.add(kind, x, *more, **attributes))
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            session.run(None, {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()})
        with pytest.raises(MlfError):
            load_onnx(path)


@pytest.mark.parametrize(("axis", "columns"), [(0, 2), (-1, 70), (1, 70)])
def test_elements_of_constants_are_gathered(tmp_path: Path, axis: int, columns: int) -> None:
    """More than the 64 that ONNX's own reference chooses from; of the other axes, the first ones."""
    random = np.random.default_rng(6)
    rows = random.standard_normal((90, 3) if axis == 0 else (3, 90)).astype(np.float32)
    indices = random.integers(-90, 90, (70, columns) if axis == 0 else (2, columns))
    m = OnnxMaker()
    taken = m.add("GatherElements", m.constant(rows), m.constant(indices), axis=axis)
    x = m.input(*indices.shape)
    agree(m.save(tmp_path / "model.onnx", m.add("Add", x, taken)))
