# SPDX-License-Identifier: Apache-2.0
"""Draws of operators that read and write quantised numbers, each with the nodes that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_draws import dequantised, draws, meant, point, quantised, real, scale_for, settled, stored
from onnx_draws_layers import window_of
from onnx_network import MICROSOFT, Network, Unfit, Value

_OWN = ("qoperator",)


def _picked(n: Network, *ranks: int) -> Value:
    """Quantised numbers of the network; a quantised input where there are none."""
    found = n.pick(
        lambda v: v.scale is not None and v.data.dtype.name in ("int8", "uint8")
        and v.rank in (ranks or (1, 2, 3, 4, 5))
    )  # fmt: skip
    if found is not None:
        return found
    data = n.random.uniform(-3, 3, n.shape(n.choice(ranks or (2, 4)))).astype(np.float32)
    scale, zero = scale_for(n, data)
    if n.chance(0.5):
        q = n.input(np.rint(data / scale).clip(-60, 60).astype(np.int64).astype(zero.dtype))
        q.scale, q.zero = scale, zero
        return q
    x = n.input(data)
    n.pool.pop()
    q = n.node("QuantizeLinear", x, n.constant(scale), n.constant(zero))
    n.pool.append(point(n, q, x.name, scale, zero))
    return q


class _Operator:
    """A quantised operator whose result's scale is chosen when its real numbers are known."""

    def __init__(self, n: Network, kind: str, domain: str = MICROSOFT) -> None:
        self.n, self.kind, self.domain = n, kind, domain
        self.operands: list[Value | None] = []
        self.reads: list[Value] = []
        self.meaning: list[Any] = []

    @property
    def saturates(self) -> bool:
        """True for products of uint8 and int8, whose sums ONNX Runtime lets saturate at 16 bits on some processors."""
        found = [v.data.dtype.name for v in self.operands[::3] if v is not None]
        return self.kind in ("QLinearConv", "QLinearMatMul", "QGemm") and found[:2] == ["uint8", "int8"]

    def operand(self, q: Value, axis: int | None = None) -> str:
        """Add an input with its scale and zero point; the name of its real numbers."""
        assert q.scale is not None and q.zero is not None
        three = (q, self.n.constant(q.scale), self.n.constant(q.zero))
        self.operands += three
        self.reads += three
        name = self.n.name("real")
        attributes = {} if axis is None or not q.scale.ndim else {"axis": axis}
        self.meaning.append(meant("DequantizeLinear", [v.name for v in three], name, **attributes))
        return name

    def finish(
        self, kind: str, inputs: Sequence[str], *, last: Sequence[Value] = (), position: int | None = None,
        **attributes: Any,
    ) -> Value:  # fmt: skip
        """Add the node.

        Args:
            kind: of the operator between real numbers.
            last: operands behind the output's scale.
            position: of the output's scale; by default behind all others.
        """
        n = self.n
        source = n.name("real")
        plain = {k: v for k, v in attributes.items() if k not in ("channels_last", "opset")}
        self.meaning.append(meant(kind, inputs, source, **plain))
        ((data, _),) = n.computed(self.meaning, self.reads, [source])
        scale, zero = scale_for(n, data, self.reads[0].data.dtype)
        made = [n.constant(scale), n.constant(zero)]
        output = n.name(self.kind)
        self.meaning.append(meant("QuantizeLinear", [source, *(v.name for v in made)], output))
        operands = [*self.operands, *made, *last]
        if position is not None:
            operands = [*self.operands[:position], *made, *self.operands[position:], *last]
        q: Value = n.node(self.kind, *operands, domain=self.domain, meaning=self.meaning, **attributes)
        self.meaning[-1].output[0] = q.name
        wanted = np.clip(np.rint(data / scale) + zero.astype(np.int64), *_limits(zero))
        if not self.saturates:
            assert np.abs(q.data.astype(np.int64) - wanted).max() <= 1 + (kind == "Softmax"), self.kind
        return point(n, q, source, scale, zero)


def _limits(zero: Any) -> tuple[int, int]:
    info = np.iinfo(zero.dtype)
    return int(info.min), int(info.max)


def _give(n: Network, q: Value) -> None:
    n.pool.append(q)


