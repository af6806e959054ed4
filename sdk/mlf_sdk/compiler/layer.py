# SPDX-License-Identifier: Apache-2.0
"""Facts about operators for people: multiply-accumulates, windows, and the comment before a kernel."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, Role
from mlf_sdk.compiler.operators import (
    Conv2D,
    Convolve,
    DepthwiseConv2D,
    FullyConnected,
    Fused,
    Operator,
    Pool2D,
    TransposeConv,
    Window,
)
from mlf_sdk.compiler.recurrences import Lstm, Recurrent, Svdf
from mlf_sdk.tools.ctext import c_comment

STRIP: Final = "STRIP"
"""Beginning of the kind of the copy that begins a strip."""
_COUNTS: Final = re.compile(r"/\* \w+: (\d+) instructions for (\d+) products \*/")


def macs_of(graph: Graph, operator: Operator) -> int:
    """Multiplications with weights in one inference, padding included; 0 for operators without weights."""
    match operator:
        case Conv2D() | DepthwiseConv2D() | FullyConnected() | Convolve():
            weights, y = graph.read(operator)[1], graph.written(operator)[0]
            each = weights.shape[1:3] if isinstance(operator, DepthwiseConv2D) else weights.shape[1:]
            return y.elements * math.prod(each)
        case TransposeConv():
            x, weights = graph.read(operator)[:2]
            return x.elements // x.shape[3] * weights.elements
        case Fused():
            return sum(macs_of(graph, one) for one in operator.operators)
        case Svdf():
            x, features, times = graph.read(operator)[:3]
            return x.shape[0] * (features.elements + times.elements)
        case Recurrent() | Lstm():
            sequence, *others = graph.read(operator)
            used = others[:1] if isinstance(operator, Recurrent) else others[:8]
            return math.prod(sequence.shape[:2]) * sum(w.elements for w in used)
    return 0


def detail_of(operator: Operator) -> str:
    """Window of a layer: ``3x3, stride 2``; empty for operators without one."""
    match operator:
        case Conv2D() | DepthwiseConv2D() | TransposeConv() | Pool2D() | Convolve():
            return _window_text(operator.window)
        case Fused():
            first = operator.operators[0]
            strip = f", {first.kind.lower()}" if first.kind.startswith(STRIP) else ""
            return f"of layers {first.number} to {operator.number}{strip}"
    return ""


def _window_text(window: Window) -> str:
    parts = [f"{window.size[0]}x{window.size[1]}"]
    for name, pair in (("stride", window.stride), ("dilation", window.dilation)):
        if pair != (1, 1):
            parts.append(f"{name} {pair[0] if pair[0] == pair[1] else f'{pair[0]}x{pair[1]}'}")
    return ", ".join(parts)


def note_of(graph: Graph, operator: Operator, kernel: Kernel, cost: int | None) -> str:
    """Lines about the layer that a kernel computes, for the comment before its function.

    Args:
        cost: of one call, where it was measured, in the unit of the measurement.
    """
    detail, macs = detail_of(operator), macs_of(graph, operator)
    name = next((v.name for v in graph.written(operator)), "").partition(";")[0]
    read = [v for v in graph.read(operator) if v.data is None]
    work = [f"tile of {kernel.tile.text}"] if kernel.tile else []
    work += [f"{macs:,} MACs"] if macs else []
    work += _instructions_of_tile(kernel) if macs and kernel.tile else []
    work += [f"{cost / macs:.2f} for each as measured"] if macs and cost is not None else []
    lines = [
        f"Layer {operator.number}: {operator.kind}{f' {detail}' if detail else ''} '{name}'",
        f"  {_types(read)} -> {_types(graph.written(operator))}{'; ' if work else ''}{', '.join(work)}",
    ]
    for p in kernel.parameters:
        if p.role is Role.CONSTANT:
            size = kernel.constants[p.number].nbytes
            lines.append(f"  {p.name}: parameter '{constant_name(operator, p.number)}', {size:,} bytes")
    return "\n".join(c_comment(line, max_length=140) for line in lines)


def _instructions_of_tile(kernel: Kernel) -> list[str]:
    """Instructions a MAC of the largest tile in assembly, as its text has them; empty without one."""
    counts = [map(int, pair) for text in kernel.helpers.values() for pair in _COUNTS.findall(text)]
    products, instructions = max(((p, n) for n, p in counts), default=(0, 0))
    return [f"{instructions / products:.2f} instructions a MAC in the tile"] if products else []


def node_name(operator: Operator) -> str:
    """Name of an operator in its graph: ``conv_2d_4``."""
    return f"{operator.kind.lower().replace(':', '_')}_{operator.number}"


def constant_name(operator: Operator, number: int) -> str:
    """Name of the array that ``p0``, ``p1``... of an operator's kernel points to."""
    return f"{node_name(operator)}_p{number}"


def _types(values: Sequence[Value]) -> str:
    return ", ".join(f"{v.dtype.name} {list(v.shape)}" for v in values) or "nothing"
