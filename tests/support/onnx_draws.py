# SPDX-License-Identifier: Apache-2.0
"""Register of what a random ONNX network may draw, and the operands that draws choose from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from onnx_network import Array, Network, Point, Shape, Unfit, Value

Draw = Callable[[Network], None]
DRAWS: dict[str, dict[str, Draw]] = {"float": {}, "qdq": {}, "qoperator": {}}
STYLES = ("float", "qdq")


def draws(
    *kinds: str, styles: Sequence[str] = STYLES
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a draw of some operators; one of several is told which."""

    def register(draw: Callable[..., None]) -> Callable[..., None]:
        for kind in kinds:
            one: Draw = draw if len(kinds) == 1 else _told(draw, kind)
            for style in styles:
                DRAWS[style][kind] = one
        return draw

    return register


def _told(draw: Callable[..., None], kind: str) -> Draw:
    return lambda n: draw(n, kind)


# Operands


def real(n: Network, *ranks: int, fits: Callable[[Value], bool] = lambda _: True) -> Value:
    """Real numbers with one of these numbers of axes."""
    wanted = ranks or (1, 2, 3, 4, 5)
    found = n.pick(lambda v: v.is_real and v.rank in wanted and fits(v))
    if found is not None and not n.chance(0.05):
        return found
    other = n.pick(lambda v: v.is_real and v.data.size >= 12)
    if other is not None and n.chance(0.6):
        found = reshaped(n, other, factors(n, other.data.size, n.choice(wanted)))
        if fits(found):
            return found
    return fresh(n, n.shape(n.choice(wanted)))


def fresh(n: Network, shape: Shape) -> Value:
    """A further input of real numbers, in the form that the style has."""
    value = n.fresh(shape)
    if n.style == "qdq":
        n.pool.pop()
        value = dequantised(n, quantised(n, value))
        n.pool.append(value)
    return value


def factors(n: Network, size: int, rank: int) -> Shape:
    """A shape of ``rank`` axes with so many elements."""
    found = []
    for _ in range(rank - 1):
        found.append(n.choice([d for d in range(1, size + 1) if size % d == 0 and d <= 40]))
        size //= found[-1]
    return (*found, size)


def reshaped(n: Network, x: Value, shape: Shape) -> Value:
    wanted = list(shape)
    if n.chance(0.3):
        wanted[n.integer(0, len(wanted) - 1)] = -1
    if n.chance(0.2):
        at = [a for a, e in enumerate(wanted) if a < x.rank and x.shape[a] == e]
        if at:
            wanted[n.choice(at)] = 0
    more = {"allowzero": int(0 not in wanted)} if n.opset >= 14 and n.chance(0.1) else {}
    found: Value = n.node("Reshape", x, ints(n, wanted), **more)
    return found


def exact(n: Network, *ranks: int) -> Value:
    """Real numbers without rounding errors; multiples of 1/8 where there are none."""
    wanted = ranks or (1, 2, 3, 4)
    found = n.pick(lambda v: v.is_real and v.rank in wanted and v.is_exact)
    if found is not None and n.chance(0.7):
        return found
    return n.input((n.random.integers(-40, 41, n.shape(n.choice(wanted))) / 8).astype(np.float32))


def within(n: Network, low: float, high: float) -> Value:
    """Real numbers between two limits."""
    found = n.pick(lambda v: v.is_real and bool((v.data >= low).all() and (v.data <= high).all()))
    if found is not None and n.chance(0.7):
        return found
    if n.chance(0.3):
        return n.input(n.random.uniform(low, high, n.shape(n.integer(1, 4))).astype(np.float32))
    x = n.node("Sigmoid", real(n))
    x = n.node("Mul", x, n.constant(np.float32(0.9 * (high - low))))
    return n.node("Add", x, n.constant(np.float32(low + 0.05 * (high - low))))


def whole(n: Network, *dtypes: str) -> Value:
    """Whole numbers."""
    found = n.pick(lambda v: v.data.dtype.name in dtypes and v.scale is None)
    if found is not None and n.chance(0.7):
        return found
    return n.fresh(n.shape(n.integer(1, 4)), n.choice(dtypes))


def truth(n: Network) -> Value:
    """Truth values."""
    found = n.pick(lambda v: v.data.dtype == np.bool_)
    return found if found is not None and n.chance(0.8) else n.fresh(n.shape(n.integer(1, 4)), "bool")


