# SPDX-License-Identifier: Apache-2.0
"""Networks of time series whose layers over time have no padding, so that they are exact frame by frame."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tflite_models import Maker

Build = Callable[[Maker], int]


def reshaped(m: Maker, x: int, shape: tuple[int, ...]) -> int:
    sizes = m.spec.tensor(f"s{len(m.spec.tensors)}", "int32", (len(shape),), data=np.array(shape, np.int32))
    return m.spec.add("RESHAPE", (x, sizes), m.same_scale(x, shape), ("ReshapeOptions", {}))


def later_rows(m: Maker, x: int, rows: int, axis: int = 1) -> int:
    """The last rows of a value."""
    shape = m.spec.tensors[x].shape
    begin = tuple(shape[axis] - rows if k == axis else 0 for k in range(len(shape)))
    extents = tuple(rows if k == axis else n for k, n in enumerate(shape))
    bounds = [
        m.spec.tensor(f"s{len(m.spec.tensors)}", "int32", (len(shape),), data=np.array(one, np.int32))
        for one in (begin, extents)
    ]
    return m.spec.add("SLICE", (x, *bounds), m.same_scale(x, extents), ("SliceOptions", {}))


def classified(m: Maker, x: int) -> int:
    """A matrix product of all that is left."""
    return m.dense(x, 8)


def wake_word(m: Maker) -> int:
    """Separable layers down to one row, as of MLPerf's streaming wake word."""
    x = m.conv(m.input((1, 17, 1, 8)), 8, (3, 1), 1, same=False, depthwise=True)
    x = m.conv(m.conv(x, 16, (1, 1), 1, same=False, activation=1), 16, (5, 1), 1, same=False, depthwise=True)
    x = m.conv(m.conv(x, 16, (1, 1), 1, same=False), 16, (11, 1), 1, same=False, depthwise=True)
    return classified(m, m.conv(x, 8, (1, 1), 1, same=False))


def convolutional(m: Maker) -> int:
    """Blocks of dilated layers whose inputs are added to what they make: a TCN; then an average over time."""
    x = m.conv(m.input((1, 24, 1, 6)), 8, (2, 1), 1, same=False)
    for dilation in (1, 2, 4):
        y = m.conv(x, 8, (3, 1), 1, same=False, dilation=dilation, activation=1)
        y = m.conv(y, 8, (1, 1), 1, same=False)
        x = m.binary("ADD", y, later_rows(m, x, m.spec.tensors[y].shape[1]))
    return classified(m, m.pool(x, m.spec.tensors[x].shape[1], largest=False))


def dilated_depthwise(m: Maker) -> int:
    """Depthwise layers with gaps; the rows of two of them are joined along channels."""
    x = m.conv(m.input((1, 21, 1, 4)), 8, (1, 1), 1, same=False)
    a = m.conv(x, 8, (3, 1), 1, same=False, depthwise=True, dilation=3)
    b = later_rows(m, m.logistic(m.conv(x, 8, (2, 1), 1, same=False, depthwise=True)), 15)
    a = m.logistic(a)
    joined = m.spec.add(
        "CONCATENATION", (a, b), m.same_scale(a, (1, 15, 1, 16)), ("ConcatenationOptions", {"Axis": 3})
    )
    return classified(m, m.conv(joined, 4, (15, 1), 1, same=False))


def strided(m: Maker) -> int:
    """Four rows of the input in each frame."""
    x = m.conv(m.input((1, 31, 5, 2)), 8, (3, 3), 1, same=False)
    x = m.pool(m.logistic(m.conv(x, 8, (2, 2), 1, same=False)), 2, largest=True)
    return classified(m, m.conv(x, 8, (4, 1), 2, same=False))


