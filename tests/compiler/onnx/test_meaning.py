# SPDX-License-Identifier: Apache-2.0
"""Operators that were read in another way than ONNX Runtime reads them: its results, the reference's, the kernels'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.errors import MlfError
from onnx_answers import agree, answers, reals
from onnx_models import OnnxMaker


@pytest.mark.parametrize(("kind", "count"), [("RNN", 1), ("GRU", 2), ("LSTM", 3)])
def test_recurrent_layers_with_relu(kind: str, count: int, tmp_path: Path) -> None:
    m = OnnxMaker(1)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    inputs = (m.input(4, 1, 3), m.weights(1, gates * 5, 3), m.weights(1, gates * 5, 5))
    m.add(kind, *inputs, hidden_size=5, activations=["Relu", "Tanh", "Relu"][:count])
    agree(m, tmp_path, reals(4, 1, 3))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_pad_of_quantised_numbers(dtype: str, tmp_path: Path) -> None:
    """The value is one of the integers, no real number."""
    m = OnnxMaker(opset=13)
    scale, zero = m.constant(np.float32(0.5)), m.constant(np.array(3, dtype))
    y = m.add("QuantizeLinear", m.input(1, 2, 3), scale, zero)
    pads, value = m.constant(np.array([0, 0, 2, 0, 0, 1])), m.constant(np.array(7, dtype))
    m.add("DequantizeLinear", m.add("Pad", y, pads, value), scale, zero)
    agree(m, tmp_path, reals(1, 2, 3))


@pytest.mark.parametrize("function", ["", "Sigmoid"])
def test_pad_of_dequantised_numbers_with_one_between_them(function: str, tmp_path: Path) -> None:
    """0.3 is no multiple of 0.5; and what is put around a function's results is not put through the function."""
    m = OnnxMaker(opset=13)
    scale, zero = m.constant(np.float32(0.5)), m.constant(np.int8(3))
    y = m.add("DequantizeLinear", m.input(1, 2, 3, dtype=TensorProto.INT8), scale, zero)
    y = m.add(function, y) if function else y
    value = m.constant(np.float32(0.0 if function else 0.3))
    m.add("Pad", y, m.constant(np.array([0, 0, 2, 0, 0, 1])), value)
    agree(m, tmp_path, np.arange(6).reshape(1, 2, 3).astype(np.int8))


def test_transposed_convolution_whose_output_is_longer_than_what_it_reaches(tmp_path: Path) -> None:
    m = OnnxMaker(2)
    x = m.input(2, 1, 1, 1)
    m.add("ConvTranspose", x, m.weights(1, 4, 1, 1), m.weights(4), output_shape=[3, 1], strides=[3, 1])
    agree(m, tmp_path, reals(2, 1, 1, 1))


@pytest.mark.parametrize("kind", ["ReduceSumSquare", "ReduceL1", "ReduceMax"])
def test_reductions_over_no_axes(kind: str, tmp_path: Path) -> None:
    m = OnnxMaker(opset=18)
    m.add(kind, m.input(2, 3), noop_with_empty_axes=1)
    agree(m, tmp_path, reals(2, 3))


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_last_of_equal_elements(kind: str, tmp_path: Path) -> None:
    m = OnnxMaker(opset=13)
    m.add(kind, m.input(3, 4), axis=1, select_last_index=1)
    agree(m, tmp_path, np.array([[1, 2, 2, 1], [0, 0, 0, 0], [3, 1, 3, 1]], np.float32))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_that_counts_and_is_not_stated(mode: str, tmp_path: Path) -> None:
    m = OnnxMaker()
    m.add("AveragePool", m.input(1, 2, 6, 5), kernel_shape=[2, 4], auto_pad=mode, count_include_pad=1)
    agree(m, tmp_path, reals(1, 2, 6, 5))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("space", "size", "strides"), [((9, 8), [2, 1], [4, 5]), ((8, 9), [1, 2], [4, 3])])
def test_windows_that_leave_elements_between_them_out(
    space: tuple[int, int], size: list[int], strides: list[int], mode: str, tmp_path: Path
) -> None:
    """The first window of pooling is then behind the first element."""
    m = OnnxMaker(opset=19)
    x = m.input(1, 2, *space)
    same = {"kernel_shape": size, "strides": strides, "auto_pad": mode}
    averages = [m.add("AveragePool", x, count_include_pad=counted, **same) for counted in (0, 1)]
    largest = m.add("MaxPool", x, outputs=2, **same)
    places = m.add("Cast", largest + "_1", to=TensorProto.FLOAT)
    m.add("Concat", *averages, largest, places, axis=1)
    agree(m, tmp_path, reals(1, 2, *space))


