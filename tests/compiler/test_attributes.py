# SPDX-License-Identifier: Apache-2.0
"""Attributes of operators that a kernel must not lose, whatever the goal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agreement import agree
from compiled_models import KernelRunner
from mlf_sdk.compiler.build import with_kernels
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import UNLIMITED, Operator, Pool2D, PoolKind, Window
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reals import Reduce, Reduction
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice, Counted, candidates
from mlf_sdk.frontends.mlf.compiled import archive_of
from mlf_sdk.ir.tensor import Quantisation
from operator_cases import Case, model_of
from tflite_models import Maker

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.mark.parametrize("goal", Goal)
def test_logarithm_of_softmax(goal: Goal, tmp_path: Path) -> None:
    for dtype in ("float32", "int8"):
        agree(model_of("LOG_SOFTMAX", dtype, 2), tmp_path, 2, runs=1, choice=Choice(goal=goal))


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize("dilation", [(2, 1), (1, 2), (3, 2)], ids=str)
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_dilation_of_real_layers(kind: str, dilation: tuple[int, int], goal: Goal, tmp_path: Path) -> None:
    """A window as wide as its input: its rows are neighbours in memory without dilation alone."""
    m = Maker(3)
    case = Case(m, "float32")
    width = 1 + 2 * dilation[1]
    x = case.input((1, 9, width, 4))
    depthwise = kind == "DEPTHWISE_CONV_2D"
    weights = case.weights((1, 3, 3, 4) if depthwise else (5, 3, 3, 4))
    channels = 4 if depthwise else 5
    y = case.value((1, 9 - 2 * dilation[0], 1, channels))
    fields = {
        "Padding": 1, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 0,
        "DilationHFactor": dilation[0], "DilationWFactor": dilation[1],
    }  # fmt: skip
    name = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    if depthwise:
        fields["DepthMultiplier"] = 1
    model = case.finish(kind, (x, weights, case.bias(channels)), y, options=(name, fields))
    agree(model, tmp_path, 3, runs=1, choice=Choice(goal=goal))


def graph_of(x: Value, y: Value, operator: Operator) -> Graph:
    """A graph of one operator."""
    return Graph(name="one", values=(x, y), operators=(operator,), inputs=(0,), outputs=(1,))


def check_all(graph: Graph, data: Array, folder: Path) -> None:
    """Compare every kernel of an operator, for every goal, with the reference."""
    (wanted,) = Interpreter(graph).run([data])
    kernels = {
        kernel.key: kernel
        for goal in Goal
        for kernel in candidates(graph, graph.operators[0], Choice(goal=goal))
    }
    assert kernels
    for kernel in kernels.values():
        compiled = with_kernels(graph, [(Counted(kernel=kernel),)])
        (found,) = KernelRunner(archive_of(compiled), folder).run([data])
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16"])
@pytest.mark.parametrize("function", [PoolKind.AVERAGE, PoolKind.MAX])
@pytest.mark.parametrize("channels", [1, 4])
def test_dilated_pooling(function: PoolKind, dtype: str, channels: int, tmp_path: Path) -> None:
    """Taps beyond the border are neither counted nor compared."""
    real = dtype == "float32"
    found = None if real else Quantisation(scale=(0.1,), zero_point=(0,))
    x = Value(id=0, name="x", dtype=np.dtype(dtype), shape=(1, 7, 8, channels), quantisation=found)
    y = Value(id=1, name="y", dtype=np.dtype(dtype), shape=(1, 5, 4, channels), quantisation=found)
    window = Window(size=(3, 2), stride=(1, 2), dilation=(2, 3), before=(1, 2))
    operator = Pool2D(
        number=0, kind="Pool", inputs=(0,), outputs=(1,), function=function, window=window,
        clamp=UNLIMITED if real else (-100, 120),
    )  # fmt: skip
    data = np.random.default_rng(3).uniform(-127, 127, x.shape).astype(dtype)
    check_all(graph_of(x, y, operator), data, tmp_path)


@pytest.mark.parametrize("function", [Reduction.MEAN, Reduction.SUM])
def test_means_and_sums_of_floats(function: Reduction, tmp_path: Path) -> None:
    x = Value(id=0, name="x", dtype=np.dtype(np.float32), shape=(2, 3, 4))
    y = Value(id=1, name="y", dtype=np.dtype(np.float32), shape=(2, 4))
    operator = Reduce(number=0, kind="Sum", inputs=(0,), outputs=(1,), axes=(1,), function=function)
    data = np.random.default_rng(3).uniform(-1, 1, x.shape).astype(np.float32)
    check_all(graph_of(x, y, operator), data, tmp_path)


def running_sum(extent: int) -> bytes:
    """CUMSUM of int8 values far from their zero point."""
    m = Maker(1)
    case = Case(m, "int8")
    x = case.input((extent, 3), zero=-128)
    y = case.value((extent, 3), scale=m.spec.tensors[x].scale[0], zero=0)
    options = ("CumsumOptions", {"Exclusive": False, "Reverse": False})
    return case.finish("CUMSUM", (x, case.constant([0])), y, options=options)


def sum_of_many(count: int) -> bytes:
    """ADD_N of int8 values far from their zero point."""
    m = Maker(1)
    case = Case(m, "int8")
    first = case.input((2, 3), zero=-128)
    others = [case.like(first, (2, 3)) for _ in range(count - 1)]
    m.spec.inputs += others
    return case.finish("ADD_N", (first, *others), case.value((2, 3), scale=1.0, zero=0))


@pytest.mark.parametrize("make", [running_sum, sum_of_many])
@pytest.mark.parametrize("goal", Goal)
def test_sums_of_32_bits_wrap(make: Callable[[int], bytes], goal: Goal, tmp_path: Path) -> None:
    """As TFLM's do: sixteen of the largest value leave the range."""

    def largest(graph: Graph, _: np.random.Generator) -> list[Array]:
        return [np.full(graph.values[i].shape, 127, np.int8) for i in graph.inputs]

    agree(make(18), tmp_path, 1, runs=1, choice=Choice(goal=goal), given=largest)


def test_means_of_more_words_than_32_bits_hold(tmp_path: Path) -> None:
    """The sum wraps, as TFLM's does."""
    m = Maker(1)
    case = Case(m, "int16")
    x = case.input((1, 300, 300, 1), zero=0)
    y = case.value((1, 1), scale=m.spec.tensors[x].scale[0] / 2)
    model = case.finish(
        "MEAN", (x, case.constant([1, 2])), y, options=("ReducerOptions", {"KeepDims": False})
    )
    agree(model, tmp_path, 1, runs=1, given=lambda *_: [np.full((1, 300, 300, 1), 32767, np.int16)])
