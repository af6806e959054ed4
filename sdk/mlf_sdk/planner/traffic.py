# SPDX-License-Identifier: Apache-2.0
"""Words that one inference reads and writes in each buffer and each constant, by what steps state.

A step without facts about its kernel reads what it reads once and writes what it writes once. One that
multiplies with weights loads a weight once for the pixels of a tile, and an input once for its channels; with
scratch memory, that is where its inner loop reads: the input is copied there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mlf_sdk.ir.model import Model, Step, TensorKind

WORD_BYTES: Final = 4
Key = int | tuple[int, int]
"""Root of a tensor, or the step and slot of a workspace."""

# Operators, as formats name them, that take their input from places far apart.
_SCATTERED: Final = frozenset(
    {
        *("TRANSPOSE", "GATHER", "GATHER_ND", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "RESIZE_BILINEAR"),
        *("Transpose", "Gather", "GatherND", "GatherElements", "DepthToSpace", "SpaceToDepth", "Resize"),
    }
)


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Words of 32 bits that one inference reads and writes.

    Attributes:
        reads, writes: one after the other.
        scattered_reads: at places that do not follow each other.
    """

    reads: int = 0
    writes: int = 0
    scattered_reads: int = 0

    @property
    def words(self) -> int:
        """All of them."""
        return self.reads + self.writes + self.scattered_reads

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            reads=self.reads + other.reads,
            writes=self.writes + other.writes,
            scattered_reads=self.scattered_reads + other.scattered_reads,
        )


def traffic_of(model: Model) -> dict[Key, Traffic]:
    """Traffic of every tensor that owns its storage and of every workspace, in one inference.

    The caller writes the inputs and reads the outputs once.
    """
    result: dict[Key, Traffic] = {}

    def add(key: Key, traffic: Traffic) -> None:
        result[key] = result.get(key, Traffic()) + traffic

    for tensor in model.inputs:
        if tensor != model.streamed:
            add(model.root(tensor).id, Traffic(writes=_words(model.tensors[tensor].size_bytes)))
    for tensor in model.outputs:
        add(model.root(tensor).id, Traffic(reads=_words(model.tensors[tensor].size_bytes)))
    for step in model.steps:
        for key, traffic in step_traffic(model, step).items():
            add(key, traffic)
    return result


def step_traffic(model: Model, step: Step) -> Mapping[Key, Traffic]:
    """Traffic of one step; the addresses of an argument count for the tensor that owns its storage."""
    layer = step.layer
    macs = layer.macs if layer else 0
    channels, pixels = (max(1, extent) for extent in (layer.tile if layer else (1, 1)))
    scattered = layer is not None and layer.operator in _SCATTERED
    constants = [i for i in step.inputs if model.root(i).kind is TensorKind.CONSTANT]
    values = [i for i in step.inputs if i not in constants]
    positions = _positions(model, constants, macs)
    result: dict[Key, Traffic] = {}

    def add(key: Key, traffic: Traffic) -> None:
        result[key] = result.get(key, Traffic()) + traffic

    for tensor in constants:
        words = _words(model.tensors[tensor].size_bytes)
        add(model.root(tensor).id, Traffic(reads=words * max(1, -(-positions // pixels))))
    loaded = macs // channels  # elements of the input that the inner loop loads
    scratch = bool(step.workspaces or step.workspace_stack_bytes)
    for place, tensor in enumerate(values):
        one = model.tensors[tensor]
        words = _words(one.size_bytes)
        if place == 0 and loaded and not scratch:
            words = max(words, _words(loaded * one.size_bytes // max(1, one.elements)))
        add(
            model.root(tensor).id,
            Traffic(scattered_reads=words) if scattered else Traffic(reads=words),
        )
    for tensor in (*step.outputs, *(step.inputs[position] for position in step.writes)):
        add(model.root(tensor).id, Traffic(writes=_words(model.tensors[tensor].size_bytes)))
    sizes = {w.slot: w.size_bytes for w in step.workspaces}
    if step.workspace_stack_bytes:
        sizes[step.stack_slot] = step.workspace_stack_bytes
    copied = _words(sum(model.tensors[i].size_bytes for i in values))
    total = sum(sizes.values())
    for slot, size_bytes in sizes.items():
        words = _words(size_bytes)
        share = size_bytes / total if total else 0.0
        add(
            (step.index, slot),
            Traffic(reads=max(words, int(share * _words(loaded))), writes=max(words, int(share * copied))),
        )
    return result


def _positions(model: Model, constants: list[int], macs: int) -> int:
    """Times that each weight is needed: pixels of the output; 1 where that is not known."""
    largest = max(
        (model.tensors[i] for i in constants),
        key=lambda tensor: (tensor.size_bytes, -tensor.id),
        default=None,
    )
    return macs // max(1, largest.size_bytes) if largest is not None and largest.size_bytes else 1


def _words(size_bytes: int) -> int:
    return -(-size_bytes // WORD_BYTES)
