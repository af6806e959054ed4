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
    return {key: traffic for key, traffic in result.items() if key not in model.caller_inputs}


def step_traffic(model: Model, step: Step) -> Mapping[Key, Traffic]:
    """Traffic of one step; the addresses of an argument count for the tensor that owns its storage."""
    work = _Work(model, step)
    result: dict[Key, Traffic] = {}

    def add(key: Key, traffic: Traffic) -> None:
        result[key] = result.get(key, Traffic()) + traffic

    for tensor in work.constants:
        words = _words(model.tensors[tensor].size_bytes)
        add(model.root(tensor).id, Traffic(reads=words * work.passes))
    for place, tensor in enumerate(work.values):
        words = _words(model.tensors[tensor].size_bytes)
        if place == 0:
            words = max(words, _words(work.input_elements * work.element_bytes))
        is_scattered = step.layer is not None and step.layer.operator in _SCATTERED
        add(model.root(tensor).id, Traffic(scattered_reads=words) if is_scattered else Traffic(reads=words))
    for tensor in (*step.outputs, *(step.inputs[position] for position in step.writes)):
        add(model.root(tensor).id, Traffic(writes=_words(model.tensors[tensor].size_bytes)))
    sizes = {w.slot: w.size_bytes for w in step.workspaces}
    if step.workspace_stack_bytes:
        sizes[step.stack_slot] = step.workspace_stack_bytes
    total = sum(sizes.values())
    for slot, size_bytes in sizes.items():
        share = size_bytes / total if total else 0.0
        read, written = (
            max(_words(size_bytes), int(share * _words(elements * work.scratch_bytes)))
            for elements in (work.loaded, work.copied)
        )
        add((step.index, slot), Traffic(reads=read, writes=written))
    return result


def is_copy(model: Model, step: Step) -> bool:
    """Return whether a step does nothing but copy constants: what reads its outputs reads weights."""
    return (
        step.layer is None
        and bool(step.inputs)
        and all(model.root(i).kind is TensorKind.CONSTANT for i in step.inputs)
        and sum(model.tensors[i].size_bytes for i in step.inputs)
        == sum(model.tensors[i].size_bytes for i in step.outputs)
    )


class _Work:
    """Elements that the inner loop of a step loads.

    Attributes:
        constants, values: inputs of the step, in their order.
        passes: times that the constants are read.
        loaded: elements of the input, for all channels.
        copied: of these, what is copied to scratch: the windows, or all of the input.
        element_bytes, scratch_bytes: of an element of the input, and of its copy: bytes are widened to be
            multiplied in pairs.
    """

    def __init__(self, model: Model, step: Step) -> None:
        layer = step.layer
        macs = layer.macs if layer else 0
        channels, pixels = (max(1, extent) for extent in (layer.tile if layer else (1, 1)))
        copies = {i for one in model.steps if is_copy(model, one) for i in one.outputs}
        self.constants = [i for i in step.inputs if model.root(i).kind is TensorKind.CONSTANT or i in copies]
        self.values = [i for i in step.inputs if i not in self.constants]
        x = model.tensors[self.values[0]] if self.values else None
        y = model.tensors[step.outputs[0]] if step.outputs else None
        last = max(1, y.shape[-1]) if y is not None and y.shape else 1
        elements = x.elements if x is not None else 0
        is_region = layer is not None and bool(layer.inside)
        self.has_scratch = bool(step.workspaces or step.workspace_stack_bytes)
        self.element_bytes = x.size_bytes // max(1, x.elements) if x is not None else 1
        self.scratch_bytes = 2 if self.element_bytes == 1 and not is_region else self.element_bytes
        self.loaded = macs // channels
        is_depthwise = layer is not None and "DEPTHWISE" in layer.operator.upper()
        self.copied = elements if is_depthwise or is_region else max(elements, macs // last)
        if not macs:
            self.passes = 1
        elif is_region or y is None:
            largest = max((model.tensors[i].size_bytes for i in self.constants), default=0)
            self.passes = max(1, -(-(macs // max(1, largest)) // pixels))
        else:
            self.passes = -(-(y.elements // last) // pixels)

    @property
    def input_elements(self) -> int:
        """Elements of the first input that are read from where it lies."""
        return self.copied if self.has_scratch else self.loaded


def _words(size_bytes: int) -> int:
    return -(-size_bytes // WORD_BYTES)
