# SPDX-License-Identifier: Apache-2.0
"""A checked graph of the graph executor, as ``formats.mlf.graph`` reads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import msgspec

from mlf_sdk.frontends.mlf.extension import CallFacts
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Tensor, TensorKind

NOP: Final = "__nop"
"""``func_name`` of a node that only gives its input another shape."""

MAX_TENSOR_BYTES: Final = (1 << 31) - 1
MAX_NDIM: Final = 16


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node.

    Attributes:
        op: ``null`` (an input or a parameter) or ``tvm_op`` (a call).
        name: as in the graph; unique among ``null`` nodes.
        func_name: C function of a call, ``__nop`` for an alias, None for ``null``.
        inputs: (node, output index) of what the call reads, in the order of its arguments.
        num_outputs: entries that the node owns.
        flatten_data: whether the call wants its tensors as one-dimensional.
    """

    op: str
    name: str
    func_name: str | None
    inputs: tuple[tuple[int, int], ...]
    num_outputs: int
    flatten_data: bool


class GraphEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One output of one node.

    Attributes:
        dtype: element type.
        shape: positive extents; empty for a scalar.
        storage_id: TVM's own plan: a hint.
    """

    dtype: DType
    shape: tuple[int, ...]
    storage_id: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor in memory."""
        return self.dtype.bytes_of(self.shape)


class RawGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A checked graph.

    Attributes:
        nodes: in execution order.
        arg_nodes: indices of all ``null`` nodes.
        heads: (node, output index) of the model's outputs.
        row_ptr: first entry of each node, and the number of entries last.
        entries: by entry index.
    """

    nodes: tuple[GraphNode, ...]
    arg_nodes: tuple[int, ...]
    heads: tuple[tuple[int, int], ...]
    row_ptr: tuple[int, ...]
    entries: tuple[GraphEntry, ...]

    def entry_index(self, ref: tuple[int, int]) -> int:
        """Entry of (node, output index)."""
        return self.row_ptr[ref[0]] + ref[1]

    def entry(self, ref: tuple[int, int]) -> GraphEntry:
        """The entry of (node, output index)."""
        return self.entries[self.entry_index(ref)]


def shape_problem(shape: Sequence[int], dtype: DType) -> str | None:
    """Return the problem of a tensor's shape, or None: positive extents, below 2 GiB in all."""
    if len(shape) > MAX_NDIM:
        return f"{len(shape)} dimensions; at most {MAX_NDIM} are read"
    if any(extent <= 0 for extent in shape):
        return f"an extent that is not positive in {list(shape)}"
    if dtype.bytes_of(shape) > MAX_TENSOR_BYTES:
        return f"{list(shape)} {dtype} takes more than {MAX_TENSOR_BYTES} bytes"
    return None


ALIGNMENT: Final = 4
"""Of parts of tensors, in bytes: kernels may read words."""


def share_memory(
    facts: CallFacts, tensors: list[Tensor], inputs: Sequence[int], outputs: Sequence[int]
) -> bool:
    """Make outputs parts of an input, or inputs parts of an output.

    Returns:
        False, with nothing changed, where the call is needed: a part that has a place already, memory that is
        not the run's alone, or offsets that kernels can't work with.
    """
    if facts.slices and len(facts.slices) == len(outputs) and inputs:
        return _slice(tensors, inputs[0], outputs, facts.slices)
    if facts.joins and len(facts.joins) == len(inputs) and len(outputs) == 1:
        return _join(tensors, inputs, facts.joins, outputs[0])
    return False


def _slice(tensors: list[Tensor], whole: int, parts: Sequence[int], offsets: Sequence[int]) -> bool:
    root = tensors[whole]
    while root.alias_of is not None:
        root = tensors[root.alias_of]
    room = tensors[whole].size_bytes
    fits = all(o + tensors[p].size_bytes <= room for p, o in zip(parts, offsets, strict=True))
    if not fits or root.kind is not TensorKind.INTERMEDIATE or any(o % ALIGNMENT for o in offsets):
        return False
    _place(tensors, whole, parts, offsets)
    return True


def _join(tensors: list[Tensor], inputs: Sequence[int], offsets: Sequence[int], whole: int) -> bool:
    parts = [_storage(tensors, x) for x in inputs]
    end = 0
    for part, offset in sorted(zip(parts, offsets, strict=True), key=lambda pair: pair[1]):
        tensor = tensors[part]
        free = tensor.alias_of is None and tensor.kind is TensorKind.INTERMEDIATE
        if not free or offset != end or offset % ALIGNMENT:
            return False
        end += tensor.size_bytes
    if len(set(parts)) != len(parts) or end != tensors[whole].size_bytes:
        return False
    _place(tensors, whole, parts, offsets)
    return True


def _storage(tensors: list[Tensor], tensor: int) -> int:
    """The tensor itself, or the one that it only gives another shape."""
    result = tensors[tensor]
    while result.alias_of is not None:
        above = tensors[result.alias_of]
        if result.offset_bytes or above.size_bytes != result.size_bytes:
            break
        result = above
    return result.id


def _place(tensors: list[Tensor], whole: int, parts: Sequence[int], offsets: Sequence[int]) -> None:
    for part, offset in zip(parts, offsets, strict=True):
        tensors[part] = dataclasses.replace(tensors[part], alias_of=whole, offset_bytes=offset)