def test_convolutions_that_leave_elements_between_windows_out(tmp_path: Path) -> None:
    """Theirs begins at the first element, if few are left out."""
    for mode, most in (("SAME_UPPER", 2), ("SAME_LOWER", 3)):
        for out in range(1, most + 1):
            m = OnnxMaker()
            same = {"kernel_shape": [1, 1], "strides": [1, 1 + out], "auto_pad": mode}
            m.add("Conv", m.input(1, 2, 2, 2 + 2 * out), m.weights(3, 2, 1, 1), **same)
            agree(m, tmp_path, reals(1, 2, 2, 2 + 2 * out))
        m = OnnxMaker()
        same = {"kernel_shape": [1, 1], "strides": [1, 2 + most], "auto_pad": mode}
        m.add("Conv", m.input(1, 2, 2, 4 + 2 * most), m.weights(3, 2, 1, 1), **same)
        with pytest.raises(MlfError, match=f"{mode} leaves 1 elements in front"):
            load_onnx(m.save(tmp_path / "m.onnx", m.nodes[-1].output[0]))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_stored_pooling_that_leaves_elements_between_windows_out(mode: str, tmp_path: Path) -> None:
    same = {"kernel_shape": [1, 3], "strides": [3, 7], "auto_pad": mode}
    given = np.random.default_rng(3).integers(-50, 50, (1, 4, 6, 14)).astype(np.int8)
    m = OnnxMaker(opset=19)
    scale, zero = m.constant(np.float32(0.5)), m.constant(np.int8(1))
    x = m.add("MaxPool", m.input(*given.shape, dtype=TensorProto.INT8), kernel_shape=[1, 1])
    largest = m.add("MaxPool", x, **same)
    average = m.add("AveragePool", m.add("DequantizeLinear", x, scale, zero), **same)
    finer = m.constant(np.float32(0.25))
    parts = [m.add("QuantizeLinear", average, s, zero) for s in (scale, finer)]
    m.add("Concat", largest, *parts, axis=1)
    wanted, found = answers(m, tmp_path, given)
    assert len(np.unique(wanted)) > 20
    for one in found:
        assert np.abs(one.reshape(wanted.shape).astype(int) - wanted).max() <= 1  # of two as near, either


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 4])
def test_dilated_pooling_is_padded_as_if_it_were_not(mode: str, stride: int, tmp_path: Path) -> None:
    m = OnnxMaker(opset=19)
    x = m.input(1, 2, 9, 8)
    same = {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [stride, 3], "auto_pad": mode}
    averages = [m.add("AveragePool", x, count_include_pad=counted, **same) for counted in (0, 1)]
    m.add("Concat", *averages, m.add("MaxPool", x, **same), axis=1)
    agree(m, tmp_path, reals(1, 2, 9, 8))


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 0, 1]])
def test_average_that_is_stored_at_a_finer_scale(counted: int, pads: list[int], tmp_path: Path) -> None:
    """It is rounded once: through the input's scale it was up to three steps off."""
    m = OnnxMaker(opset=13)
    x = m.input(1, 3, 7, 6, dtype=TensorProto.INT8)
    y = m.add("DequantizeLinear", x, m.constant(np.float32(0.02)), m.constant(np.int8(5)))
    y = m.add("AveragePool", y, kernel_shape=[3, 2], pads=pads, count_include_pad=counted)
    m.add("QuantizeLinear", y, m.constant(np.float32(0.003)), m.constant(np.int8(-3)))
    given = np.random.default_rng(3).integers(-25, 35, (1, 3, 7, 6)).astype(np.int8)
    wanted, found = answers(m, tmp_path, given)
    assert np.abs(wanted).max() < 128 and len(np.unique(wanted)) > 40
    for one in found:
        off = np.abs(one.reshape(wanted.shape).astype(int) - wanted)
        assert off.max() <= 1 and (off > 0).mean() < 0.05  # of two that are nearly as near, either


def test_average_that_is_read_as_a_real_number_is_not_rounded(tmp_path: Path) -> None:
    m = OnnxMaker(opset=13)
    x = m.input(1, 1, 4, 4, dtype=TensorProto.INT8)
    y = m.add("DequantizeLinear", x, m.constant(np.float32(0.5)), m.constant(np.int8(0)))
    m.add("AveragePool", y, kernel_shape=[2, 2])
    agree(m, tmp_path, np.random.default_rng(3).integers(-50, 50, (1, 1, 4, 4)).astype(np.int8))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_that_keeps_proportions_has_one_scale(policy: str, tmp_path: Path) -> None:
    """Not that of each rounded extent."""
    m = OnnxMaker(opset=19)
    sizes = m.constant(np.array([4, 14]))
    m.add(
        "Resize", m.input(1, 1, 8, 7), "", "", sizes, axes=[2, 3], mode="linear",
        coordinate_transformation_mode="asymmetric", keep_aspect_ratio_policy=policy,
    )  # fmt: skip
    agree(m, tmp_path, reals(1, 1, 8, 7))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("scale", "size"), [(0.6, 4), (1.71, 5), (2.3, 1), (1.1, 6), (0.55, 2), (2.45, 3)])
