# SPDX-License-Identifier: Apache-2.0
"""Reference of changes of type and of quantisation."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Convert, Rounding
from mlf_sdk.compiler.reference.table import States, reference
from mlf_sdk.compiler.requantise import multiply, saturated
from mlf_sdk.compiler.scales import ratio


@reference(Convert)
def convert(graph: Graph, operator: Convert, inputs: list[Array], _: States) -> list[Array]:
    """QUANTIZE, DEQUANTIZE and CAST."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if operator.rounding is Rounding.CONCATENATION:
        return [_concatenated(x, y, inputs[0])]
    if operator.rounding is Rounding.NEAREST_EVEN:
        return [nearest_even(y, dequantised(x, inputs[0]))]
    return [convert_values(x, y, inputs[0])]


def convert_values(x: Value, y: Value, data: Array) -> Array:
    """``data`` of the type and quantisation of ``x`` as those of ``y``, as TFLM does."""
    if x.quantisation and y.quantisation and x.dtype.kind != "f" and y.dtype.kind != "f":
        moved = multiply(data.astype(np.int64) - x.zero_point, ratio(x, y))
        return saturated(moved + y.zero_point, y.dtype)
    if y.quantisation and x.dtype.kind == "f":
        return _quantise(y, data)
    return dequantised(x, data) if y.dtype.kind == "f" else data.astype(y.dtype)


def dequantised(x: Value, data: Array) -> Array:
    """Real numbers that stored values stand for, in single precision; others as they are."""
    if x.quantisation is None or x.dtype.kind == "f":
        return data.astype(np.float32)
    return (data.astype(np.int64) - x.zero_point).astype(np.float32) * np.float32(x.scale)


def nearest_even(y: Value, data: Array) -> Array:
    """Stored values of real numbers: quotients in single precision, rounded to nearest, halves to even."""
    with np.errstate(all="ignore"):
        scaled = np.nan_to_num(np.rint(data.astype(np.float32) / np.float32(y.scale))).astype(np.float64)
    return saturated(scaled + y.zero_point, y.dtype)


def _quantise(y: Value, data: Array) -> Array:
    """Nearest stored value, halves away from zero, in single precision."""
    scaled = data.astype(np.float32) / np.float32(y.scale)
    rounded = np.trunc(scaled) + np.where(np.abs(scaled - np.trunc(scaled)) >= 0.5, np.sign(scaled), 0)
    wide = np.clip(np.nan_to_num(rounded.astype(np.float64)), -(1 << 31), (1 << 31) - 1)
    return saturated(wide + y.zero_point, y.dtype)


def _concatenated(x: Value, y: Value, data: Array) -> Array:
    """A uint8 input of CONCATENATION in the quantisation of the output, in single precision."""
    scale = np.float32(x.scale) * (np.float32(1) / np.float32(y.scale))
    moved = (data.astype(np.float32) * scale + np.float32(-x.zero_point) * scale).astype(np.float64)
    return saturated(np.sign(moved) * np.floor(np.abs(moved) + 0.5) + y.zero_point, y.dtype)
