# SPDX-License-Identifier: Apache-2.0
"""Builders of operators that resize images."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.operators import Array, Convert, Reshape
from mlf_sdk.compiler.reals import Resample
from mlf_sdk.compiler.tflite.context import Context, expect_shape, whole_numbers
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.movement import move
from mlf_sdk.ir.tensor import Quantisation


def resize_nearest(context: Context, operator: RawOperator) -> None:
    """RESIZE_NEAREST_NEIGHBOR."""
    options = operator.options("ResizeNearestNeighborOptions") or refuse("has no options")
    x, y = _resized(context, operator)
    aligned, centred = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    places = [range(extent) for extent in x.shape]
    for axis in (1, 2):
        size, wanted = x.shape[axis], y.shape[axis]
        at = np.arange(wanted, dtype=np.float32) + np.float32(0.5 if centred else 0)
        at = (at * _scale(size, wanted, aligned=aligned)).astype(np.float64)
        places[axis] = np.floor(at + 0.5 if aligned else at).clip(0, size - 1).astype(int).tolist()
    move(context, operator, [x], [y], (regions.pick(x.shape, places),))


def resize_bilinear(context: Context, operator: RawOperator) -> None:
    """RESIZE_BILINEAR."""
    options = operator.options("ResizeBilinearOptions") or refuse("has no options")
    x, y = _resized(context, operator)
    aligned, centred = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    if x.dtype == np.float32 and y.dtype == np.float32:
        _resample_reals(context, operator, x, y, aligned=aligned, centred=centred)
        return
    if x.dtype == np.uint8 and y.dtype == np.uint8:
        context.copy_stored(operator, x, y)
        _resample_bytes(context, operator, x, y, aligned=aligned, centred=centred)
        return
    if x.dtype != np.int8 or y.dtype != np.int8:
        refuse(f"values of type {x.dtype}: int8, uint8 and float32 are supported")
    (rows, down), (columns, across) = (
        _positions(x.shape[a], y.shape[a], aligned=aligned, centred=centred) for a in (1, 2)
    )
    context.add_operator(
        Resample, operator, [x], y, rows=rows, columns=columns, row_weights=down, column_weights=across
    )


def _positions(size: int, wanted: int, *, aligned: bool, centred: bool) -> tuple[Array, Array]:
    """Lower and upper neighbour of each output position, and the weights of both in 1/1024."""
    scale = ((size << 10) + wanted // 2) // wanted
    if aligned and wanted > 1:
        scale = ((1 << 10) * (size - 1) + (wanted - 1) // 2) // (wanted - 1)
    steps = np.arange(wanted, dtype=np.int64)
    scaled = steps * scale
    if centred:
        scaled = scaled + scale // 2 - (1 << 9)
    whole = np.where(scaled >= 0, scaled // 1024, -((-scaled) // 1024))
    lower = np.maximum(whole, 0)
    ceiling = np.where(scaled + 1023 >= 0, (scaled + 1023) // 1024, 0)
    upper = np.minimum(ceiling, size - 1)
    part = scaled - lower * 1024
    return np.stack([lower, upper], axis=1), np.stack([1024 - part, part], axis=1)


def _resample_bytes(
    context: Context, operator: RawOperator, x: Value, y: Value, *, aligned: bool, centred: bool
) -> None:
    """RESIZE_BILINEAR of uint8 values: TensorFlow Lite takes them for real ones, and rounds the result.

    Weights are multiples of 1/256 here: all sums are exact in single precision, and results within one step
    of those of TensorFlow Lite.
    """
    plain, real = Quantisation(scale=(1.0,), zero_point=(0,)), np.dtype(np.float32)
    given, result = (context.add(f"{v.name}_plain", v.dtype, v.shape, plain) for v in (x, y))
    wide, results = (context.add(f"{v.name}_real", real, v.shape) for v in (x, y))
    context.add_operator(Reshape, operator, [x], given)
    context.add_operator(Convert, operator, [given], wide)
    _resample_reals(context, operator, wide, results, aligned=aligned, centred=centred, steps=256)
    context.add_operator(Convert, operator, [results], result)
    context.add_operator(Reshape, operator, [result], y)


def _resized(context: Context, operator: RawOperator) -> tuple[Value, Value]:
    (x, size), y = context.inputs_and_output(operator, 2)
    if len(x.shape) != 4:
        refuse(f"an input of shape {x.shape}; height, width and channels with a batch are needed")
    expect_shape(y, (x.shape[0], *whole_numbers(size, "size"), x.shape[3]))
    if min(y.shape) < 1:
        refuse("an empty result")
    return x, y


def _scale(size: int, wanted: int, *, aligned: bool) -> np.float32:
    """Distance in the input between neighbours of the output, in single precision."""
    if aligned and wanted > 1:
        return np.float32(size - 1) / np.float32(wanted - 1)
    return np.float32(size) / np.float32(wanted)


def _resample_reals(
    context: Context,
    operator: RawOperator,
    x: Value,
    y: Value,
    *,
    aligned: bool,
    centred: bool,
    steps: int = 0,
) -> None:
    """RESIZE_BILINEAR of real numbers.

    Args:
        steps: weights are multiples of one divided by it; 0: they are what positions give.
    """
    tables = []
    for axis in (1, 2):
        size, wanted = x.shape[axis], y.shape[axis]
        scale = _scale(size, wanted, aligned=aligned)
        places = np.arange(wanted, dtype=np.float32)
        half = np.float32(0.5)
        at = (places + half) * scale - half if centred else places * scale
        lower = np.maximum(np.floor(at), 0)
        upper = np.minimum(np.ceil(at), size - 1)
        weight = (at - lower).astype(np.float32)
        if steps:
            weight = (np.rint(weight * steps) / steps).astype(np.float32)
        rows = np.stack([lower, upper], axis=1).clip(0, size - 1).astype(np.int64)
        tables.append((rows, np.stack([1 - weight, weight], axis=1).astype(np.float32)))
    (rows, down), (columns, across) = tables
    context.add_operator(
        Resample, operator, [x], y, rows=rows, columns=columns, row_weights=down, column_weights=across
    )
