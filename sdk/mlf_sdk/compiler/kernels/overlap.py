# SPDX-License-Identifier: Apache-2.0
"""Distances at which the output of a kernel may lie over its input, from the order of its loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Array, Window

Overlaps = dict[int, int]
"""Bytes by the number of an input: every output may start this far, or further, before the start of it."""


def may_share(x: Value, y: Value) -> bool:
    """True where C lets accesses to both types meet in one memory."""
    return x.dtype == y.dtype or 1 in (x.dtype.itemsize, y.dtype.itemsize)


def least_distance(read_from: Array, written: Array) -> int:
    """Least distance at which a kernel reads every byte before it writes over it.

    Args:
        read_from: lowest byte of the input that each part of the kernel's work reads, in order of time.
        written: end of what is written of the output before the last read of each part; never falls.
    """
    return max(0, int((written - read_from).max(initial=0)))


def of_elements(x: Value, y: Value, number: int = 0) -> Overlaps:
    """Overlaps of a kernel that reads element i of input ``number`` for the last time when it makes element i."""
    if not may_share(x, y):
        return {}
    return {number: max(0, (x.elements - 1) * (y.dtype.itemsize - x.dtype.itemsize))}


def of_operands(operands: Sequence[Value], y: Value) -> Overlaps:
    """Overlaps of an elementwise kernel with those operands that are as large as its output."""
    overlaps: Overlaps = {}
    for number, x in enumerate(operands):
        if x.data is None and x.elements == y.elements:
            overlaps |= of_elements(x, y, number)
    return overlaps


def of_parts(x: Value, y: Value, read_from: Array, written: Array) -> Overlaps:
    """Overlaps of a kernel with one input; both arrays count elements, see `least_distance`."""
    if not may_share(x, y):
        return {}
    return {0: least_distance(read_from * x.dtype.itemsize, written * y.dtype.itemsize)}


def of_windows(x: Value, y: Value, window: Window, pixel_written: int) -> Overlaps:
    """Overlaps of a kernel that makes one pixel after the other from windows of NHWC input.

    Args:
        pixel_written: elements of a pixel that are written before the last read for it.
    """
    n, ih, iw, ic = x.shape
    _, oh, ow, oc = y.shape
    rows = window_starts(np.arange(oh), window.stride[0], window.before[0], ih)
    columns = window_starts(np.arange(ow), window.stride[1], window.before[1], iw)
    read_from = (np.arange(n)[:, None, None] * ih + rows[:, None]) * iw + columns
    written = np.arange(n * oh * ow) * oc + pixel_written
    return of_parts(x, y, read_from.reshape(-1) * ic, written)


def window_starts(places: Array, stride: int, before: int, extent: int) -> Array:
    """First row (or column) of the input that the windows of rows (or columns) of the output reach."""
    return np.clip(places.astype(np.int64) * stride - before, 0, extent)
