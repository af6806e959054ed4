# SPDX-License-Identifier: Apache-2.0
"""Values of 16 bits as TFLM's kernels take them: zero points that they leave out, and sums of 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agreement import agree
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from operator_cases import CASES, Case
from tflite_models import Maker

LEFT_OUT = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "PAD")
TAKEN = ("FULLY_CONNECTED", "ADD", "SUB", "PRELU", "LEAKY_RELU", "MEAN", "SUM", "QUANTIZE", "MAX_POOL_2D")
REFUSED = ("MUL", "SQUARED_DIFFERENCE", "CONCATENATION", "BATCH_MATMUL", "RELU", "ABS", "TANH", "LOGISTIC")
GOALS = (Goal.BALANCED, Goal.SIZE)


def with_zero_points(name: str, seed: int) -> bytes:
    """The model of a case whose int16 tensors have zero points; those with one scale have the same."""
    m = Maker(seed)
    CASES[name][1](Case(m, "int16"))
    points: dict[tuple[float, ...], int] = {}
    for tensor in m.spec.tensors:
        if tensor.dtype == "int16" and tensor.scale:
            point = points.setdefault(tensor.scale, int(m.random.integers(100, 3000)))
            tensor.zero_point = (point,)
    return m.finish(*m.spec.outputs)


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("name", [*LEFT_OUT, *TAKEN])
def test_zero_points(name: str, seed: int, tmp_path: Path) -> None:
    for goal in GOALS if name in LEFT_OUT else GOALS[:1]:
        agree(with_zero_points(name, seed), tmp_path, seed, runs=1, choice=Choice(goal=goal))


@pytest.mark.parametrize("name", REFUSED)
def test_zero_points_that_tflm_refuses(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(with_zero_points(name, 1))
    with pytest.raises(ArchiveError, match=rf"{name} .* int16 values with the zero point \d+; 0 is needed"):
        load_tflite(path)


def test_padding_of_words_in_front_of_a_layer(tmp_path: Path) -> None:
    """PAD fills with stored zeros; PADV2 with the zero point, which a layer does not take as zero."""
    for value in (None, 700):
        m = Maker(2)
        case = Case(m, "int16")
        x = case.input((1, 4, 5, 2), zero=700)
        wide = case.like(x, (1, 6, 7, 2))
        amounts = case.constant([[0, 0], [1, 1], [1, 1], [0, 0]])
        if value is None:
            m.spec.add("PAD", (x, amounts), wide)
        else:
            fill = m.spec.tensors[case.constant([value], "int16")]
            fill.scale, fill.zero_point = m.spec.tensors[x].scale, m.spec.tensors[x].zero_point
            m.spec.add("PADV2", (x, amounts, len(m.spec.tensors) - 1), wide)
        y = case.value((1, 4, 5, 3), scale=0.0005)
        fields = {"StrideW": 1, "StrideH": 1, "Padding": 1, "DilationWFactor": 1, "DilationHFactor": 1}
        m.spec.add("CONV_2D", (wide, case.weights((3, 3, 3, 2)), case.bias(3)), y, ("Conv2DOptions", fields))
        agree(m.finish(y), tmp_path, 2, runs=1)


def layer(kind: str, bias: str, stated: int, weight: int) -> bytes:
    """A layer of 600 inputs of 16 bits.

    Args:
        bias: its type; empty for none.
        stated: type of the bias that the options state, where there is none.
        weight: the largest.
    """
    m = Maker(4)
    case = Case(m, "int16")
    x = case.input((1, 1, 2, 600) if kind == "CONV_2D" else (2, 600), zero=0)
    shape = (5, 1, 1, 600) if kind == "CONV_2D" else (5, 600)
    data = m.random.integers(weight // 2, weight + 1, shape).astype(np.int8)
    inputs = [x, m.spec.tensor("w", "int8", shape, scale=(0.01,), zero_point=(0,), data=data)]
    if bias:
        inputs.append(case.constant(m.random.integers(-30000, 30000, 5), bias))
    y = case.value((1, 1, 2, 5) if kind == "CONV_2D" else (2, 5), scale=0.004 * weight, zero=0)
    fields = {"FusedActivationFunction": 0, "QuantizedBiasType": stated}
    if kind == "CONV_2D":
        fields |= {"StrideW": 1, "StrideH": 1, "Padding": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    name = "Conv2DOptions" if kind == "CONV_2D" else "FullyConnectedOptions"
    m.spec.add(kind, tuple(inputs), y, (name, fields))
    return m.finish(y)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(("bias", "stated"), [("int32", 0), ("int64", 0), ("", 0), ("", 2)])
@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_sums_have_the_width_of_the_bias(
    kind: str, bias: str, stated: int, goal: Goal, tmp_path: Path
) -> None:
    """Those of 32 bits are rounded in another way, and wrap: twice 600 products reach 2**31."""
    agree(layer(kind, bias, stated, 9), tmp_path, 3, choice=Choice(goal=goal))
    largest = layer(kind, bias, stated, 127)

    def extreme(*_: object) -> list[np.ndarray]:
        return [np.full((1, 1, 2, 600) if kind == "CONV_2D" else (2, 600), 32767, np.int16)]

    agree(largest, tmp_path, 3, runs=1, choice=Choice(goal=goal), given=extreme)


def with_bias(kind: str, dtype: str, bias: str) -> bytes:
    """The model of a case with a bias of another type."""
    m = Maker(1)
    CASES[kind][1](Case(m, dtype))
    tensor = m.spec.tensors[m.spec.operators[0].inputs[-1]]
    assert tensor.data is not None
    tensor.dtype, tensor.data = bias, tensor.data.astype(bias)
    return m.finish(*m.spec.outputs)


def test_biases_of_16_bits_of_a_transposed_convolution(tmp_path: Path) -> None:
    agree(with_bias("TRANSPOSE_CONV", "int16", "int16"), tmp_path, 1)


@pytest.mark.parametrize(
    ("kind", "dtype", "bias", "needed"),
    [
        ("DEPTHWISE_CONV_2D", "int16", "int32", "int64"),
        ("TRANSPOSE_CONV", "int16", "int32", "int64"),
        ("CONV_2D", "int16", "int16", "int64"),
        ("CONV_2D", "int8", "int64", "int32"),
        ("FULLY_CONNECTED", "int8", "int16", "int32"),
    ],
)
def test_biases_that_tflm_takes_for_another_type(
    kind: str, dtype: str, bias: str, needed: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(with_bias(kind, dtype, bias))
    says = f"a bias of type {bias} beside activations of type {dtype}; {needed} is needed"
    with pytest.raises(ArchiveError, match=says):
        load_tflite(path)
