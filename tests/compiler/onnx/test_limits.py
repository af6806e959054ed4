# SPDX-License-Identifier: Apache-2.0
"""Numbers at the limits of their types, limits of numbers, and tensors without elements: as ONNX Runtime has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.errors import MlfError
from onnx_answers import agree, computed, reals
from onnx_models import OnnxMaker

BEYOND = (1 << 53) + 1  # no double
WHOLE = np.iinfo(np.int64)


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("limits", [(2.0, -1.0), (-1.0, 1.0)])
def test_limits_in_any_order(limits: tuple[float, float], computed: bool, tmp_path: Path) -> None:
    """Clip is the lower limit first, then the upper one: all is the upper one where it is below the lower one."""
    x = reals(3, 4)
    x[0, 0] = np.nan
    m = OnnxMaker(4)
    values = [np.float32(limit) for limit in limits]
    inputs = (m.input(name="a"), m.input(name="b")) if computed else [m.constant(v) for v in values]
    m.add("Clip", m.input(3, 4), *inputs)
    agree(m, tmp_path, *(np.asarray(v) for v in values if computed), x)


def test_limits_of_whole_numbers_in_any_order(tmp_path: Path) -> None:
    m = OnnxMaker(5)
    m.add("Clip", m.input(8, dtype=TensorProto.INT32), *(m.constant(np.int32(v)) for v in (3, -2)))
    agree(m, tmp_path, np.arange(-4, 4, dtype=np.int32))


def test_limits_that_no_double_holds(tmp_path: Path) -> None:
    m = OnnxMaker()
    m.add(
        "Clip",
        m.input(5, dtype=TensorProto.INT64),
        m.constant(np.int64(-BEYOND)),
        m.constant(np.int64(BEYOND)),
    )
    agree(m, tmp_path, np.array([WHOLE.min, -BEYOND, 7, BEYOND + 1, WHOLE.max]))


@pytest.mark.parametrize("value", [BEYOND, WHOLE.min, WHOLE.max, -(1 << 31), 1 << 31, (1 << 64) - 1])
def test_padding_with_large_numbers(value: int, tmp_path: Path) -> None:
    dtype = np.dtype(np.uint64 if value > WHOLE.max else np.int64)
    m = OnnxMaker()
    x = m.input(3, dtype=helper.np_dtype_to_tensor_dtype(dtype))
    m.add("Pad", x, m.constant(np.array([1, 2])), m.constant(np.array(value, dtype)))
    agree(m, tmp_path, np.array([1, 2, 3], dtype))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_functions_of_numbers_without_a_sign(dtype: str, tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.input(4, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    m.add("Add", m.add("Abs", x), m.add("Sign", x))
    agree(m, tmp_path, np.array([0, 1, 7, np.iinfo(dtype).max - 1], dtype))


@pytest.mark.parametrize("kind", ["Div", "TopK"])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_numbers_at_the_ends_of_64_bits(kind: str, dtype: str, tmp_path: Path) -> None:
    """ONNX Runtime's TopK has no uint64: there the kernels and the reference are compared with numpy's order."""
    ends = np.iinfo(dtype)
    given = np.array([ends.min, 5, ends.max, ends.max // 2], dtype)
    m = OnnxMaker()
    x = m.input(4, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    if kind == "Div":
        m.add(kind, x, m.constant(np.array([3, 3, 5, 7], dtype)))
        agree(m, tmp_path, given)
        return
    path = m.save(tmp_path / "m.onnx", m.add(kind, x, m.constant(np.array([4])), outputs=2))
    for one in computed(path, given):
        np.testing.assert_array_equal(one, np.sort(given)[::-1])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("kind", ["Sum", "Max", "Min", "Mean", "L1", "Prod", "SumSquare"])
def test_reductions_of_large_numbers(kind: str, dtype: str, tmp_path: Path) -> None:
    """The sum of a mean needs more than 32 bits. ONNX Runtime goes by way of real numbers, so integers say it."""
    x = np.array([[1 << 30, (1 << 30) + 6], [3, 5]], dtype) >> np.array(0 if kind == "Mean" else 16, dtype)
    m = OnnxMaker(opset=13)
    given = m.input(2, 2, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    path = m.save(tmp_path / "m.onnx", m.add(f"Reduce{kind}", given, axes=[1], keepdims=0))
    wide = x.astype(object)
    expected = {
        "Sum": wide.sum(axis=1), "Max": wide.max(axis=1), "Min": wide.min(axis=1), "L1": wide.sum(axis=1),
        "Mean": wide.sum(axis=1) // 2, "Prod": wide.prod(axis=1), "SumSquare": (wide**2).sum(axis=1),
    }  # fmt: skip
    for one in computed(path, x):
        np.testing.assert_array_equal(one, np.array([int(v) for v in expected[kind]], dtype))


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Einsum"])
def test_products_of_bytes(kind: str, tmp_path: Path) -> None:
    m = OnnxMaker()
    fields = {"equation": "ij,jk->ik"} if kind == "Einsum" else {}
    y = m.add(kind, m.input(2, 3, dtype=TensorProto.INT8), m.constant(np.ones((3, 2), np.int8)), **fields)
    with pytest.raises(MlfError, match="a product of int8 and int8"):
        load_onnx(m.save(tmp_path / "m.onnx", y))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_padding_with_what_is_not_finite(value: float, tmp_path: Path) -> None:
    m = OnnxMaker()
    m.add("Pad", m.input(3), m.constant(np.array([1, 2])), m.constant(np.float32(value)))
    agree(m, tmp_path, reals(3))


@pytest.mark.parametrize(
    "row", [(1000, 999), (-1000, -1001), (-np.inf, -np.inf), (np.inf, 1), (np.nan, 1), (-np.inf, 2)]
)
def test_logarithm_of_sums_that_overflow(row: tuple[float, float], tmp_path: Path) -> None:
    m = OnnxMaker()
    m.add("ReduceLogSumExp", m.input(2, 2), axes=[1], keepdims=0)
    agree(m, tmp_path, np.array([row, (1, 2)], np.float32))


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (2.0, -3.0)])
@pytest.mark.parametrize("computed", [False, True])
def test_gemm_of_whole_numbers(computed: bool, alpha: float, beta: float, tmp_path: Path) -> None:
    """ONNX Runtime has none: the numbers follow from the definition."""
    a, b, c = (np.random.default_rng(5).integers(-99, 99, s, np.int32) for s in ((2, 3), (4, 3), (4,)))
    m = OnnxMaker()
    x = m.input(2, 3, dtype=TensorProto.INT32)
    weights = m.input(4, 3, dtype=TensorProto.INT32, name="b") if computed else m.constant(b)
    path = m.save(
        tmp_path / "m.onnx", m.add("Gemm", x, weights, m.constant(c), alpha=alpha, beta=beta, transB=1)
    )
    (result,) = Interpreter(load_onnx(path)).run([a, b][: 1 + computed])
    np.testing.assert_array_equal(result, int(alpha) * (a @ b.T) + int(beta) * c)


def test_gemm_of_whole_numbers_by_a_fraction(tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.input(2, 3, dtype=TensorProto.INT32)
    path = m.save(tmp_path / "m.onnx", m.add("Gemm", x, m.constant(np.ones((3, 2), np.int32)), alpha=0.5))
    with pytest.raises(MlfError, match="int32 times 0"):
        load_onnx(path)


def test_products_of_no_terms_are_zero(tmp_path: Path) -> None:
    """Two matrices of rank 0, as an adapter without parameters has them."""
    m = OnnxMaker()
    x = m.input(2, 3)
    narrow, wide = (m.constant(np.zeros(shape, np.float32)) for shape in ((3, 0), (0, 4)))
    low = m.add("MatMul", m.add("MatMul", x, narrow), wide)
    m.add("Add", low, m.add("MatMul", x, m.weights(3, 4)))
    agree(m, tmp_path, reals(2, 3))


@pytest.mark.parametrize("kind", ["Concat", "ReduceSum", "Pad"])
def test_parts_without_elements(kind: str, tmp_path: Path) -> None:
    m = OnnxMaker(opset=17)
    x, one = m.input(2, 3), m.constant(np.array([1]))
    part = m.add("Slice", x, one, one)
    if kind == "Concat":
        m.add(kind, m.add("Relu", part), x, axis=0)
    elif kind == "ReduceSum":
        m.add("Add", x, m.add(kind, part, m.constant(np.array([0]))))
    else:
        m.add("Add", x, m.add(kind, part, m.constant(np.array([2, 0, 0, 0])), m.constant(np.float32(0.5))))
    agree(m, tmp_path, reals(2, 3))


def test_an_output_without_elements(tmp_path: Path) -> None:
    m = OnnxMaker()
    x, one = m.input(2, 3), m.constant(np.array([1]))
    m.add("Slice", x, one, one)
    agree(m, tmp_path, reals(2, 3))


@pytest.mark.parametrize(
    ("kind", "shapes", "fields", "says"),
    [
        ("SpaceToDepth", [(1, 1, 4, 4)], {"blocksize": -1}, "blocks of -1"),
        ("DepthToSpace", [(1, 4, 2, 2)], {"blocksize": 0}, "blocks of 0"),
        ("DepthToSpace", [(1, 4, 2)], {"blocksize": 2}, "blocks of 2 in a tensor"),
        ("DepthToSpace", [(1, 3, 2, 2)], {"blocksize": 2}, "in blocks of 2 x 2"),
        ("ConvTranspose", [(1, 1, 4), (1, 1, 3)], {"strides": [0]}, "a stride or a padding that is not"),
        ("ConvTranspose", [(1, 1, 4), (1, 1, 3)], {"strides": [1, 1]}, "doesn't have 1 axes"),
        ("ConvTranspose", [(1, 1, 4), (1, 1, 3)], {"output_padding": [-1]}, "output_padding"),
        ("MaxPool", [(1, 1, 4)], {"kernel_shape": [1 << 40], "auto_pad": "SAME_UPPER"}, "not possible"),
    ],
)
def test_attributes_that_are_not_possible(
    kind: str, shapes: list[tuple[int, ...]], fields: dict[str, object], says: str, tmp_path: Path
) -> None:
    m = OnnxMaker()
    x, *weights = m.input(*shapes[0]), *(m.weights(*shape) for shape in shapes[1:])
    with pytest.raises(MlfError, match=says):
        load_onnx(m.save(tmp_path / "m.onnx", m.add(kind, x, *weights, **fields)))


@pytest.mark.parametrize(
    ("kind", "numbers", "says"), [("Unsqueeze", [0, 0], "name one twice"), ("Reshape", [-1, -1], "the shape")]
)
def test_shapes_that_are_not_possible(kind: str, numbers: list[int], says: str, tmp_path: Path) -> None:
    m = OnnxMaker()
    with pytest.raises(MlfError, match=says):
        load_onnx(m.save(tmp_path / "m.onnx", m.add(kind, m.input(1), m.constant(np.array(numbers)))))
