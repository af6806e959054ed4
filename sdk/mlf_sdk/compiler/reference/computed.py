# SPDX-License-Identifier: Apache-2.0
"""References of operators whose weights, indices or scales are computed at run time."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler import computed
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array, Convolve
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.layers import patches
from mlf_sdk.compiler.reference.movement import place_of_extreme


@reference(Convolve)
def convolve(graph: Graph, operator: Convolve, inputs: list[Array], _: States) -> list[Array]:
    """Convolution of two values."""
    (y,) = graph.written(operator)
    wide = np.float64 if y.dtype.kind == "f" else np.int64
    x, weights = inputs[0].astype(wide), inputs[1].astype(wide)
    for zero in inputs[2:]:
        x = x - int(zero.reshape(-1)[0])
    view = patches(x, operator.window, (y.shape[1], y.shape[2]), 0)
    groups = x.shape[3] // weights.shape[3]
    parts = [
        np.einsum("nhwijc,oijc->nhwo", part, kernel)
        for part, kernel in zip(
            np.split(view, groups, axis=-1), np.split(weights, groups, axis=0), strict=True
        )
    ]
    return [np.concatenate(parts, axis=-1)]


@reference(computed.DynamicQuantise)
def dynamic_quantise(
    graph: Graph, operator: computed.DynamicQuantise, inputs: list[Array], _: States
) -> list[Array]:
    """Quantisation by the range of the input, in single precision."""
    x = inputs[0].astype(np.float32)
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = (high - low) / np.float32(255) if high > low else np.float32(1)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    stored = np.clip(np.rint(x / scale) + zero, 0, 255)
    return [stored, np.asarray(scale), np.asarray(zero)]


@reference(computed.LocalResponse)
def local_response(
    graph: Graph, operator: computed.LocalResponse, inputs: list[Array], _: States
) -> list[Array]:
    """LRN."""
    x: Array = np.moveaxis(inputs[0].astype(np.float64), operator.axis, -1)
    before = (operator.size - 1) // 2
    around = [(0, 0)] * (x.ndim - 1) + [(before, operator.size - 1 - before)]
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, around), operator.size, axis=-1)
    scale = operator.bias + operator.alpha / operator.size * views.sum(axis=-1)
    return [np.moveaxis(x / scale**operator.beta, -1, operator.axis)]


@reference(computed.PoolIndices)
def pool_indices(graph: Graph, operator: computed.PoolIndices, inputs: list[Array], _: States) -> list[Array]:
    """Places of the largest elements."""
    (x_value,), (y,) = graph.read(operator), graph.written(operator)
    n, h, w, c = x_value.shape
    size = (y.shape[1], y.shape[2])
    places = np.arange(n * c * h * w).reshape((n, c, w, h) if operator.columns_first else (n, c, h, w))
    last = places.transpose((0, 3, 2, 1) if operator.columns_first else (0, 2, 3, 1))
    view = patches(inputs[0].astype(np.float64), operator.window, size, -np.inf)
    taken = patches(last, operator.window, size, -1)
    flat = view.reshape(*view.shape[:3], -1, c)
    first = place_of_extreme(flat, 3)[:, :, :, None]
    return [np.take_along_axis(taken.reshape(flat.shape), first, axis=3)[:, :, :, 0]]


def _counted(places: Array, extents: Array | int) -> Array:
    """Places from the front."""
    places = places.astype(np.int64)
    return np.where(places < 0, places + extents, places)


@reference(computed.GatherSlices)
def gather_slices(
    graph: Graph, operator: computed.GatherSlices, inputs: list[Array], _: States
) -> list[Array]:
    """GatherND."""
    data, places = inputs
    batch, depth = operator.batch, places.shape[-1]
    extents = np.array(data.shape[batch : batch + depth])
    chosen = np.clip(_counted(places, extents), 0, extents - 1)
    rows = data.reshape(-1, *data.shape[batch:])
    result = [
        row[tuple(np.moveaxis(at, -1, 0))]
        for row, at in zip(rows, chosen.reshape(len(rows), *chosen.shape[batch:]), strict=True)
    ]
    return [np.stack(result)]


@reference(computed.GatherElements)
def gather_elements(
    graph: Graph, operator: computed.GatherElements, inputs: list[Array], _: States
) -> list[Array]:
    """GatherElements."""
    data, places = inputs
    extent = data.shape[operator.axis]
    chosen = np.clip(_counted(places, extent), 0, extent - 1)
    around = np.ix_(*(np.arange(e) for e in places.shape))
    at = tuple(chosen if axis == operator.axis else index for axis, index in enumerate(around))
    return [data[at]]


_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _put(result: Array, at: tuple[int, ...], new: Array, reduction: str) -> None:
    function = _REDUCTIONS.get(reduction)
    result[at] = new if function is None else function(result[at], new)


@reference(computed.ScatterSlices)
def scatter_slices(
    graph: Graph, operator: computed.ScatterSlices, inputs: list[Array], _: States
) -> list[Array]:
    """ScatterND."""
    data, places, updates = inputs
    depth = places.shape[-1]
    extents = np.array(data.shape[:depth])
    result = data.copy()
    rows = updates.reshape(-1, *data.shape[depth:])
    for at, new in zip(_counted(places, extents).reshape(-1, depth), rows, strict=True):
        if (at >= 0).all() and (at < extents).all():
            _put(result, tuple(at), new, operator.reduction)
    return [result]


@reference(computed.ScatterElements)
def scatter_elements(
    graph: Graph, operator: computed.ScatterElements, inputs: list[Array], _: States
) -> list[Array]:
    """ScatterElements."""
    data, places, updates = inputs
    extent = data.shape[operator.axis]
    result = data.copy()
    chosen = _counted(places, extent)
    for index in np.ndindex(places.shape):
        if 0 <= chosen[index] < extent:
            at = (*index[: operator.axis], int(chosen[index]), *index[operator.axis + 1 :])
            _put(result, at, updates[index], operator.reduction)
    return [result]


@reference(computed.LabelEncoder)
def label_encoder(
    graph: Graph, operator: computed.LabelEncoder, inputs: list[Array], _: States
) -> list[Array]:
    """LabelEncoder."""
    (x,), keys = inputs, operator.keys
    at = np.minimum(np.searchsorted(keys, x), keys.size - 1)
    other = np.where(np.isnan(x), operator.missing, operator.default)
    return [np.where(keys[at] == x, operator.values[at], other)]


@reference(computed.TopK)
def top_k(graph: Graph, operator: computed.TopK, inputs: list[Array], _: States) -> list[Array]:
    """TopK; numpy's order has NaN last."""
    count = graph.written(operator)[0].shape[operator.axis]
    (x,) = inputs
    keys = (x,) if operator.smallest else (-x, ~np.isnan(x)) if x.dtype.kind == "f" else (~x,)
    order = np.lexsort(keys, axis=operator.axis)
    chosen = np.take(order, np.arange(count), axis=operator.axis)
    return [np.take_along_axis(x, chosen, axis=operator.axis), chosen]
