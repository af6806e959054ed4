# SPDX-License-Identifier: Apache-2.0
"""ADD and SUB of int8 values as two products and a shift, where that equals the reference."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Array, Map
from mlf_sdk.compiler.requantise import multiply, sum_multipliers


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
    values = np.arange(-128, 128, dtype=np.int64)
    wanted = _reference(operator, a, b, y, values)
    sign = 1 if operator.expression.function == "add" else -1
    first, second = a.scale / y.scale, sign * b.scale / y.scale
    for bits in (22, 21, 20, 23, 19, 18):
        for near_a, near_b in product((0, 1, -1, 2, -2), repeat=2):
            fa, fb = round(first * 2**bits) + near_a, round(second * 2**bits) + near_b
            base = round((y.zero_point - first * a.zero_point - second * b.zero_point) * 2**bits) + (
                1 << (bits - 1)
            )
            if max(abs(fa), abs(fb), abs(base)) >= 1 << 31:
                break
            coarse = _constants(fa, fb, bits, values[::5], wanted[::5, ::5], operator.clamp)
            if coarse[0] > coarse[1]:  # some of the pairs have none: all have none
                continue
            least, most = _constants(fa, fb, bits, values, wanted, operator.clamp)
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


def _reference(operator: Map, a: Value, b: Value, y: Value, values: Array) -> Array:
    shift, first, second, last = sum_multipliers(operator.expression.function, a, b, y)
    left = multiply((values - a.zero_point) << shift, first)[:, None]
    right = multiply((values - b.zero_point) << shift, second)[None, :]
    total = left + right if operator.expression.function == "add" else left - right
    return np.clip(multiply(total, last) + y.zero_point, *operator.clamp)
