# SPDX-License-Identifier: Apache-2.0
"""Order of axes: layers compute with the channels last, and transpositions around them sink and cancel.

Readers state the order of their format: a layer stands between transpositions. What computes element by
element, moves elements along single axes or reduces axes takes the channels last from the layer before it,
so that a transposition is left only where something needs the other order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Convert, FullyConnected, Map, Move, Reshape
from mlf_sdk.compiler.passes.channels_last import Layout
from mlf_sdk.compiler.passes.rewrite import Rewrite
from mlf_sdk.compiler.regions import (
    TO_FIRST,
    TO_LAST,
    Shape,
    axis_with_channels_last,
    keeps_order,
    order_of,
    region_with_channels_last,
    shape_with_channels_last,
    with_channels_last,
)

if TYPE_CHECKING:
    from mlf_sdk.compiler.computed import LocalResponse
    from mlf_sdk.compiler.reals import Reduce, Resample

_RANKS: Final = (3, 4, 5)  # of tensors with channels and one to three axes behind them


def sink_transpositions(graph: Graph) -> Graph:
    """Let operators behind layers compute with the channels last; cancel the transpositions in between."""
    if not any(isinstance(o, Move | Reshape) for o in graph.operators):
        return graph
    layout = Layout(Rewrite(graph))
    for position, operator in enumerate(graph.operators):
        rule = _RULES.get(type(operator).__name__)
        if rule is not None:
            rule(layout, position, operator)
    return layout.rewrite.finish()


def _move(layout: Layout, position: int, operator: Move) -> None:
    """Cancel a transposition; let other moves along single axes take the channels last."""
    if len(operator.outputs) != 1:
        return
    (y,) = layout.rewrite.written(operator)
    inputs = [layout.value(i) for i in operator.inputs]
    order = order_of(operator, inputs[0].shape, y.shape) if len(inputs) == 1 else None
    if order is not None:
        _transposition(layout, position, operator, inputs[0], y, order)
        return
    ranks = {len(v.shape) for v in (*inputs, y)}
    if ranks not in ({3}, {4}) or not any(v.id in layout.last for v in inputs):
        return
    shapes = [v.shape for v in inputs]
    result = [region_with_channels_last(region, shapes[region.input], y.shape) for region in operator.regions]
    if any(region is None for region in result):
        return
    sources = tuple(layout.as_last(v.id, operator, position) for v in inputs)
    layout.put_last(position, operator, sources, regions=tuple(filter(None, result)))


def _transposition(layout: Layout, position: int, operator: Move, x: Value, y: Value, order: Shape) -> None:
    if not layout.agree(x, y):
        return
    if order == TO_LAST and _sinks(layout, x) and y.id not in layout.rewrite.outputs:
        layout.rewrite.redirect(y.id, layout.as_last(x.id, operator, position))
    elif order == TO_LAST:
        layout.turned[x.id] = y.id
    elif order == TO_FIRST:
        layout.last[y.id] = x.id
    elif order == (0, 2, 1) and x.id in layout.last:
        layout.rewrite.put(
            position,
            Reshape(number=operator.number, kind="Reshape", inputs=(layout.last[x.id],), outputs=(y.id,)),
        )
    elif order == (0, 2, 1):
        four = layout.rewrite.value(y, shape=shape_with_channels_last(y.shape))
        layout.last[y.id] = layout.reshaped(operator, x.id, four, position)


def _sinks(layout: Layout, x: Value) -> bool:
    """True where a value with its channels last exists, or can be made of bytes that have them last."""
    maker = layout.rewrite.maker(layout.same.get(x.id, x.id))
    stored = isinstance(maker, Convert) and layout.value(maker.inputs[0]).dtype.itemsize == 1
    return stored or x.id in layout.last or x.id in layout.turned


def _reshape(layout: Layout, position: int, operator: Reshape) -> None:
    """Keep track of values whose elements stay in their order, and of rows that are flattened."""
    (y,) = layout.rewrite.written(operator)
    x = layout.value(operator.inputs[0])
    if not layout.agree(x, y):
        return
    last = layout.last.get(x.id)
    whole = len(y.shape) in _RANKS and shape_with_channels_last(y.shape)
    turned = len(x.shape) in _RANKS and shape_with_channels_last(x.shape)
    if turned == y.shape and keeps_order(y.shape, TO_FIRST) and _sinks(layout, x):
        if y.id not in layout.rewrite.outputs:
            layout.rewrite.redirect(y.id, layout.as_last(x.id, operator, position))
        return
    if x.id in layout.planes and whole == layout.value(layout.planes[x.id]).shape:
        layout.last[y.id] = layout.planes[x.id]
        layout.put_back(position, operator, layout.planes[x.id], y)
    elif last is not None and whole == layout.value(last).shape and x.shape[:2] == y.shape[:2]:
        layout.last[y.id] = last
    elif last is not None and y.shape == (math.prod(x.shape[:2]), *x.shape[2:], 1) and len(y.shape) < 5:
        layout.planes[y.id] = last
    elif last is not None and len(y.shape) == 2 and y.shape[0] == x.shape[0]:
        order = with_channels_last(np.arange(y.shape[1]).reshape(1, *x.shape[1:])).reshape(-1)
        rows = layout.reshaped(operator, last, layout.rewrite.value(y), position)
        layout.flat[y.id] = rows, order
    elif whole == x.shape and keeps_order(x.shape, TO_FIRST):
        layout.last[y.id] = x.id
    elif whole == turned and whole:
        layout.same[y.id] = x.id


def _elementwise(layout: Layout, position: int, operator: Map | Convert) -> None:
    """Let a function of the elements at one place take the channels last, and rows as they lie."""
    (y,) = layout.rewrite.written(operator)
    inputs = [layout.value(i) for i in operator.inputs]
    varying = [v for v in inputs if not _is_constant(layout, v)]
    if len(inputs) == 1 and inputs[0].id in layout.flat:
        rows, order = layout.flat[inputs[0].id]
        layout.flat[y.id] = layout.insert(operator, rows, layout.rewrite.value(y), position), order
    if len(inputs) == 1 and inputs[0].id in layout.planes:
        planes = layout.value(layout.planes[inputs[0].id])
        target = layout.rewrite.value(y, shape=planes.shape)
        layout.planes[y.id] = layout.insert(operator, planes.id, target, position)
    rank = len(y.shape)
    if rank not in _RANKS or not any(v.id in layout.last for v in varying):
        return
    if any(len(v.shape) != rank and v.elements != 1 for v in varying):
        return
    if rank == 5 and any(v.shape[-2:] not in ((1, 1), y.shape[3:]) for v in inputs if v.elements > 1):
        return
    if any(v.quantisation is not None and v.quantisation.axis is not None for v in (*varying, y)):
        return
    operands = tuple(layout.operand(v.id, rank, operator, position) for v in inputs)
    if isinstance(operator, Convert) and inputs[0].dtype.itemsize == 1:
        layout.last[y.id] = layout.insert(operator, operands[0], layout.like(y), position)
    else:
        layout.put_last(position, operator, operands)


def _is_constant(layout: Layout, x: Value) -> bool:
    maker = layout.rewrite.maker(x.id)
    return x.data is not None or (
        isinstance(maker, Convert) and layout.value(maker.inputs[0]).data is not None
    )


def _reduce(layout: Layout, position: int, operator: Reduce) -> None:
    """Let a reduction take the channels last."""
    x = layout.value(operator.inputs[0])
    (y,) = layout.rewrite.written(operator)
    if x.id not in layout.last:
        return
    source, rank = layout.value(layout.last[x.id]), len(x.shape)
    if rank == 5 and (3 in operator.axes) != (4 in operator.axes):
        return
    axes = tuple(sorted({axis_with_channels_last(a, rank) for a in operator.axes}))
    kept = tuple(1 if a in axes else e for a, e in enumerate(source.shape))
    result = layout.rewrite.value(y, shape=kept)
    layout.insert(operator, source.id, result, position, axes=axes)
    if len(y.shape) == rank:
        layout.last[y.id] = result.id
    layout.put_back(position, operator, result.id, y)


def _local_response(layout: Layout, position: int, operator: LocalResponse) -> None:
    """Let sums over neighbouring channels take the channels last."""
    x = layout.value(operator.inputs[0])
    if x.id in layout.last and operator.axis == 1:
        layout.put_last(position, operator, (layout.last[x.id],), axis=3)


def _resample(layout: Layout, position: int, operator: Resample) -> None:
    """Interpolate height and width of all channels at once, where they lie last."""
    x = layout.value(operator.inputs[0])
    (y,) = layout.rewrite.written(operator)
    if x.id in layout.planes:
        planes = layout.value(layout.planes[x.id])
        target = layout.rewrite.value(y, shape=(planes.shape[0], *y.shape[1:3], planes.shape[3]))
        layout.planes[y.id] = layout.insert(operator, planes.id, target, position)


def _dense(layout: Layout, position: int, operator: FullyConnected) -> None:
    """Give the weights of a layer behind a flattening the order in which elements lie."""
    x, weights = layout.value(operator.inputs[0]), layout.value(operator.inputs[1])
    if x.id not in layout.flat:
        return
    rows, order = layout.flat[x.id]
    maker = layout.rewrite.maker(weights.id)
    stored = layout.value(maker.inputs[0]) if isinstance(maker, Convert) else weights
    q = stored.quantisation
    if stored.data is None or stored.shape != weights.shape or (q is not None and q.axis == 1):
        return
    arranged = layout.rewrite.constant(stored, stored.data[:, order], q)
    if maker is not None:
        arranged = layout.insert(maker, arranged, layout.rewrite.value(weights), position)
    inputs = (rows, arranged, *operator.inputs[2:])
    layout.rewrite.put(position, dataclasses.replace(operator, inputs=inputs))


_RULES: Final[dict[str, Callable[..., None]]] = {
    "Convert": _elementwise,
    "FullyConnected": _dense,
    "LocalResponse": _local_response,
    "Map": _elementwise,
    "Move": _move,
    "Reduce": _reduce,
    "Resample": _resample,
    "Reshape": _reshape,
}
"""Rules by the name of their operator's class."""