def one_dimension(m: Maker) -> int:
    """Time on the third axis, as layers of one dimension have it; the input without the second."""
    x = reshaped(m, m.input((1, 19, 4)), (1, 1, 19, 4))
    x = m.conv(m.conv(x, 8, (1, 3), 1, same=False, activation=1), 8, (1, 4), 1, same=False, depthwise=True)
    x = m.binary("MUL", m.logistic(x), m.conv(x, 8, (1, 1), 1, same=False))
    return classified(m, reshaped(m, m.conv(x, 4, (1, 3), 1, same=False), (1, 12 * 4)))


def flat(m: Maker) -> int:
    """The input itself has time on the third axis; windows have gaps."""
    x = m.conv(m.input((1, 1, 20, 4)), 8, (1, 3), 1, same=False, dilation=2)
    return classified(m, m.conv(m.conv(x, 8, (1, 5), 1, same=False), 4, (1, 1), 1, same=False))


def images(m: Maker) -> int:
    """Rows of several pixels: windows over time and frequency without padding."""
    x = m.conv(m.input((1, 14, 9, 1)), 8, (3, 3), 1, same=False)
    x = m.conv(m.conv(x, 8, (3, 3), 1, same=False, depthwise=True), 6, (1, 1), 1, same=False)
    return classified(m, m.conv(x, 5, (4, 5), 1, same=False))


def late_rows(m: Maker) -> int:
    """Rows of the middle of the window: both ends of a value are left out."""
    x = m.conv(m.input((1, 16, 1, 4)), 4, (3, 1), 1, same=False)
    y = m.conv(x, 4, (5, 1), 1, same=False)
    sizes = [(0, 2, 0, 0), (1, 10, 1, 4)]
    bounds = [
        m.spec.tensor(f"s{len(m.spec.tensors)}", "int32", (4,), data=np.array(one, np.int32)) for one in sizes
    ]
    middle = m.spec.add("SLICE", (x, *bounds), m.same_scale(x, (1, 10, 1, 4)), ("SliceOptions", {}))
    return classified(m, m.binary("ADD", y, middle))


EXACT: tuple[Build, ...] = (
    wake_word,
    convolutional,
    dilated_depthwise,
    strided,
    one_dimension,
    flat,
    images,
    late_rows,
)


def drawn(m: Maker, random: np.random.Generator) -> int:
    """A random network: windows, gaps, strides and residuals over time, maps of one or several columns."""
    width = int(random.choice([1, 1, 4, 7]))
    x = m.input((1, int(random.integers(18, 40)), width, int(random.integers(1, 7))))
    for _ in range(int(random.integers(2, 6))):
        _, rows, columns, channels = m.spec.tensors[x].shape
        kind = random.choice(["conv", "depthwise", "point", "residual", "table", "pool"])
        gap = int(random.choice([1, 1, 2, 3])) if columns == 1 else 1
        size = (int(random.integers(1, 6)), 1 if columns < 3 else int(random.integers(1, 4)))
        left = rows - (size[0] - 1) * gap
        if kind in ("conv", "residual", "depthwise") and left >= 3:
            stride = int(random.choice([1, 1, 1, 2])) if columns == 1 or columns > 4 else 1
            stride = 1 if (left - 1) // stride < 3 or gap > 1 or kind == "residual" else stride
            if kind == "residual":
                size = (size[0], 1)
            made = channels if kind != "conv" else int(random.integers(1, 10))
            y = m.conv(x, made, size, stride, same=False, depthwise=kind == "depthwise", dilation=gap)
            x = m.binary("ADD", y, later_rows(m, x, left)) if kind == "residual" else y
        elif kind == "point":
            x = m.conv(x, int(random.integers(1, 12)), (1, 1), 1, same=False)
        elif kind == "table":
            x = m.logistic(x)
        elif kind == "pool" and rows % 2 == columns % 2 == 0 and rows > 6:
            x = m.pool(x, 2, largest=bool(random.integers(0, 2)))
    _, rows, columns, _ = m.spec.tensors[x].shape
    if random.integers(0, 2) and columns == 1:
        x = m.pool(x, rows, largest=False)
    return classified(m, x)
