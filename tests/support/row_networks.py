# SPDX-License-Identifier: Apache-2.0
"""Small networks whose layers can hand rows on to each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tflite_models import Maker, OperatorSpec

Build = Callable[[Maker], int]


def pair(m: Maker) -> int:
    """A convolution and a depthwise one."""
    x = m.conv(m.input((1, 9, 6, 4)), 8, (3, 3), 1, same=True)
    return m.conv(x, 8, (3, 3), 1, same=True, depthwise=True)


def separable(m: Maker) -> int:
    """Two blocks of a MobileNet, the second of stride 2."""
    x = m.conv(m.input((1, 12, 10, 4)), 8, (3, 3), 2, same=True, activation=1)
    x = m.conv(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True, activation=3), 12, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 12, (3, 3), 2, same=True, depthwise=True), 16, (1, 1), 1, same=True)
    return m.conv(x, 16, (3, 3), 1, same=True, depthwise=True)


def residual(m: Maker) -> int:
    """A sum of an image and of two convolutions of it."""
    x = m.conv(m.input((1, 8, 5, 4)), 8, (3, 3), 1, same=True)
    y = m.conv(m.conv(x, 8, (3, 3), 1, same=True), 8, (3, 3), 1, same=True)
    return m.conv(m.binary("ADD", x, y), 4, (3, 3), 2, same=True)


def shared_slots(m: Maker) -> int:
    """Rows of depthwise layers and of operands lie where others end: MobileNetV2's block between other layers."""
    x = m.conv(m.input((1, 9, 6, 4)), 8, (1, 1), 1, same=True)
    y = m.conv(m.conv(x, 16, (1, 1), 1, same=True), 16, (3, 3), 1, same=True, depthwise=True)
    x = m.binary("ADD", x, m.conv(y, 8, (1, 1), 1, same=True))
    x = m.conv(m.conv(x, 8, (5, 5), 2, same=True, depthwise=True), 4, (1, 1), 1, same=True)
    return m.binary("MUL", m.logistic(x), x)


def two_branches(m: Maker) -> int:
    """Branches of windows and strides that differ, added."""
    x = m.conv(m.input((1, 8, 8, 4)), 8, (1, 1), 1, same=True)
    y = m.conv(x, 8, (5, 3), 2, same=True)
    return m.binary("ADD", y, m.conv(x, 8, (1, 1), 2, same=True))


def pooled(m: Maker) -> int:
    """Pooling, a table, and a factor a channel."""
    x = m.pool(m.conv(m.input((1, 10, 8, 4)), 8, (3, 3), 1, same=True), 2, largest=True)
    x = m.pool(m.logistic(x), 2, largest=False)
    return m.binary("MUL", x, m.input((1, 1, 1, 8)))


def reduced(m: Maker) -> int:
    """The average of all pixels of a map, and a table behind it."""
    x = m.conv(m.input((1, 9, 7, 4)), 8, (3, 3), 1, same=True)
    x = m.pool(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True), 9, largest=False)
    return m.logistic(x)


def largest(m: Maker) -> int:
    """The largest value of each channel of a map of two rows."""
    return m.pool(m.conv(m.input((1, 2, 5, 4)), 8, (3, 3), 1, same=True), 5, largest=True)


def dilated(m: Maker) -> int:
    """Windows with gaps, of even size, and without padding."""
    x = m.conv(m.input((1, 16, 8, 4)), 4, (3, 3), 1, same=True, dilation=2)
    x = m.conv(x, 4, (3, 3), 1, same=True, depthwise=True, dilation=3)
    return m.conv(m.conv(x, 8, (2, 2), 1, same=False), 4, (4, 4), 2, same=True)


def tall(m: Maker) -> int:
    """Maps of one column; windows that are larger than the map."""
    x = m.conv(m.input((1, 7, 1, 4)), 8, (5, 1), 2, same=True)
    return m.conv(m.conv(x, 8, (7, 1), 1, same=True), 4, (3, 1), 3, same=True)


