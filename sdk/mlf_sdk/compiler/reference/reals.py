# SPDX-License-Identifier: Apache-2.0
"""References of operators of real numbers; sums in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler import reals
from mlf_sdk.compiler.functions import FUNCTIONS
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reals import Reduction
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.quantised import matrix_product, running_sums
from mlf_sdk.compiler.requantise import mean_multiplier, multiply, ratio, saturated


@reference(reals.MatMul)
def mat_mul(graph: Graph, operator: reals.MatMul, inputs: list[Array], states: States) -> list[Array]:
    """Matrix product."""
    (a, b, *_), (y,) = graph.read(operator), graph.written(operator)
    if y.quantisation is not None:
        return [matrix_product(a, b, y, inputs)]
    wide = np.float64 if y.dtype.kind == "f" else np.int64
    left = inputs[0].astype(wide)
    for zero in inputs[2:]:
        left = left - int(zero.reshape(-1)[0])
    return [np.matmul(left, inputs[1].astype(wide))]


def _log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    """Logarithm of sums of exponentials, of numbers less the largest one, so that they stay finite."""
    most = x.max(axis=axes, keepdims=True)
    most = np.where(np.isfinite(most), most, 0)
    return np.asarray(np.log(np.exp(x - most).sum(axis=axes)) + most.squeeze(axes))


_REDUCTIONS: Final[dict[Reduction, Callable[[Array, tuple[int, ...]], Array]]] = {
    Reduction.SUM: lambda x, axes: x.sum(axis=axes),
    Reduction.MEAN: lambda x, axes: x.mean(axis=axes),
    Reduction.MAX: lambda x, axes: np.fmax.reduce(x, axis=axes),
    Reduction.MIN: lambda x, axes: np.fmin.reduce(x, axis=axes),
    Reduction.PROD: lambda x, axes: x.prod(axis=axes),
    Reduction.L1: lambda x, axes: np.abs(x).sum(axis=axes),
    Reduction.L2: lambda x, axes: np.sqrt(np.square(x).sum(axis=axes)),
    Reduction.SUM_SQUARE: lambda x, axes: np.square(x).sum(axis=axes),
    Reduction.LOG_SUM: lambda x, axes: np.log(x.sum(axis=axes)),
    Reduction.LOG_SUM_EXP: _log_sum_exp,
}


@reference(reals.Reduce)
def reduce(graph: Graph, operator: reals.Reduce, inputs: list[Array], _: States) -> list[Array]:
    """Reductions; the sum or mean of stored values is rescaled as in TFLM."""
    if operator.rounding is not None:
        return [_stored_sum(graph, operator, inputs[0])]
    (x,) = inputs
    wide = x.astype(np.float64 if x.dtype.kind == "f" else np.uint64 if x.dtype == np.uint64 else np.int64)
    if operator.function is Reduction.MEAN and x.dtype.kind != "f":
        count = np.prod([x.shape[axis] for axis in operator.axes], dtype=wide.dtype)
        return [FUNCTIONS["div"].numpy(wide.sum(axis=operator.axes), count)]
    with np.errstate(all="ignore"):
        return [_REDUCTIONS[operator.function](wide, operator.axes)]


def _stored_sum(graph: Graph, operator: reals.Reduce, data: Array) -> Array:
    (x,), (y,) = graph.read(operator), graph.written(operator)
    count = x.elements // y.elements
    total = data.astype(np.int64).sum(axis=operator.axes) - count * x.zero_point
    by = ratio(x, y) if operator.function is Reduction.SUM else mean_multiplier(x, y, count)
    return saturated(multiply(total, by).reshape(y.shape) + y.zero_point, y.dtype)


@reference(reals.Normalise)
def normalise(graph: Graph, operator: reals.Normalise, inputs: list[Array], _: States) -> list[Array]:
    """Layer normalisation of rows."""
    rows: Array = inputs[0].astype(np.float64).reshape(-1, operator.size)
    if operator.centred:
        rows = rows - rows.mean(axis=1, keepdims=True)
    result = rows / np.sqrt(np.square(rows).mean(axis=1, keepdims=True) + operator.epsilon)
    for factor in inputs[1:2]:
        result = result * factor.reshape(-1)
    for term in inputs[2:3]:
        result = result + term.reshape(-1)
    return [result]


@reference(reals.Resample)
def resample(graph: Graph, operator: reals.Resample, inputs: list[Array], _: States) -> list[Array]:
    """Interpolation, rows first; of int8 values rounded half away from zero."""
    x: Array = inputs[0].astype(np.float64)
    down = operator.row_weights.astype(np.float64)[None, :, :, None, None]
    across = operator.column_weights.astype(np.float64)[None, None, :, :, None]
    rows = (x[:, operator.rows] * down).sum(axis=2)
    result = (rows[:, :, operator.columns] * across).sum(axis=3)
    if inputs[0].dtype.kind == "f":
        return [result]
    return [np.trunc((result + np.where(result > 0, 1 << 19, -(1 << 19))) / (1 << 20))]


@reference(reals.Lookup)
def lookup(graph: Graph, operator: reals.Lookup, inputs: list[Array], _: States) -> list[Array]:
    """GATHER with indices of a run; those out of range are taken as the nearest one."""
    extent = inputs[0].shape[operator.axis]
    indices = inputs[1].astype(np.int64)
    indices = np.clip(np.where(indices < 0, indices + extent, indices), 0, extent - 1)
    return [np.take(inputs[0], indices, axis=operator.axis)]


@reference(reals.Accumulate)
def accumulate(graph: Graph, operator: reals.Accumulate, inputs: list[Array], _: States) -> list[Array]:
    """Running sums."""
    (x_value,), (y,) = graph.read(operator), graph.written(operator)
    if y.quantisation is not None:
        steps = {"exclusive": operator.exclusive, "reverse": operator.reverse}
        return [running_sums(x_value, y, inputs[0], operator.axis, **steps)]
    x: Array = inputs[0].astype(np.float64 if inputs[0].dtype.kind == "f" else np.int64)
    if operator.reverse:
        x = np.flip(x, operator.axis)
    if operator.exclusive and x.size:  # by no subtraction, which would spread what is not finite
        x = np.roll(x, 1, operator.axis)
        x[(slice(None),) * operator.axis + (0,)] = 0
    result = np.cumsum(x, axis=operator.axis)
    return [np.flip(result, operator.axis) if operator.reverse else result]
