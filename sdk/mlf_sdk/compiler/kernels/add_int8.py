# SPDX-License-Identifier: Apache-2.0
"""ADD and SUB of int8 values as two products and a shift, where that equals the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, of_elements
from mlf_sdk.compiler.microkernels.builder import Builder
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array, Map, Rounding
from mlf_sdk.compiler.requantise import SUMS, Multiplier, multiply, sum_multipliers


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearSum:
    """``(a * first + b * second + c) >> bits``, before saturation."""

    a: int
    b: int
    c: int
    bits: int


def linear_sum(operator: Map, a: Value, b: Value, y: Value) -> LinearSum | None:
    """Factors that give the reference's result for all 65,536 pairs of values; None when none are found."""
    if y.dtype != np.int8:
        return None
    function = operator.expression.function
    words = sum_multipliers(function, a, b, y)
    sign = 1 if function == "add" else -1
    factors = a.scale / y.scale, sign * b.scale / y.scale
    return _linear_sum(sign, words, factors, (a.zero_point, b.zero_point, y.zero_point), operator.clamp)


@lru_cache(maxsize=512)
def _linear_sum(
    sign: int,
    words: tuple[int, Multiplier, Multiplier, Multiplier],
    factors: tuple[float, float],
    zero_points: tuple[int, int, int],
    clamp: tuple[float, float],
) -> LinearSum | None:
    """`linear_sum`, which tiles of one layer ask for again and again."""
    values = np.arange(-128, 128, dtype=np.int64)
    wanted = _reference(sign, words, values, zero_points, clamp)
    first, second = factors
    for bits in (22, 21, 20, 23, 19, 18):
        for near_a, near_b in product((0, 1, -1, 2, -2), repeat=2):
            fa, fb = round(first * 2**bits) + near_a, round(second * 2**bits) + near_b
            zero = zero_points[2] - first * zero_points[0] - second * zero_points[1]
            base = round(zero * 2**bits) + (1 << (bits - 1))
            if max(abs(fa), abs(fb), abs(base)) >= 1 << 31:
                break
            coarse = _constants(fa, fb, bits, values[::5], wanted[::5, ::5], clamp)
            if coarse[0] > coarse[1]:  # some of the pairs have none: all have none
                continue
            least, most = _constants(fa, fb, bits, values, wanted, clamp)
            ends = [sum(e) for e in product((-128 * fa, 127 * fa), (-128 * fb, 127 * fb))]
            for near in (0, 1, -1, 4, -4, 16, -16, 64, -64, 256, -256):
                if max(abs(end + base + near) for end in ends) >= 1 << 31:
                    break
                if least <= base + near <= most:
                    return LinearSum(a=fa, b=fb, c=base + near, bits=bits)
    return None


def _constants(
    fa: int, fb: int, bits: int, values: Array, wanted: Array, clamp: tuple[float, float]
) -> tuple[int, int]:
    """Smallest and largest constant with which all sums have the wanted result; the first is larger where none has."""
    partial = values[:, None] * fa + values[None, :] * fb
    least = ((wanted << bits) - partial)[wanted > clamp[0]]  # limits are reached from beyond them, too
    most = (((wanted + 1) << bits) - partial)[wanted < clamp[1]]
    return int(least.max(initial=-(1 << 62))), int(most.min(initial=1 << 62)) - 1


def _reference(
    sign: int,
    words: tuple[int, Multiplier, Multiplier, Multiplier],
    values: Array,
    zero_points: tuple[int, int, int],
    clamp: tuple[float, float],
) -> Array:
    shift, first, second, last = words
    left = multiply((values - zero_points[0]) << shift, first)[:, None]
    right = multiply((values - zero_points[1]) << shift, second)[None, :]
    return np.clip(multiply(left + sign * right, last) + zero_points[2], *clamp)


def sum_kernel(
    graph: Graph, operator: Map, target: str, record: Callable[[int, int, int], Builder]
) -> Kernel | None:
    """Kernel of ADD and SUB of tensors of one shape; None for others, and without a linear sum.

    Args:
        target: name of an instruction set.
        record: of bits, lowest and highest result: a function of both inputs, the output, its elements, the factors
            and what is added.
    """
    function = operator.expression.function
    if operator.rounding is not Rounding.TFLM or function not in SUMS:
        return None
    (a, b), (y,) = graph.read(operator), graph.written(operator)
    same = a.shape == b.shape == y.shape and a.dtype == b.dtype == y.dtype == np.int8
    if not same or a.data is not None or b.data is not None:
        return None
    result = linear_sum(operator, a, b, y)
    if result is None:
        return None
    low, high = int(operator.clamp[0]), int(operator.clamp[1])
    factors = ", ".join(f"{v & 0xFFFFFFFF}u" for v in (result.a, result.b, result.c))
    name = f"sums_{result.bits}_{low & 255}_{high & 255}"
    body = f"    {name}(x0, x1, y0, {y.elements}u, {factors});\n"
    texts = recorded(name, target, record, result.bits, low, high)
    overlaps = of_elements(a, y, 0) | of_elements(b, y, 1)
    return Kernel.of(graph, operator, function, body, helpers=texts, overlaps=overlaps)