def wide(m: Maker) -> int:
    """Depthwise layers of more columns than a block has, of both strides, and with no padding."""
    x = m.conv(m.input((1, 8, 31, 4)), 16, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 16, (3, 3), 1, same=True, depthwise=True), 8, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 8, (3, 3), 1, same=False, depthwise=True), 8, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 8, (3, 3), 2, same=True, depthwise=True), 12, (1, 1), 1, same=True)
    return m.conv(x, 12, (3, 3), 2, same=False, depthwise=True)


def odd_windows(m: Maker) -> int:
    """Depthwise windows of any size over odd extents, each between layers of one pixel: rows end where others lay."""
    x = m.conv(m.input((1, 13, 11, 4)), 8, (1, 1), 1, same=True)
    for size, stride in (((3, 3), 1), ((4, 4), 1), ((2, 3), 1), ((5, 5), 2), ((3, 5), 1)):
        x = m.conv(m.conv(x, 8, size, stride, same=True, depthwise=True), 8, (1, 1), 1, same=True)
    return x


def stacked(m: Maker) -> int:
    """Depthwise layers behind each other, and rows of one that a sum reads as well."""
    x = m.conv(m.input((1, 7, 6, 4)), 8, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True), 8, (3, 3), 1, same=True, depthwise=True)
    y = m.conv(x, 8, (3, 3), 1, same=True, depthwise=True)
    return m.conv(m.binary("ADD", x, y), 4, (1, 1), 1, same=True)


def narrow_bytes(m: Maker) -> int:
    """Rows of ten bytes, which begin within words: the first layer of a network of spectra."""
    x = m.conv(m.input((1, 13, 10, 1)), 8, (5, 4), 1, same=True)
    return m.conv(m.conv(x, 8, (3, 3), 2, same=True, depthwise=True), 8, (1, 1), 1, same=True)


def whole_network(m: Maker) -> int:
    """A region, and layers behind it that run as a whole."""
    x = m.conv(m.input((1, 16, 16, 4)), 16, (3, 3), 1, same=True, activation=1)
    x = m.conv(m.conv(x, 16, (3, 3), 2, same=True, depthwise=True), 8, (3, 3), 2, same=True)
    return m.softmax(m.dense(m.pool(x, 4, largest=False), 5))


def camera(m: Maker) -> int:
    """Large maps between an image and few bytes: what strips are for."""
    x = m.conv(m.input((1, 24, 48, 3)), 16, (3, 3), 1, same=True)
    x = m.conv(m.conv(x, 16, (3, 3), 2, same=True, depthwise=True), 16, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 16, (3, 3), 2, same=True, depthwise=True), 16, (1, 1), 1, same=True)
    return m.softmax(m.dense(m.pool(m.conv(x, 16, (3, 3), 2, same=True), 3, largest=False), 5))


def moved(m: Maker) -> int:
    """Branches that are joined along channels, then their nearest neighbours between other layers."""
    x = m.conv(m.input((1, 6, 5, 4)), 8, (3, 3), 1, same=True)
    a, b = m.logistic(m.conv(x, 4, (3, 3), 1, same=True)), m.logistic(m.conv(x, 8, (1, 1), 1, same=True))
    joined = m.spec.add(
        "CONCATENATION", (a, b), m.same_scale(a, (1, 6, 5, 12)), ("ConcatenationOptions", {"Axis": 3})
    )
    x = m.conv(joined, 8, (3, 3), 1, same=True)
    size = m.spec.tensor("size", "int32", (2,), data=np.array([12, 10], np.int32))
    up = m.spec.add(
        "RESIZE_NEAREST_NEIGHBOR",
        (x, size),
        m.same_scale(x, (1, 12, 10, 8)),
        ("ResizeNearestNeighborOptions", {"AlignCorners": False, "HalfPixelCenters": False}),
    )
    return m.conv(m.conv(up, 8, (3, 3), 1, same=True, depthwise=True), 4, (1, 1), 1, same=True)