def like(n: Network, x: Value, *, least: float | None = None, exactly: bool = False) -> Value:
    """An operand for ``x`` of a shape that is broadcast with its own.

    Args:
        least: smallest magnitude of the numbers, for divisors.
        exactly: no rounding errors.
    """
    other = n.pick(
        lambda v: (
            v.data.dtype == x.data.dtype
            and v is not x
            and _fits(v.shape, x.shape)
            and (v.is_exact or not exactly)
            and (least is None or float(np.abs(v.data).min()) >= least)
        )
    )
    if other is not None and n.chance(0.6):
        return other
    shape = tuple(1 if n.chance(0.4) else e for e in x.shape)
    shape = shape[n.integer(0, len(shape)) if n.chance(0.4) else 0 :]
    if n.chance(0.15) and x.rank < 4:
        shape = (2, *x.shape)
    dtype = x.data.dtype
    if dtype == np.bool_:
        data: Array = n.random.integers(0, 2, shape).astype(bool)
    elif dtype.kind in "iu":
        low = max(-7, int(np.iinfo(dtype).min))
        data = n.random.integers(low, 8, shape).astype(dtype)
        data = np.where(data == 0, 3, data).astype(dtype) if least is not None else data
    else:
        data = n.random.uniform(-2, 2, shape).astype(np.float32)
        if exactly:
            data = np.round(data * 8) / np.float32(8)
        if least is not None:
            data = np.where(data < 0, data - least, data + least).astype(np.float32)
    return n.constant(data) if n.chance(0.6) else n.input(data)


def _fits(a: Shape, b: Shape) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) <= 1500
    except ValueError:
        return False


def axis_of(n: Network, rank: int) -> int:
    """An axis, counted from the front or from behind."""
    axis = n.integer(0, rank - 1)
    return axis - rank if n.chance(0.4) else axis


def ints(n: Network, data: Sequence[int]) -> Value:
    """Constant whole numbers."""
    return n.constant(np.array(data, np.int64))


# Results


def put(n: Network, *values: Value) -> None:
    """Give results to the network, quantised in most of a network of such."""
    for value in values:
        n.pool.append(settled(n, value) if n.style == "qdq" and value.is_real else value)


def settled(n: Network, value: Value) -> Value:
    """A result in stored numbers, perhaps limited before."""
    if n.chance(0.12):
        return value
    if n.chance(0.25):
        value = n.node("Relu", value)
    elif n.chance(0.15) and n.opset >= 11:
        low, high = sorted(float(v) for v in n.random.uniform(value.data.min(), value.data.max(), 2))
        limits = [n.constant(np.float32(v)) for v in (low, high)]
        value = n.node("Clip", value, *limits[: n.integer(1, 2)])
    return dequantised(n, quantised(n, value))


def scale_for(n: Network, data: Array, wanted: Any = None) -> tuple[Array, Array]:
    """Scale and zero point for numbers, which may take a little more than their range or less.

    Args:
        wanted: type of the stored numbers.
    """
    signed = n.chance(0.5) if wanted is None else wanted == np.int8
    low, high = min(float(data.min()), 0.0), max(float(data.max()), 0.0)
    scale = np.float32((high - low) / 255 * n.random.uniform(0.7, 1.5))
    if not scale > 0:
        raise Unfit("no range")
    dtype = np.int8 if signed else np.uint8
    info = np.iinfo(dtype)
    zero = int(np.clip(round(info.min - low / scale) + n.integer(-3, 3), info.min, info.max))
    if signed and n.chance(0.2):
        scale, zero = np.float32(max(-low, high) / 127), 0
    return np.asarray(scale, np.float32), np.asarray(zero, dtype)


def quantised(n: Network, x: Value) -> Value:
    """QuantizeLinear."""
    scale, zero = scale_for(n, x.data)
    operands = [n.constant(scale), n.constant(zero)]
    if zero == 0 and zero.dtype == np.uint8 and n.chance(0.5):
        operands.pop()
    more = {}
    if x.rank and n.opset >= 13 and n.chance(0.1):
        more["axis"] = n.integer(0, x.rank - 1)
    if n.opset >= 19 and n.chance(0.1):
        more["saturate"] = 1
    q: Value = n.node("QuantizeLinear", x, *operands, **more)
    return point(n, q, x.name, scale, zero)