@draws("QLinearConv", styles=_OWN)
def qlinear_conv(n: Network) -> None:
    x = _picked(n, 4, 4, 3)
    channels = x.shape[1]
    groups = channels if n.chance(0.35) else n.divisor(channels) if n.chance(0.3) else 1
    outputs = groups * n.choice((1, 1, 2)) if groups > 1 else n.choice((1, 2, 3, 5, 8, 8, 12))
    found = window_of(n, x.shape[2:])
    data = (n.random.standard_normal((outputs, channels // groups, *found["kernel_shape"])) * 0.4).astype(
        np.float32
    )
    w = stored(n, data, 0, wide=x.data.dtype == np.uint8)
    if groups > 1:
        found["group"] = groups
    one = _Operator(n, "QLinearConv", "")
    names = [one.operand(x), one.operand(w, 0)]
    last = []
    if n.chance(0.7):
        assert x.scale is not None and w.scale is not None
        scale = (x.scale * w.scale).astype(np.float32)
        numbers = np.rint(n.random.uniform(-1, 1, outputs) / scale).astype(np.int32)
        last = [n.constant(numbers)]
        three = [last[0], n.constant(scale)]
        one.reads += three
        names.append(n.name("real"))
        attributes = {"axis": 0} if scale.ndim else {}
        one.meaning.append(meant("DequantizeLinear", [v.name for v in three], names[-1], **attributes))
    _give(n, one.finish("Conv", names, last=last, **found))


@draws("QLinearMatMul", styles=_OWN)
def qlinear_mat_mul(n: Network) -> None:
    x = _picked(n, 2, 3, 4)
    inner, columns = x.shape[-1], n.choice((1, 2, 3, 5, 8, 12))
    other = n.pick(lambda v: v.scale is not None and v.rank == 2 and v.shape[0] == inner and v is not x)
    one = _Operator(n, "QLinearMatMul", "")
    w = stored(
        n,
        (n.random.standard_normal((inner, columns)) * 0.4).astype(np.float32),
        1,
        wide=x.data.dtype == np.uint8,
    )
    if other is not None and n.chance(0.3):
        w = other
    names = [one.operand(x), one.operand(w, 1)]
    _give(n, one.finish("MatMul", names))


@draws("com.microsoft.QGemm", styles=_OWN)
def qgemm(n: Network) -> None:
    x = _picked(n, 2)
    inner, columns, turned = x.shape[1], n.choice((1, 3, 5, 8)), n.chance(0.5)
    shape = (columns, inner) if turned else (inner, columns)
    w = stored(n, (n.random.standard_normal(shape) * 0.4).astype(np.float32), 0 if turned else 1)
    one = _Operator(n, "QGemm")
    names = [one.operand(x), one.operand(w, 0 if turned else 1)]
    found = {"transB": 1} if turned else {}
    if n.chance(0.7):
        assert x.scale is not None and w.scale is not None
        scale = (x.scale * w.scale).astype(np.float32)
        c = n.constant(np.rint(n.random.uniform(-1, 1, columns) / scale).astype(np.int32))
        factor = n.constant(scale)
        one.reads += [c, factor]
        names.append(n.name("real"))
        attributes = {"axis": 0} if scale.ndim else {}
        one.meaning.append(meant("DequantizeLinear", [c.name, factor.name], names[-1], **attributes))
        one.operands.append(c)
    else:
        one.operands.append(None)
    _give(n, one.finish("Gemm", names, **found))


@draws("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul", styles=_OWN)
def qlinear_binary(n: Network, kind: str) -> None:
    a = _picked(n)
    kind = kind.removeprefix(MICROSOFT + ".")
    b = n.pick(lambda v: v.scale is not None and v.data.dtype == a.data.dtype and v.shape == a.shape)
    if b is None or n.chance(0.3):
        shape = tuple(1 if n.chance(0.4) else e for e in a.shape)
        data = n.random.uniform(-2, 2, shape).astype(np.float32)
        scale = np.asarray(np.abs(data).max() / 100 + 1e-3, np.float32)
        zero = np.asarray(128 if a.data.dtype == np.uint8 else 0, a.data.dtype)
        numbers = np.clip(np.rint(data / scale) + int(zero), *_limits(zero)).astype(zero.dtype)
        b = n.constant(numbers)
        b.scale, b.zero = scale, zero
    one = _Operator(n, kind)
    names = [one.operand(a), one.operand(b)]
    _give(n, one.finish(kind.removeprefix("QLinear"), names))


_OF_ONE = {
    "QLinearSigmoid": {}, "QLinearLeakyRelu": {"alpha": 0.1}, "QLinearGlobalAveragePool": {"channels_last": 0},
    "QLinearAveragePool": {}, "QLinearSoftmax": {},
}  # fmt: skip


@draws(*(f"{MICROSOFT}.{kind}" for kind in _OF_ONE), styles=_OWN)
def qlinear_of_one(n: Network, kind: str) -> None:
    kind = kind.removeprefix(MICROSOFT + ".")
    x = _picked(n, *((4,) if kind.endswith("Pool") else (2, 3, 4)))
    found: dict[str, Any] = dict(_OF_ONE[kind])
    if kind == "QLinearAveragePool":
        found = window_of(n, x.shape[2:], dilated=False)
        if n.chance(0.3):
            found["count_include_pad"] = 1
    if kind == "QLinearSoftmax":
        found = {"axis": n.integer(0, x.rank - 1), "opset": n.opset}
        if n.opset >= 13:
            found["axis"] = n.integer(-x.rank, x.rank - 1)
    one = _Operator(n, kind)
    name = one.operand(x)
    _give(n, one.finish(kind.removeprefix("QLinear"), [name], **found))


@draws("com.microsoft.QLinearConcat", styles=_OWN)
def qlinear_concat(n: Network) -> None:
    a = _picked(n, 2, 3, 4)
    axis = n.integer(0, a.rank - 1)
    parts = [a, a] if n.chance(0.2) else [a]
    for v in n.pool:
        if v.scale is not None and v.rank == a.rank and v is not a and v.data.dtype == a.data.dtype:
            same = all(x == y for i, (x, y) in enumerate(zip(v.shape, a.shape, strict=True)) if i != axis)
            if same and len(parts) < 3:
                parts.append(v)
    if len(parts) < 2:
        raise Unfit("nothing to join")
    one = _Operator(n, "QLinearConcat")
    names = [one.operand(q) for q in parts]
    _give(n, one.finish("Concat", names, position=0, axis=axis))


@draws("QuantizeLinear", styles=("float",))
def quantise(n: Network) -> None:
    n.pool.append(quantised(n, real(n)))


@draws("DequantizeLinear", styles=("float", "qoperator"))
def dequantise(n: Network) -> None:
    q = n.pick(lambda v: v.scale is not None)
    if q is None and n.style == "float":
        q = quantised(n, real(n))
    if q is None:
        raise Unfit("nothing quantised")
    x = dequantised(n, q)
    n.pool.append(settled(n, x) if n.style == "qoperator" and n.chance(0.5) else x)
