# SPDX-License-Identifier: Apache-2.0
"""Sparse constants of a ``.tflite`` file: the stored elements, each at its place among zeros.

The file keeps a tensor as a tree with a level for each dimension, in any order, and for each dimension inside
of blocks. A dense level has all of its places; a sparse one says by segments and indices which of them there
are. The elements follow in the order of the tree's leaves (``SparsityParameters`` of the schema, version 3).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.errors import InputError

_VECTORS: Final = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}


class SparseError(InputError):
    """A description of sparse elements that contradicts itself."""


def dense(sparsity: Any, stored: Array, shape: tuple[int, ...]) -> Array:  # noqa: ANN401 - table of the schema
    """All elements of a sparse tensor, in the order of its dimensions.

    Args:
        stored: the elements that the file has, in its order.

    Raises:
        SparseError: the description does not fit the shape or the stored elements.
    """
    order, blocks = (_numbers(sparsity, name) for name in ("TraversalOrder", "BlockMap"))
    rank, levels = len(shape), sparsity.DimMetadataLength()
    whole = sorted(order[:rank].tolist()) == list(range(rank))
    if not whole or order[rank:].tolist() != list(range(rank, levels)) or len(blocks) != levels - rank:
        raise SparseError(
            f"is sparse, with dimensions in the order {order.tolist()} and blocks {blocks.tolist()}"
        )
    if any(not 0 <= b < rank for b in blocks):
        raise SparseError(f"is sparse, with blocks of dimensions {blocks.tolist()}; it has {rank}")
    limit = max(math.prod(shape), 1)
    parents, places = np.zeros(1, np.int64), np.zeros((1, rank), np.int64)
    for level in range(levels):
        parents, index, rows = _level(sparsity.DimMetadata(level), parents, limit)
        places = places[rows]
        if level < rank:
            places[:, order[level]] = index
        else:
            axis = blocks[level - rank]
            places[:, axis] = places[:, axis] * sparsity.DimMetadata(level).DenseSize() + index
    if len(places) != len(stored):
        raise SparseError(f"is sparse, with {len(stored)} elements of data; its indices name {len(places)}")
    if (places < 0).any() or (places >= np.array(shape, np.int64)).any():
        raise SparseError(f"is sparse, with an index outside of its shape {shape}")
    result = np.zeros(shape, stored.dtype)
    result[tuple(places.T)] = stored
    return result


def _level(table: Any, parents: Array, limit: int) -> tuple[Array, Array, Array]:  # noqa: ANN401
    """One level: of each place its number, its index in the dimension, and the row of its parent."""
    if table.Format() == 0:
        size = table.DenseSize()
        if size < 1 or size * len(parents) > limit:
            raise SparseError(f"is sparse, with a dense level of {size} in {len(parents)} places")
        rows = np.repeat(np.arange(len(parents)), size)
        index = np.tile(np.arange(size, dtype=np.int64), len(parents))
        return parents[rows] * size + index, index, rows
    segments, indices = _vector(table, "ArraySegments"), _vector(table, "ArrayIndices")
    fits = len(parents) and len(segments) > parents.max() + 1 and (np.diff(segments) >= 0).all()
    if not fits or segments[0] < 0 or segments[-1] > min(len(indices), limit):
        raise SparseError(
            f"is sparse, with {len(segments)} segments of {len(indices)} indices that do not fit"
        )
    counts = segments[parents + 1] - segments[parents]
    rows = np.repeat(np.arange(len(parents)), counts)
    first = np.repeat(segments[parents] - (np.cumsum(counts) - counts), counts)
    position = first + np.arange(len(rows))
    return position, indices[position], rows


def _numbers(table: Any, name: str) -> Array:  # noqa: ANN401 - table of the schema
    """Integers of a vector of a table; the schema gives 0 for an absent one."""
    values = getattr(table, f"{name}AsNumpy")()
    return np.zeros(0, np.int64) if isinstance(values, int) else np.asarray(values).astype(np.int64)


def _vector(table: Any, name: str) -> Array:  # noqa: ANN401 - table of the schema
    """Integers of a union of vectors, of whichever width."""
    import tflite

    kind, union = getattr(table, f"{name}Type")(), getattr(table, name)()
    if kind not in _VECTORS or union is None:
        raise SparseError(f"is sparse, without {name}")
    vector = getattr(tflite, _VECTORS[kind])()
    vector.Init(union.Bytes, union.Pos)
    return _numbers(vector, "Values")