def point(n: Network, q: Value, source: str, scale: Array, zero: Array) -> Value:
    """State that a value holds quantised numbers, and where they come from."""
    q.scale, q.zero = scale, zero
    n.points.append(
        Point(name=q.name, source=source, scale=float(scale), zero=int(zero), dtype=zero.dtype, shape=q.shape)
    )
    return q


def dequantised(n: Network, q: Value) -> Value:
    """DequantizeLinear."""
    if q.scale is None or q.zero is None:
        raise Unfit("not quantised")
    operands = [n.constant(q.scale), n.constant(q.zero)]
    if q.zero == 0 and q.zero.ndim == 0 and n.chance(0.3):
        operands.pop()
    more = {"axis": n.integer(0, q.rank - 1)} if q.rank and n.opset >= 13 and n.chance(0.1) else {}
    x: Value = n.node("DequantizeLinear", q, *operands, **more)
    x.origin = q
    return x


# Weights


def parameter(n: Network, data: Array) -> Value:
    """Constant numbers of a layer; now and then those of a run."""
    if n.style != "float" or n.chance(0.93):
        return n.constant(data)
    value = n.input(data)
    n.pool.pop()
    return value


def stored(n: Network, data: Array, axis: int | None, *, wide: bool = False) -> Value:
    """Constant quantised weights with a scale for all, or one for each index of an axis.

    Args:
        wide: zero points other than 0 may occur.
    """
    whole_scale = axis is None or n.opset < 13 or n.chance(0.5)
    axes = None if whole_scale else tuple(a for a in range(data.ndim) if a != axis)
    scale = (np.abs(data).max(axis=axes) / 127 + 1e-4).astype(np.float32)
    spread = scale if whole_scale else scale.reshape([-1 if a == axis else 1 for a in range(data.ndim)])
    unsigned = wide and n.chance(0.3)
    offset = 128 + n.integer(-20, 20) * (n.chance(0.5) and whole_scale) if unsigned else 0
    numbers = np.rint(data / spread) + offset
    dtype = np.uint8 if unsigned else np.int8
    numbers = np.clip(numbers, np.iinfo(dtype).min + (not unsigned), np.iinfo(dtype).max).astype(dtype)
    q = n.constant(numbers)
    q.scale, q.zero = np.asarray(scale), np.full(scale.shape, offset, dtype)
    return q


def weights(n: Network, shape: Shape, axis: int | None) -> Value:
    """Constant weights, in the form that the style has; ``axis`` is that of the output channels."""
    data = (n.random.standard_normal(shape) * n.random.uniform(0.2, 0.6)).astype(np.float32)
    if n.style != "qdq":
        return parameter(n, data)
    if n.chance(0.1):
        return n.constant(data)
    q = stored(n, data, axis, wide=True)
    return _restored(n, q, axis)


def _restored(n: Network, q: Value, axis: int | None) -> Value:
    """Dequantised constants."""
    assert q.scale is not None and q.zero is not None
    operands = [n.constant(q.scale)]
    if q.zero.any() or q.zero.dtype == np.uint8 or n.chance(0.7):
        operands.append(n.constant(q.zero))
    attributes = {"axis": axis} if q.scale.size > 1 or (q.scale.ndim and n.opset >= 13) else {}
    x: Value = n.node("DequantizeLinear", q, *operands, **attributes)
    x.origin = q
    return x


def bias(n: Network, count: int, x: Value, w: Value) -> Value:
    """Constant biases: at the scale of the sums between stored numbers, real ones otherwise."""
    data = n.random.uniform(-1, 1, count).astype(np.float32)
    if x.origin is None or w.origin is None or x.origin.scale is None or w.origin.scale is None:
        return parameter(n, data)
    if n.chance(0.1):
        return n.constant(data)
    scale = (x.origin.scale * w.origin.scale).astype(np.float32)
    q = n.constant(np.rint(data / scale).astype(np.int32))
    q.scale, q.zero = scale, np.zeros(scale.shape, np.int32)
    return _restored(n, q, 0 if scale.ndim else None)


def meant(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    """A node of a network's meaning."""
    return helper.make_node(kind, inputs, [output], **attributes)