def test_resize_by_any_scale(mode: str, scale: float, size: int, tmp_path: Path) -> None:
    """Corners lie on corners of whole extents; what keeps every extent is a copy."""
    for coordinates in ("align_corners", "half_pixel", "half_pixel_symmetric", "asymmetric"):
        m = OnnxMaker(opset=19)
        scales = m.constant(np.array([1, 1, scale, 1], np.float32))
        m.add(
            "Resize", m.input(1, 2, size, 3), "", scales, mode=mode, nearest_mode="floor",
            coordinate_transformation_mode=coordinates,
        )  # fmt: skip
        agree(m, tmp_path, reals(1, 2, size, 3))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [1, 2], "dilations": [1, 3]}),
        ("GlobalMaxPool", {}),
        ("ReduceMax", {"keepdims": 0}),
        ("ReduceMin", {"keepdims": 0}),
        ("ArgMax", {"axis": 3}),
        ("ArgMin", {"axis": 2, "select_last_index": 1}),
    ],
)
def test_not_a_number_is_passed_over(kind: str, fields: dict[str, Any], tmp_path: Path) -> None:
    """As an infinity in its place is: ONNX Runtime's own answer to NaN depends on the order."""
    m = OnnxMaker(opset=13)
    m.add(kind, m.input(1, 1, 4, 6), **fields)
    x = reals(1, 1, 4, 6)
    x[0, 0, 1::2, 1::2] = np.inf if kind.endswith("Min") else -np.inf
    (wanted, _), (_, found) = (
        answers(m, tmp_path, y) for y in (x, np.where(np.isinf(x), np.float32(np.nan), x))
    )
    for one in found:
        np.testing.assert_array_equal(one.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("limits", [(), (-0.5, 0.25)])
def test_not_a_number_stays_behind_a_limited_layer(limits: tuple[float, ...], tmp_path: Path) -> None:
    """With either sign."""
    m = OnnxMaker(opset=13)
    y = m.add("Conv", m.input(1, 2, 3, 4), m.weights(3, 2, 1, 1))
    m.add("Clip" if limits else "Relu", y, *(m.constant(np.float32(limit)) for limit in limits))
    x = reals(1, 2, 3, 4)
    x[0, 0, 0, :2] = np.nan, np.copysign(np.nan, -1)
    agree(m, tmp_path, x)
    assert np.isnan(answers(m, tmp_path, x)[0]).any()


@pytest.mark.parametrize("kind", ["CumSum", "Sign"])
def test_not_a_number_stays_where_it_belongs(kind: str, tmp_path: Path) -> None:
    m = OnnxMaker(opset=13)
    x = m.input(2, 5)
    if kind == "CumSum":
        m.add(kind, x, m.constant(np.array(1)), exclusive=1, reverse=1)
    else:
        m.add(kind, x)
    given = reals(2, 5)
    given[0, 2] = np.nan
    agree(m, tmp_path, given)


def test_dilated_averages_that_reach_what_their_padding_leaves_out(tmp_path: Path) -> None:
    """ONNX Runtime cuts such windows off."""
    m = OnnxMaker(opset=19)
    window = {"kernel_shape": [2, 2], "dilations": [1, 2], "strides": [5, 5], "ceil_mode": 1}
    m.add("AveragePool", m.input(1, 2, 4, 8), auto_pad="SAME_UPPER", count_include_pad=1, **window)
    with pytest.raises(MlfError, match="dilated windows reach elements that its padding leaves out"):
        load_onnx(m.save(tmp_path / "m.onnx", m.nodes[-1].output[0]))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_remainders_of_numbers_without_a_sign(dtype: str, tmp_path: Path) -> None:
    """Their kernel compares none of them with zero: the compiler that builds it with all warnings accepts it."""
    m = OnnxMaker(opset=13)
    kind = {"uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32}[dtype]
    m.add("Mod", m.input(6, dtype=kind), m.constant(np.array([3, 5, 7, 2, 9, 250], dtype)))
    agree(m, tmp_path, np.array([250, 200, 77, 3, 8, 249], dtype))


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_not_a_number_is_kept(kind: str, tmp_path: Path) -> None:
    """By whichever operand it comes in; TFLite's MAXIMUM takes the second operand instead."""
    x = reals(2, 6)
    x[0, ::2] = np.nan
    m = OnnxMaker(3)
    first = m.add(kind, m.input(2, 6), m.constant(np.zeros((2, 6), np.float32)))
    m.add(kind, m.constant(np.full((2, 6), 0.5, np.float32)), first, m.constant(np.float32(-0.25)))
    agree(m, tmp_path, x)
    assert np.isnan(answers(m, tmp_path, x)[0]).sum() == 3


@pytest.mark.parametrize("largest", [0, 1])
def test_not_a_number_is_the_largest(largest: int, tmp_path: Path) -> None:
    """Of several the first comes first; the others keep their order around them."""
    m = OnnxMaker(6)
    count = m.constant(np.array([4]))
    top = m.add("TopK", m.input(6, 5), count, axis=1, largest=largest, outputs=2)
    m.add("Concat", top, m.add("Cast", f"{top}_1", to=TensorProto.FLOAT), axis=0)
    x = reals(6, 5)
    x[1:, 1] = x[2, 0] = x[3, 4] = x[4, :4] = x[5] = np.nan
    x[3, 2] = x[3, 3]
    agree(m, tmp_path, x)
    assert np.isnan(answers(m, tmp_path, x)[0]).sum() > 4
