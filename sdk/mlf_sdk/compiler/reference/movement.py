# SPDX-License-Identifier: Apache-2.0
"""References of operators that move, resize or choose elements."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import ArgExtreme, Array, Move, Reshape, ResizeBilinear
from mlf_sdk.compiler.reference.table import States, reference


@reference(Move)
def move(graph: Graph, operator: Move, inputs: list[Array], _: States) -> list[Array]:
    """PAD, CONCATENATION, SPLIT, TRANSPOSE, STRIDED_SLICE and their like."""
    outputs = [np.full(y.elements, operator.fill or 0, y.dtype) for y in graph.written(operator)]
    for region in operator.regions:
        source, target = region.indices()
        outputs[region.output][target] = inputs[region.input].reshape(-1)[source]
    return outputs


@reference(Reshape)
def reshape(graph: Graph, operator: Reshape, inputs: list[Array], _: States) -> list[Array]:
    """RESHAPE, SQUEEZE and EXPAND_DIMS."""
    return [inputs[0].reshape(graph.written(operator)[0].shape)]


@reference(ArgExtreme)
def arg_extreme(graph: Graph, operator: ArgExtreme, inputs: list[Array], _: States) -> list[Array]:
    """ARG_MAX and ARG_MIN; the first of equal elements, or the last."""
    function = np.argmin if operator.smallest else np.argmax
    if operator.last:
        backwards = np.flip(inputs[0], axis=operator.axis)
        return [inputs[0].shape[operator.axis] - 1 - function(backwards, axis=operator.axis)]
    return [function(inputs[0], axis=operator.axis)]


@reference(ResizeBilinear)
def resize_bilinear(graph: Graph, operator: ResizeBilinear, inputs: list[Array], _: States) -> list[Array]:
    """RESIZE_BILINEAR: positions with 10 fractional bits, the result rounded half away from zero."""
    (y,) = graph.written(operator)
    x = inputs[0].astype(np.int64)
    top, bottom, down = positions(x.shape[1], y.shape[1], operator)
    left, right, across = positions(x.shape[2], y.shape[2], operator)
    down, across = down[:, None, None], across[None, :, None]
    rows = [(top, 1024 - down), (bottom, down)]
    columns = [(left, 1024 - across), (right, across)]
    total = sum(x[:, r][:, :, c] * (wr * wc)[None] for r, wr in rows for c, wc in columns)
    half = np.where(total > 0, 1 << 19, -(1 << 19))
    rounded = np.abs(total + half) >> 20
    return [np.where(total + half >= 0, rounded, -rounded)]


def positions(size: int, wanted: int, operator: ResizeBilinear) -> tuple[Array, Array, Array]:
    """Lower and upper neighbour of each output position, and its fraction in 1/1024."""
    scale = ((size << 10) + wanted // 2) // wanted
    if operator.align_corners and wanted > 1:
        scale = ((1 << 10) * (size - 1) + (wanted - 1) // 2) // (wanted - 1)
    steps = np.arange(wanted, dtype=np.int64)
    scaled = steps * scale
    if operator.half_pixel_centres:
        scaled = scaled + scale // 2 - (1 << 9)
    whole = np.where(scaled >= 0, scaled // 1024, -((-scaled) // 1024))
    lower = np.maximum(whole, 0)
    ceiling = np.where(scaled + 1023 >= 0, (scaled + 1023) // 1024, 0)
    upper = np.minimum(ceiling, size - 1)
    return lower, upper, scaled - lower * 1024