def split(m: Maker) -> int:
    """Channels that are taken apart, one half of which is computed with: a shuffled block."""
    x = m.conv(m.input((1, 7, 6, 4)), 16, (1, 1), 1, same=True)
    axis = m.spec.tensor("axis", "int32", (), data=np.array(3, np.int32))
    halves = (m.same_scale(x, (1, 7, 6, 8)), m.same_scale(x, (1, 7, 6, 8)))
    m.spec.operators.append(OperatorSpec("SPLIT", (axis, x), halves, ("SplitOptions", {"NumSplits": 2})))
    y = m.logistic(m.conv(halves[1], 8, (3, 3), 1, same=True, depthwise=True))
    z = m.logistic(halves[0])
    joined = m.spec.add(
        "CONCATENATION", (z, y), m.same_scale(y, (1, 7, 6, 16)), ("ConcatenationOptions", {"Axis": 3})
    )
    return m.conv(joined, 4, (3, 3), 2, same=True)


def averaged(m: Maker) -> int:
    """The means of the channels of a map."""
    x = m.conv(m.input((1, 7, 9, 4)), 8, (3, 3), 1, same=True)
    x = m.conv(x, 12, (1, 1), 1, same=True)
    axes = m.spec.tensor("axes", "int32", (2,), data=np.array([1, 2], np.int32))
    y = m.activation((1, 12))
    return m.spec.add("MEAN", (m.logistic(x), axes), y, ("ReducerOptions", {"KeepDims": False}))


def gated(m: Maker) -> int:
    """A map times the means of its channels, which are no whole words: a gate of six channels."""
    x = m.conv(m.input((1, 7, 6, 4)), 6, (3, 3), 1, same=True)
    means = m.pool(x, 7, largest=False)
    return m.binary("MUL", x, m.logistic(means))


def replaced_twice(m: Maker) -> int:
    """Rows that two elementwise layers, one after the other, replace where the last one's output goes."""
    x = m.input((1, 8, 2, 4))
    joined = m.spec.add(
        "CONCATENATION", (x, x), m.same_scale(x, (1, 8, 2, 8)), ("ConcatenationOptions", {"Axis": 3})
    )
    data = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 2, 8)
    more = m.spec.tensor("more", "int8", data.shape, scale=(0.05,), zero_point=(0,), data=data)
    return m.logistic(m.binary("ADD", joined, more))


def low(m: Maker) -> int:
    """Maps of three rows, all of which are in a ring whose first slot is that of the padding above."""
    x = m.conv(m.input((1, 3, 5, 4)), 8, (1, 1), 1, same=True)
    for _ in range(2):
        x = m.conv(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True), 8, (1, 1), 1, same=True)
    return m.conv(x, 4, (3, 3), 1, same=True)


def flattened(m: Maker) -> int:
    """A map that is flattened for a dense layer, in rows of 32 bytes."""
    x = m.conv(m.input((1, 9, 7, 4)), 8, (3, 3), 1, same=True)
    x = m.conv(x, 8, (3, 3), 2, same=True)
    shape = m.spec.tensor("shape", "int32", (2,), data=np.array([1, 160], np.int32))
    flat = m.spec.add("RESHAPE", (x, shape), m.same_scale(x, (1, 160)), ("ReshapeOptions", {}))
    return m.dense(flat, 6, scales=6)


def two_rows_dense(m: Maker) -> int:
    """A dense layer of two rows of 15 bytes, which begin within words, and a table behind it."""
    return m.logistic(m.dense(m.input((1, 2, 5, 3)), 7, largest=128))


def keyword(m: Maker) -> int:
    """One layer over a spectrum, whose map is flattened for a dense one."""
    x = m.conv(m.input((1, 24, 20, 1)), 8, (10, 8), 2, same=True, activation=1)
    shape = m.spec.tensor("shape", "int32", (2,), data=np.array([1, 960], np.int32))
    flat = m.spec.add("RESHAPE", (x, shape), m.same_scale(x, (1, 960)), ("ReshapeOptions", {}))
    return m.softmax(m.dense(flat, 4, largest=20))


BUILDS = [
    flattened,
    two_rows_dense,
    low,
    replaced_twice,
    averaged,
    gated,
    moved,
    split,
    wide,
    stacked,
    narrow_bytes,
    pair,
    separable,
    residual,
    shared_slots,
    two_branches,
    pooled,
    reduced,
    largest,
    dilated,
    tall,
]
