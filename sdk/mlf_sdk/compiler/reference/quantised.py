# SPDX-License-Identifier: Apache-2.0
"""References of sums, running sums, matrix products and lengths of stored values."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.computed import UpdateSlice
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import AddN, Array, L2Normalise
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.fixed import inverse_root
from mlf_sdk.compiler.requantise import (
    TOTAL_SHIFT,
    Multiplier,
    matrix_multiplier,
    multiply,
    multiply_wide,
    saturated,
    total_multipliers,
)

UNIT_SHIFT = 7
"""Fractional bits of what L2_NORMALIZATION gives."""


def matrix_product(a: Value, b: Value, y: Value, inputs: list[Array]) -> Array:
    """Matrix product of stored values."""
    left, right = (x.astype(np.int64) - v.zero_point for x, v in zip(inputs, (a, b), strict=True))
    scale = multiply_wide if y.dtype == np.int16 else multiply
    return saturated(scale(np.matmul(left, right), matrix_multiplier(a, b, y)) + y.zero_point, y.dtype)


def running_sums(x: Value, y: Value, data: Array, axis: int, *, exclusive: bool, reverse: bool) -> Array:
    """CUMSUM of stored values."""
    first, last = total_multipliers(x, y)
    terms = multiply((data.astype(np.int64) - x.zero_point) << TOTAL_SHIFT, first)
    terms = np.flip(terms, axis) if reverse else terms
    start = multiply(np.array(-x.zero_point << TOTAL_SHIFT, np.int64), first)
    sums = np.cumsum(terms, axis=axis) + start - (terms if exclusive else 0)
    result = saturated(multiply(sums, last) + y.zero_point, y.dtype)
    return np.flip(result, axis) if reverse else result


@reference(AddN)
def add_n(graph: Graph, operator: AddN, inputs: list[Array], _: States) -> list[Array]:
    """ADD_N; the sum starts from a stored 0, as TFLM's does."""
    x, (y,) = graph.read(operator)[0], graph.written(operator)
    first, last = total_multipliers(x, y)
    terms = np.stack([np.zeros_like(inputs[0]), *inputs]).astype(np.int64) - x.zero_point
    total = multiply(terms << TOTAL_SHIFT, first).sum(axis=0)
    return [saturated(multiply(total, last) + y.zero_point, y.dtype)]


@reference(L2Normalise)
def l2_normalise(graph: Graph, operator: L2Normalise, inputs: list[Array], _: States) -> list[Array]:
    """L2_NORMALIZATION."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    rows = inputs[0].astype(np.int64).reshape(-1, x.shape[-1]) - x.zero_point
    result = []
    for row in rows:
        root = inverse_root(int(np.square(row).sum()))
        result.append(multiply(row, Multiplier(root.value, root.shift + UNIT_SHIFT)))
    return [saturated(np.stack(result).reshape(x.shape), y.dtype)]


@reference(UpdateSlice)
def update_slice(graph: Graph, operator: UpdateSlice, inputs: list[Array], _: States) -> list[Array]:
    """DYNAMIC_UPDATE_SLICE."""
    x, part, place = inputs
    result = x.copy()
    starts = np.clip(place.reshape(-1).astype(np.int64), 0, np.array(x.shape) - part.shape)
    result[tuple(slice(int(s), int(s) + e) for s, e in zip(starts, part.shape, strict=True))] = part
    return [result]
