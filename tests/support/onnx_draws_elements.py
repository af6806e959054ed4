# SPDX-License-Identifier: Apache-2.0
"""Draws of elementwise operators, reductions, and operators that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_draws import (
    axis_of,
    dequantised,
    draws,
    exact,
    ints,
    like,
    put,
    quantised,
    real,
    truth,
    whole,
    within,
)
from onnx_network import MICROSOFT, Network, Unfit, Value

# Functions of one number: limits between which they are drawn.
_SMOOTH = {
    "Acos": (-0.95, 0.95), "Acosh": (1.1, 6), "Asin": (-0.95, 0.95), "Atanh": (-0.9, 0.9), "Log": (0.1, 9),
    "Sqrt": (0.05, 9), "Tan": (-1.2, 1.2), "Reciprocal": (0.2, 5), "Exp": (-6, 4), "Sinh": (-4, 4),
    "Cosh": (-4, 4),
}  # fmt: skip
_ANYWHERE = [
    "Abs",
    "Asinh",
    "Atan",
    "Cos",
    "Erf",
    "HardSwish",
    "Mish",
    "Neg",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Relu",
    "Identity",
    "Gelu",
    "Elu",
    "HardSigmoid",
    "LeakyRelu",
    "Selu",
    "ThresholdedRelu",
    "Celu",
    "Shrink",
    "Dropout",
    "Swish",
]
_PARAMETERS = {
    "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",), "Selu": ("alpha", "gamma"),
    "Shrink": ("bias", "lambd"), "Swish": ("alpha",), "ThresholdedRelu": ("alpha",), "Celu": ("alpha",),
}  # fmt: skip


@draws(*_SMOOTH)
def limited(n: Network, kind: str) -> None:
    put(n, n.node(kind, within(n, *_SMOOTH[kind])))


@draws(*_ANYWHERE)
def anywhere(n: Network, kind: str) -> None:
    x = exact(n) if kind in ("ThresholdedRelu", "Shrink") and n.style == "float" else real(n)
    found: dict[str, Any] = {}
    for name in _PARAMETERS.get(kind, ()):
        if n.chance(0.6):
            low = 1.1 if name == "gamma" else 0.1
            found[name] = round(float(n.random.uniform(low, 1.5)), 3)
    if kind == "Gelu" and n.chance(0.6):
        found["approximate"] = n.choice(("none", "tanh"))
    if kind == "Dropout" and n.chance(0.5):
        if n.opset < 12:
            found["ratio"] = 0.3
        else:
            put(n, n.node(kind, x, n.constant(np.float32(0.3))))
            return
    put(n, n.node(kind, x, **found))


@draws("com.microsoft.Gelu")
def microsoft_gelu(n: Network) -> None:
    put(n, n.node("Gelu", real(n), domain=MICROSOFT))


@draws("Floor", "Ceil", "Round", "Sign", styles=("float",))
def stepped(n: Network, kind: str) -> None:
    x = (
        exact(n)
        if n.chance(0.8)
        else whole(n, "int32", "int8")
        if kind == "Sign" and n.chance(0.4)
        else real(n)
    )
    put(n, n.node(kind, x))


@draws("Clip")
def clip(n: Network) -> None:
    x = real(n) if n.chance(0.85) or n.opset < 12 else whole(n, "int32", "int8")
    limits = sorted(n.random.uniform(-2, 2, 2).astype(np.float32).tolist())
    if not x.is_real:
        limits = sorted(n.random.integers(-8, 9, 2).tolist())
    if n.opset < 11:
        found = {name: v for name, v in zip(("min", "max"), limits, strict=True) if n.chance(0.7)}
        put(n, n.node("Clip", x, **found))
        return
    made: list[Value | None] = [
        None if n.chance(0.2) else (n.input if n.chance(0.1) else n.constant)(np.asarray(v, x.data.dtype))
        for v in limits
    ]
    put(n, n.node("Clip", x, *made))


@draws("Add", "Sub", "Mul", "Div")
def arithmetic(n: Network, kind: str) -> None:
    a = whole(n, "int32", "int64") if n.chance(0.1) else real(n)
    b = like(n, a, least=0.3 if kind == "Div" else None)
    if n.chance(0.3) and kind != "Div":
        a, b = b, a
    put(n, n.node(kind, a, b))


@draws("Max", "Min", "Sum", "Mean")
def nary(n: Network, kind: str) -> None:
    a = whole(n, "int32") if kind in ("Max", "Min") and n.opset >= 12 and n.chance(0.15) else real(n)
    put(n, n.node(kind, a, *(like(n, a) for _ in range(n.integer(0, 3)))))


@draws("PRelu")
def prelu(n: Network) -> None:
    x = real(n)
    slope = n.constant(n.random.uniform(0.05, 0.9, x.shape[n.integer(0, x.rank) :]).astype(np.float32))
    if x.rank > 2 and n.chance(0.5):
        slope = n.normal(x.shape[1], *(1,) * (x.rank - 2))
    put(n, n.node("PRelu", x, slope))


@draws("Pow")
def power(n: Network) -> None:
    x = within(n, 0.2, 3) if n.chance(0.6) else real(n)
    if x.data.min() <= 0:
        y = n.constant(np.array(n.choice((2, 3)), n.choice((np.float32, np.int64, np.int32))))
    elif n.chance(0.5):
        y = n.constant(np.float32(n.choice((0.5, 1, 2, -1, 1.7, -0.5))))
    else:
        y = like(n, x)
    put(n, n.node("Pow", x, y))


@draws("Mod", styles=("float",))
def mod(n: Network) -> None:
    a = exact(n) if n.chance(0.5) else whole(n, "int32", "int64")
    b = like(n, a, least=0.5, exactly=True)
    found = {"fmod": 1} if a.is_real or n.chance(0.3) else {}
    put(n, n.node("Mod", a, b, **found))


_COMPARED = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")


@draws(*_COMPARED, styles=("float",))
def compare(n: Network, kind: str) -> None:
    a = exact(n) if n.chance(0.7) else whole(n, "int32", "int64")
    put(n, n.node(kind, a, like(n, a, exactly=True)))


@draws("And", "Or", "Xor", styles=("float",))
def logic(n: Network, kind: str) -> None:
    a = truth(n)
    put(n, n.node(kind, a, like(n, a)))


@draws("Not", styles=("float",))
def negation(n: Network) -> None:
    put(n, n.node("Not", truth(n)))


@draws("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", styles=("float",))
def bitwise(n: Network, kind: str) -> None:
    a = whole(n, "int8", "uint8", "int32", "int16")
    put(n, n.node(kind, a, *([] if kind == "BitwiseNot" else [like(n, a)])))


@draws("IsNaN", styles=("float",))
def is_nan(n: Network) -> None:
    put(n, n.node("IsNaN", real(n)))


@draws("Where", styles=("float",))
def where(n: Network) -> None:
    mask = truth(n)
    a = n.fresh(mask.shape) if n.chance(0.4) else n.normal(*mask.shape)
    put(n, n.node("Where", mask, a, like(n, a)))


_TO = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9}


@draws("Cast", styles=("float",))
def cast(n: Network) -> None:
    x = n.choice((exact, lambda m: whole(m, "int32", "int8", "uint8", "int64"), truth))(n)
    to = n.choice([t for t in _TO if t != x.data.dtype.name])
    if to in ("uint8", "int8", "int16") and (x.data.min() < 0 or x.data.max() > 100):
        to = "int32"
    found = {"saturate": 1} if n.opset >= 19 and n.chance(0.2) else {}
    put(n, n.node("Cast", x, to=_TO[to], **found))


@draws("CastLike", styles=("float",))
def cast_like(n: Network) -> None:
    x = exact(n)
    put(n, n.node("CastLike", x, n.constant(np.zeros(1, n.choice((np.int32, np.float32, np.int64))))))


@draws("CumSum")
def cum_sum(n: Network) -> None:
    x = real(n, 1, 2, 3, 4)
    found = {name: 1 for name in ("exclusive", "reverse") if n.chance(0.4)}
    put(n, n.node("CumSum", x, n.constant(np.array(axis_of(n, x.rank), np.int64)), **found))


_REDUCTIONS = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
]


@draws(*_REDUCTIONS)
def reduction(n: Network, kind: str) -> None:
    x = within(n, 0.5, 1.8) if kind in ("ReduceProd", "ReduceLogSum") else real(n)
    if kind in ("ReduceSum", "ReduceMax", "ReduceMin") and n.chance(0.1):
        x = whole(n, "int32")
    if not x.rank:
        raise Unfit("no axes")
    axes = sorted({axis_of(n, x.rank) % x.rank for _ in range(n.integer(1, x.rank))})
    if x.rank == 4 and n.chance(0.4):
        axes = [2, 3]
    axes = [a - x.rank if n.chance(0.3) and n.opset >= 11 else a for a in axes]
    found: dict[str, Any] = {"keepdims": n.integer(0, 1)} if n.chance(0.7) else {}
    since = 13 if kind == "ReduceSum" else 18
    if n.opset < since:
        put(n, n.node(kind, x, **(found | ({"axes": axes} if n.chance(0.85) else {}))))
        return
    if n.chance(0.2):
        found["noop_with_empty_axes"] = int(n.chance(0.5))
    operands = [x, ints(n, axes)] if n.chance(0.85) else [x]
    put(n, n.node(kind, *operands, **found))


@draws("ArgMax", "ArgMin", styles=("float", "qoperator"))
def arg_extreme(n: Network, kind: str) -> None:
    x = _stored(n) if n.style == "qoperator" else exact(n) if n.chance(0.6) else real(n, 1, 2, 3, 4)
    found: dict[str, Any] = {"axis": axis_of(n, x.rank)} if n.chance(0.8) else {}
    if n.chance(0.6):
        found["keepdims"] = n.integer(0, 1)
    if n.opset >= 12 and n.chance(0.15):
        found["select_last_index"] = n.integer(0, 1)
    put(n, n.node(kind, x, **found))


# Moves


def _stored(n: Network, *ranks: int) -> Value:
    found = n.pick(lambda v: v.data.dtype.name in ("int8", "uint8") and v.rank in (ranks or (2, 3, 4, 5)))
    if found is None:
        raise Unfit("nothing stored")
    return found


def _movable(n: Network, *ranks: int) -> Value:
    """A tensor of any type; of stored numbers where all are quantised."""
    if n.style == "qoperator":
        return _stored(n, *ranks)
    if n.style == "float" and n.chance(0.1) and not ranks:
        return whole(n, "int32", "int64", "int8", "uint8")
    return real(n, *ranks)


def _moved(n: Network, x: Value, y: Value) -> None:
    y.scale, y.zero = x.scale, x.zero
    n.pool.append(y)


_ALL = ("float", "qdq", "qoperator")


@draws("Transpose", styles=_ALL)
def transpose(n: Network) -> None:
    x = _movable(n)
    order = n.random.permutation(x.rank).tolist()
    if x.rank == 4 and n.chance(0.5):
        order = n.choice(([0, 2, 3, 1], [0, 3, 1, 2]))
    _moved(n, x, n.node("Transpose", x, **({"perm": order} if n.chance(0.8) else {})))


@draws("Slice", styles=_ALL)
def slice_(n: Network) -> None:
    x = _movable(n)
    if x.rank == 0:
        raise Unfit("no axis")
    chosen = sorted({axis_of(n, x.rank) % x.rank for _ in range(n.integer(1, 3))})
    starts, ends, steps = [], [], []
    for axis in chosen:
        extent = x.shape[axis]
        step = n.choice((1, 1, 1, 2, 3, -1, -2)) if n.opset >= 10 else 1
        low = n.integer(0, max(extent - 2, 0))
        high = n.integer(low + 1, extent)
        if step < 0:
            starts.append(high - 1 if n.chance(0.5) else high - 1 - extent)
            ends.append(low - 1 if low else -extent - 1)
        else:
            starts.append(low if n.chance(0.6) else low - extent)
            ends.append(high if n.chance(0.5) else high - extent if high < extent else 1 << 31)
        steps.append(step)
    axes = [a - x.rank if n.chance(0.3) and n.opset >= 10 else a for a in chosen]
    if n.opset < 10:
        found = {"starts": starts, "ends": ends}
        _moved(
            n, x, n.node("Slice", x, **found, **({} if chosen == [*range(len(chosen))] else {"axes": axes}))
        )
        return
    operands = [ints(n, starts), ints(n, ends), ints(n, axes)]
    if any(s != 1 for s in steps) or n.chance(0.3):
        operands.append(ints(n, steps))
    _moved(n, x, n.node("Slice", x, *operands))


@draws("Pad", styles=_ALL)
def pad(n: Network) -> None:
    x = _movable(n)
    mode = n.choice(("constant", "constant", "reflect", "edge", *(["wrap"] if n.opset >= 19 else [])))
    found: dict[str, Any] = {"mode": mode} if mode != "constant" or n.chance(0.5) else {}
    chosen = list(range(x.rank))
    with_axes = n.opset >= 18 and n.chance(0.3)
    if with_axes:
        chosen = sorted({axis_of(n, x.rank) % x.rank for _ in range(2)})
    most = [min(3, max(x.shape[a] - 1, 0)) if mode != "constant" else 3 for a in chosen]
    pads = [n.integer(0, m) if n.chance(0.5) else 0 for m in (*most, *most)]
    if mode == "constant" and n.chance(0.2):
        pads = [-1 if p == 1 and x.shape[a] > 4 else p for p, a in zip(pads, (*chosen, *chosen), strict=True)]
    value = 0.0 if n.chance(0.4) else round(float(n.random.uniform(-1, 1)), 2)
    if n.opset < 11:
        if not x.is_real:
            raise Unfit("pads real numbers alone")
        found |= {"value": value} if mode == "constant" and value else {}
        _moved(n, x, n.node("Pad", x, pads=pads, **found))
        return
    operands: list[Value | None] = [x, ints(n, pads)]
    if mode == "constant" and n.chance(0.7):
        operands.append(n.constant(np.asarray(value if x.is_real else int(value * 5) % 100, x.data.dtype)))
    if with_axes:
        operands += [None] * (3 - len(operands)) + [ints(n, chosen)]
    _moved(n, x, n.node("Pad", *operands, **found))


@draws("Expand", styles=_ALL)
def expand(n: Network) -> None:
    x = _movable(n)
    if 1 not in x.shape and x.rank < 4 and n.chance(0.6):
        x = (
            n.node("Unsqueeze", x, **({"axes": [0]} if n.opset < 13 else {}))
            if n.opset < 13
            else n.node("Unsqueeze", x, ints(n, [0]))
        )
    shape = [n.choice((1, 2, 3)) if e == 1 else n.choice((1, e)) for e in x.shape]
    shape = [2, *shape] if n.chance(0.2) and x.rank < 5 else shape[n.integer(0, 1) :] or shape
    _moved(n, x, n.node("Expand", x, ints(n, shape)))


@draws("Tile", styles=_ALL)
def tile(n: Network) -> None:
    x = _movable(n)
    _moved(n, x, n.node("Tile", x, ints(n, [n.choice((1, 1, 2, 3)) for _ in x.shape])))


@draws("Gather", styles=_ALL)
def gather(n: Network) -> None:
    x = _movable(n)
    axis = axis_of(n, x.rank)
    extent = x.shape[axis]
    shape = n.choice(((), (1,), (3,), (2, 2), (4,)))
    chosen = n.random.integers(-extent if n.opset >= 11 else 0, extent, shape)
    data = np.asarray(chosen, n.choice((np.int64, np.int32)))
    indices = n.input(np.abs(data) % extent) if n.chance(0.25) and x.is_real else n.constant(data)
    if not indices.constant:
        n.pool.pop()
    found = {"axis": axis} if axis or n.chance(0.3) else {}
    _moved(n, x, n.node("Gather", x, indices, **found))


@draws("Squeeze", styles=_ALL)
def squeeze(n: Network) -> None:
    x = _movable(n)
    places = [a for a, e in enumerate(x.shape) if e == 1]
    if not places or x.rank < 2:
        raise Unfit("no extent of 1")
    axes = [a - x.rank if n.chance(0.3) and n.opset >= 11 else a for a in places[: n.integer(1, len(places))]]
    if n.chance(0.3):
        _moved(n, x, n.node("Squeeze", x))
    elif n.opset < 13:
        _moved(n, x, n.node("Squeeze", x, axes=axes))
    else:
        _moved(n, x, n.node("Squeeze", x, ints(n, axes)))


@draws("Unsqueeze", styles=_ALL)
def unsqueeze(n: Network) -> None:
    x = _movable(n)
    if x.rank > 4:
        raise Unfit("axes enough")
    count = n.integer(1, 5 - x.rank)
    axes = sorted(n.random.choice(x.rank + count, count, replace=False).tolist())
    if n.opset >= 11 and n.chance(0.3):
        axes = [a - x.rank - count for a in axes]
    if n.opset < 13:
        _moved(n, x, n.node("Unsqueeze", x, axes=axes))
    else:
        _moved(n, x, n.node("Unsqueeze", x, ints(n, axes)))


@draws("DepthToSpace", "SpaceToDepth", styles=_ALL)
def blocks(n: Network, kind: str) -> None:
    x = _movable(n, 4)
    c, h, w = x.shape[1:]
    b = 2
    if (c % 4 if kind == "DepthToSpace" else h % 2 or w % 2) or (not x.is_real and n.opset < 13):
        if not x.is_real:
            raise Unfit("blocks don't fit")
        x = n.fresh((1, 8, 3, 2) if kind == "DepthToSpace" else (1, 3, 4, 6))
    found: dict[str, Any] = {"blocksize": b}
    if kind == "DepthToSpace" and n.opset >= 11 and n.chance(0.6):
        found["mode"] = n.choice(("DCR", "CRD"))
    _moved(n, x, n.node(kind, x, **found))


@draws("Concat")
def concat(n: Network) -> None:
    x = real(n) if n.style == "qdq" or n.chance(0.9) else whole(n, "int32", "int64")
    axis = axis_of(n, x.rank)
    rest = [e for a, e in enumerate(x.shape) if a != axis % x.rank]
    parts = [x]
    for _ in range(n.integer(1, 2)):
        other = n.pick(
            lambda v: (
                v.data.dtype == x.data.dtype
                and v.rank == x.rank
                and [e for a, e in enumerate(v.shape) if a != axis % x.rank] == rest
            )
        )
        if other is not None and n.chance(0.7):
            parts.append(other)
        elif x.is_real:
            shape = list(x.shape)
            shape[axis] = n.integer(1, 4)
            parts.append(n.normal(*shape) if n.chance(0.4) and n.style == "float" else n.fresh(tuple(shape)))
            if not parts[-1].constant:
                n.pool.pop()
                if n.style == "qdq":
                    parts[-1] = dequantised(n, quantised(n, parts[-1]))
    n.random.shuffle(parts)  # type: ignore[arg-type]
    put(n, n.node("Concat", *parts, axis=axis))


@draws("Split", styles=_ALL)
def split(n: Network) -> None:
    x = _movable(n)
    axis = axis_of(n, x.rank)
    extent = x.shape[axis]
    if extent < 2:
        raise Unfit("nothing to split")
    count = n.integer(2, min(3, extent))
    found: dict[str, Any] = {"axis": axis} if axis or n.chance(0.3) else {}
    operands = [x]
    if n.chance(0.6) or (extent % count and n.opset < 18):
        ends = sorted(n.random.choice(extent - 1, count - 1, replace=False).tolist())
        sizes = np.diff([0, *(e + 1 for e in ends), extent]).tolist()
        if n.opset < 13:
            found["split"] = sizes
        else:
            operands.append(ints(n, sizes))
    elif n.opset >= 18:
        found["num_outputs"] = count
        if extent < (count - 1) * -(-extent // count) + 1:
            raise Unfit("an empty part")
    for part in n.node("Split", *operands, outputs=count, **found):
        _moved(n, x, part)
