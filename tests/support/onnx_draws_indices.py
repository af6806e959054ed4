# SPDX-License-Identifier: Apache-2.0
"""Draws of operators that choose or put elements by indices, and of integers whose scale a run decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_draws import axis_of, draws, exact, ints, put, real, whole
from onnx_draws_layers import window_of
from onnx_network import MICROSOFT, Array, Network, Shape, Unfit, Value


def _indices(n: Network, data: Array) -> Value:
    """Constant indices, or those of a run."""
    array = np.asarray(data, np.int64)
    if n.chance(0.6):
        return n.constant(array)
    value = n.input(array)
    n.pool.pop()
    return value


def _places(n: Network, extent: int, shape: Shape) -> Array:
    low = -extent if n.opset >= 11 and n.chance(0.4) else 0
    return n.random.integers(low, extent, shape)


@draws("GatherND", styles=("float",))
def gather_nd(n: Network) -> None:
    x = real(n, 2, 3, 4)
    batch = n.integer(0, 1) if n.opset >= 12 and x.rank > 1 else 0
    depth = n.integer(1, x.rank - batch)
    around = (*x.shape[:batch], *((n.integer(1, 3),) if n.chance(0.7) or not batch else ()))
    data = np.stack([_places(n, x.shape[batch + a], around) for a in range(depth)], axis=-1)
    put(n, n.node("GatherND", x, _indices(n, data), **({"batch_dims": batch} if batch else {})))


@draws("GatherElements", styles=("float",))
def gather_elements(n: Network) -> None:
    x = real(n, 1, 2, 3, 4)
    axis = axis_of(n, x.rank)
    shape = tuple(n.integer(1, e) for e in x.shape)
    found = {"axis": axis} if axis or n.chance(0.5) else {}
    put(n, n.node("GatherElements", x, _indices(n, _places(n, x.shape[axis], shape)), **found))


def _reduction(n: Network, since: int) -> dict[str, Any]:
    if n.opset < since or n.chance(0.5):
        return {}
    return {"reduction": n.choice(("none", "add", "mul", *(("max", "min") if n.opset >= 18 else ())))}


@draws("ScatterElements", "Scatter", styles=("float",))
def scatter_elements(n: Network, kind: str) -> None:
    if kind == "Scatter" and n.opset > 10:
        raise Unfit("ScatterElements took its place")
    x = exact(n, 1, 2, 3)
    axis = axis_of(n, x.rank) % x.rank
    shape = tuple(n.integer(1, e) for e in x.shape)
    count = shape[axis]
    # One index of each line along the axis: of several updates of one element the last is not defined.
    order = n.random.permuted(
        np.broadcast_to(np.arange(x.shape[axis]), (*shape[:axis], *shape[axis + 1 :], x.shape[axis])), axis=-1
    )
    data = np.moveaxis(order[..., :count], -1, axis)
    updates = (
        n.input((n.random.integers(-16, 17, shape) / 8).astype(np.float32))
        if n.chance(0.5)
        else n.normal(*shape)
    )
    found = _reduction(n, 16) if kind == "ScatterElements" else {}
    axis = axis - x.rank if n.chance(0.3) and n.opset >= 11 else axis
    put(
        n,
        n.node(
            kind, x, _indices(n, data), updates, **found, **({"axis": axis} if axis or n.chance(0.5) else {})
        ),
    )


@draws("ScatterND", styles=("float",))
def scatter_nd(n: Network) -> None:
    x = exact(n, 1, 2, 3)
    depth = n.integer(1, x.rank)
    places = n.random.permutation(int(np.prod(x.shape[:depth])))[: n.integer(1, 3)]
    data = np.stack(np.unravel_index(places, x.shape[:depth]), axis=-1)
    updates = n.normal(len(places), *x.shape[depth:])
    if n.chance(0.4):
        updates = n.input((n.random.integers(-16, 17, updates.shape) / 8).astype(np.float32))
    put(n, n.node("ScatterND", x, _indices(n, data), updates, **_reduction(n, 16)))


@draws("OneHot", styles=("float",))
def one_hot(n: Network) -> None:
    depth = n.integer(2, 6)
    shape = n.shape(n.integer(1, 2))
    if np.prod(shape) > 200:
        raise Unfit("too many")
    low = -depth if n.opset >= 11 else 0
    indices = n.input(n.random.integers(low, depth + 1, shape).astype(n.choice((np.int64, np.int32))))
    n.pool.pop()
    values = n.constant(np.array(n.choice(((0, 1), (-1.5, 2))), np.float32))
    axis = n.integer(-len(shape) - 1, len(shape))
    put(
        n,
        n.node(
            "OneHot",
            indices,
            n.constant(np.array(depth, np.int64)),
            values,
            **({"axis": axis} if n.chance(0.7) else {}),
        ),
    )


@draws("Hardmax", styles=("float",))
def hardmax(n: Network) -> None:
    if n.opset < 13:
        raise Unfit("its older form is refused by the reader")
    x = exact(n, 1, 2, 3, 4)
    put(n, n.node("Hardmax", x, **({"axis": axis_of(n, x.rank)} if n.chance(0.7) else {})))


@draws("TopK", styles=("float",))
def top_k(n: Network) -> None:
    x = exact(n, 1, 2, 3)
    axis = axis_of(n, x.rank)
    found: dict[str, Any] = {"axis": axis} if n.chance(0.7) else {}
    count = n.integer(1, x.shape[found.get("axis", -1)])
    if n.opset < 10:
        put(n, *n.node("TopK", x, k=count, outputs=2, **found))
        return
    if n.opset >= 11:
        found |= {"largest": n.integer(0, 1)} if n.chance(0.5) else {}
        found |= {"sorted": 1} if n.chance(0.3) else {}
    put(n, *n.node("TopK", x, ints(n, [count]), outputs=2, **found))


@draws("Trilu", styles=("float",))
def trilu(n: Network) -> None:
    x = real(n, 2, 3, 4)
    more = [n.constant(np.array(n.integer(-2, 2), np.int64))] if n.chance(0.6) else []
    put(n, n.node("Trilu", x, *more, **({"upper": n.integer(0, 1)} if n.chance(0.7) else {})))


@draws("EyeLike", styles=("float",))
def eye_like(n: Network) -> None:
    x = real(n, 2)
    found: dict[str, Any] = {"k": n.integer(-1, 2)} if n.chance(0.6) else {}
    if n.chance(0.5):
        found["dtype"] = 1
    y = n.node("EyeLike", x, **found)
    put(n, n.node("Mul", x, y))


@draws("LRN", styles=("float",))
def lrn(n: Network) -> None:
    x = real(n, 4)
    found = {"alpha": 0.01} if n.chance(0.5) else {}
    found |= {"beta": 0.6} if n.chance(0.5) else {}
    found |= {"bias": 1.5} if n.chance(0.5) else {}
    put(n, n.node("LRN", x, size=n.choice((1, 3, 5)), **found))


@draws("com.microsoft.QuickGelu")
def quick_gelu(n: Network) -> None:
    put(n, n.node("QuickGelu", real(n), domain=MICROSOFT, **({"alpha": 1.2} if n.chance(0.5) else {})))


# Integers. ONNX Runtime adds two products of uint8 and int8 in 16 bits on some processors, where they saturate:
# products of 7 bits do not.


def _byte(n: Network, *shape: int, dtype: str = "") -> Value:
    """Integers of 8 bits, of a run."""
    x = whole(n, dtype or n.choice(("uint8", "int8")))
    if not shape or x.shape == shape:
        return x
    return n.fresh(shape, x.data.dtype.name)


def _zero(n: Network, x: Value, *shape: int) -> Value:
    return n.constant(n.random.integers(0, 60, shape).astype(x.data.dtype))


@draws("DynamicQuantizeLinear", styles=("float",))
def dynamic_quantise(n: Network) -> None:
    """With the product that follows it in a model that was quantised so."""
    x = exact(n, 2, 3, 4)
    q, scale, zero = n.node("DynamicQuantizeLinear", x, outputs=3)
    if n.chance(0.3):
        put(n, q, scale, zero)
        return
    w = n.constant(n.random.integers(-64, 64, (x.shape[-1], n.integer(1, 6))).astype(np.int8))
    y = n.node("Cast", n.node("MatMulInteger", q, w, zero), to=1)
    put(n, n.node("Mul", y, n.node("Mul", scale, n.constant(np.float32(0.01)))))


@draws("MatMulInteger", styles=("float",))
def mat_mul_integer(n: Network) -> None:
    a = _byte(n, *n.shape(n.choice((2, 2, 3))))
    columns = n.integer(1, 6)
    dtype = n.choice(("int8", "uint8"))
    low, high = (0, 128) if dtype == "uint8" else (-64, 64)
    b = n.constant(n.random.integers(low, high, (a.shape[-1], columns)).astype(dtype))
    if n.chance(0.3) and (a.data.dtype.name, dtype) != ("uint8", "int8"):
        b = _byte(n, a.shape[-1], columns, dtype=dtype)
    operands = [a, b]
    if n.chance(0.6):
        operands.append(_zero(n, a))
        if n.chance(0.6):
            operands.append(_zero(n, b, *((columns,) if n.chance(0.4) else ())))
    put(n, n.node("MatMulInteger", *operands))


@draws("ConvInteger", styles=("float",))
def conv_integer(n: Network) -> None:
    x = _byte(n, *n.shape(4), dtype="uint8")
    groups = n.divisor(x.shape[1]) if n.chance(0.3) else 1
    outputs = groups * n.integer(1, 3)
    found = window_of(n, x.shape[2:])
    shape = (outputs, x.shape[1] // groups, *found["kernel_shape"])
    w = n.constant(n.random.integers(0, 128, shape).astype(np.uint8))
    if groups > 1:
        found["group"] = groups
    operands = [x, w, *([_zero(n, x), *([_zero(n, w)] if n.chance(0.5) else [])] if n.chance(0.6) else [])]
    put(n, n.node("ConvInteger", *operands, **found))


@draws("Einsum", styles=("float",))
def einsum(n: Network) -> None:
    x = real(n, 3)
    b, i, j = x.shape
    equation, shape = n.choice((
        ("bij,jk->bik", (j, 3)), ("bij,bjk->bki", (b, j, 2)), ("...j,jk->...k", (j, 4)), ("bij,bij->i", (b, i, j)),
    ))  # fmt: skip
    weights = n.constant((n.random.standard_normal(shape) * 0.3).astype(np.float32))
    put(n, n.node("Einsum", x, weights, equation=equation))


@draws("LpNormalization", styles=("float",))
def lp_normalization(n: Network) -> None:
    x = real(n, 1, 2, 3, 4)
    found = {"axis": axis_of(n, x.rank)} if n.chance(0.7) else {}
    put(n, n.node("LpNormalization", x, **found, **({"p": n.choice((1, 2))} if n.chance(0.7) else {})))


@draws("IsInf", styles=("float",))
def is_inf(n: Network) -> None:
    x = real(n)
    ends = n.constant(np.array(n.choice((np.inf, -np.inf, 1.0)), np.float32))
    signs = {f"detect_{sign}": n.integer(0, 1) for sign in ("positive", "negative") if n.chance(0.6)}
    put(n, n.node("Where", n.node("IsInf", n.node("Max", x, ends), **signs), ends, x))


@draws("BitShift", styles=("float",))
def bit_shift(n: Network) -> None:
    x = whole(n, "uint8")
    by = n.constant(n.random.integers(0, 8, x.shape[-1:]).astype(np.uint8))
    put(n, n.node("BitShift", x, by, direction=n.choice(("LEFT", "RIGHT"))))
