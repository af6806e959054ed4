# SPDX-License-Identifier: Apache-2.0
"""Whole-number weights beside real activations: they mean the real numbers that they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agreement import agree
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.compiler.tflite.survey import survey_tflite
from mlf_sdk.errors import ArchiveError
from operator_cases import Case
from tflite_models import Maker

KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL")


def layer(kind: str, dtype: str, *, hybrid: bool) -> bytes:
    """A layer whose weights are stored as whole numbers, or are the same numbers as real ones."""
    c = Case(Maker(3), "float32")
    shapes = {"DEPTHWISE_CONV_2D": (1, 3, 3, 4), "FULLY_CONNECTED": (5, 64), "BATCH_MATMUL": (4, 5)}
    shape = shapes.get(kind, (5, 3, 3, 4))
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    channels = 5 if kind == "BATCH_MATMUL" else shape[axis]
    several = dtype == "int8" and kind != "BATCH_MATMUL"
    scale = c.random.uniform(0.001, 0.02, channels if several else 1).astype(np.float32)
    zero = 0 if dtype == "int8" else 120
    stored = c.random.integers(0, 255, shape) - (127 if dtype == "int8" else 0)
    spread = scale.reshape([-1 if several and i == axis else 1 for i in range(len(shape))])
    real = (stored - zero).astype(np.float32) * spread
    x = c.input((1, 4, 4, 4))
    fields: dict[str, Any] = (
        {"scale": tuple(map(float, scale)), "zero_point": (zero,), "axis": axis, "data": stored.astype(dtype)}
        if hybrid
        else {"data": real}
    )
    weights = c.maker.spec.tensor("w", dtype if hybrid else "float32", shape, **fields)
    window = {"Padding": 0, "StrideW": 1, "StrideH": 1}
    if kind == "BATCH_MATMUL":
        return c.finish(
            kind, (x, weights), c.value((1, 4, 4, 5)), options=("BatchMatMulOptions", {"AdjX": False})
        )
    if kind == "TRANSPOSE_CONV":
        size = c.constant([1, 4, 4, 5])
        return c.finish(
            kind, (size, weights, x), c.value((1, 4, 4, 5)), options=("TransposeConvOptions", window)
        )
    inputs = (x, weights, c.bias(channels))
    if kind == "FULLY_CONNECTED":
        return c.finish(
            kind, inputs, c.value((1, 5)), options=("FullyConnectedOptions", {"WeightsFormat": 0})
        )
    window |= {"DilationWFactor": 1, "DilationHFactor": 1, "FusedActivationFunction": 1}
    if kind == "CONV_2D":
        return c.finish(kind, inputs, c.value((1, 4, 4, 5)), options=("Conv2DOptions", window))
    options = ("DepthwiseConv2DOptions", {**window, "DepthMultiplier": 1})
    return c.finish(kind, inputs, c.value((1, 4, 4, 4)), options=options)


@pytest.mark.parametrize("goal", Goal, ids=[g.value for g in Goal])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_hybrid_layer(kind: str, dtype: str, goal: Goal, tmp_path: Path) -> None:
    """TFLM computes the layer of real weights; the hybrid one gives the same, bit for bit."""
    agree(layer(kind, dtype, hybrid=False), tmp_path, 1, runs=1, choice=Choice(goal=goal))
    plain = Interpreter(load_tflite(tmp_path / "model.tflite"))
    path = tmp_path / "hybrid.tflite"
    path.write_bytes(layer(kind, dtype, hybrid=True))
    given = [np.random.default_rng(1).normal(size=(1, 4, 4, 4)).astype(np.float32)]
    np.testing.assert_array_equal(Interpreter(load_tflite(path)).run(given)[0], plain.run(given)[0])
    (finding,) = survey_tflite(path).findings
    assert finding.what == f"its weights are of {dtype} beside real activations"


def test_weights_without_a_scale(tmp_path: Path) -> None:
    m = Maker(1)
    x = m.spec.tensor("x", "float32", (1, 4))
    m.spec.inputs.append(x)
    w = m.spec.tensor("w", "int8", (3, 4), data=np.ones((3, 4), np.int8))
    y = m.spec.add("FULLY_CONNECTED", (x, w), m.spec.tensor("y", "float32", (1, 3)))
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    with pytest.raises(ArchiveError, match="the weights 'w' of int8 have no scale beside real activations"):
        load_tflite(path)
