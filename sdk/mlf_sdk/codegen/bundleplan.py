# SPDX-License-Identifier: Apache-2.0
"""Memory of a model as a bundle in Glow's layout.

Inputs and outputs lie in the mutable memory; everything else of the plan that does not share memory with
them lies in the activations. Both together are the arena.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec

from mlf_sdk.codegen.regions import placed_workspaces
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.glow.bundle import ALIGNMENT
from mlf_sdk.ir.model import Model, Tensor, TensorKind
from mlf_sdk.ir.names import NameTable
from mlf_sdk.planner.layout import ModelLayout, align_up, lay_out

CONSTANT, MUTABLE, ACTIVATIONS = range(3)


class Placeholder(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output in the mutable memory.

    Attributes:
        offset: bytes.
        copied_from: None: steps write it where it lies; else the tensor that is copied here after them.
    """

    name: str
    tensor: Tensor
    offset: int
    is_output: bool
    copied_from: int | None = None


class BundlePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a bundle.

    Attributes:
        name: of the entry and of the files, a C identifier.
        placeholders: inputs, then outputs.
        constant_bytes, mutable_bytes, activations_bytes: multiples of 64.
    """

    name: str
    layout: ModelLayout
    placeholders: tuple[Placeholder, ...]
    constant_bytes: int
    mutable_bytes: int
    activations_bytes: int

    def place(self, offset: int) -> tuple[int, int]:
        """Memory of a byte of the arena, and the offset in it."""
        rest = offset - self.mutable_bytes
        return (MUTABLE, offset) if rest < 0 else (ACTIVATIONS, rest)


def plan_bundle(model: Model, *, keep_inputs: bool = False) -> BundlePlan:
    """Plan the memory of a bundle.

    Args:
        model: analysed for the compiler of the bundle.
        keep_inputs: a call leaves the inputs intact.

    Raises:
        InputError: the model keeps state between calls, has inputs that come row by row or lie in memory of
            the caller, or a tensor type that bundles do not have.
    """
    if model.states:
        raise InputError(
            f"it keeps state between runs ('{model.states[0].name[:80]}'), and a bundle can't",
            where=f"model {model.name}",
            hint="Convert it to an archive (--to mlf).",
        )
    if model.stream is not None:
        raise InputError(
            "its input comes row by row, and that of a bundle is there as a whole",
            where=f"model {model.name}",
            hint="Leave out --stream.",
        )
    if model.caller_inputs:
        raise InputError(
            "its inputs lie in memory of the caller, and those of a bundle in its own",
            where=f"model {model.name}",
            hint="Leave out --caller-inputs.",
        )
    aligned = dataclasses.replace(model, alignment=max(ALIGNMENT, model.alignment))
    layout = lay_out(aligned, keep_inputs=keep_inputs)
    placeholders = tuple(_placeholders(layout))
    split = _split(layout, max((p.offset + p.tensor.size_bytes for p in placeholders), default=0))
    return BundlePlan(
        name=model.c_name,
        layout=layout,
        placeholders=placeholders,
        constant_bytes=align_up(layout.params_bytes, ALIGNMENT),
        mutable_bytes=split,
        activations_bytes=max(align_up(layout.arena_bytes, ALIGNMENT) - split, 0),
    )


def _placeholders(layout: ModelLayout) -> Iterator[Placeholder]:
    """Yield inputs, then outputs: where the plan has them, if that is no input's memory.

    Other outputs are copied after the last step, when all else in the arena is free.

    Raises:
        InputError: an input has no memory of its own.
    """
    model, names = layout.model, NameTable()
    taken: list[tuple[int, int]] = []
    for index in model.inputs:
        tensor = model.tensors[index]
        start = _own_place(layout, index, taken)
        if start is None:
            raise InputError(
                f"its input '{tensor.name[:80]}' lies within another tensor",
                where=f"model {model.name}",
                hint="Convert it to an archive (--to mlf).",
            )
        taken.append((start, start + tensor.size_bytes))
        name = names.unique(tensor.name, fallback="input")
        yield Placeholder(name=name, tensor=tensor, offset=start, is_output=False)
    places: list[int | None] = []
    for index in model.outputs:
        start = _own_place(layout, index, taken)
        places.append(start)
        taken += [] if start is None else [(start, start + model.tensors[index].size_bytes)]
    sources = [i for i in model.outputs if model.root(i).kind is not TensorKind.CONSTANT]
    taken += [(layout.offset(i), layout.offset(i) + model.tensors[i].size_bytes) for i in sources]
    for index, name, start in zip(model.outputs, model.output_names, places, strict=True):
        tensor = model.tensors[index]
        offset = _free(taken, tensor.size_bytes) if start is None else start
        taken.append((offset, offset + tensor.size_bytes))
        yield Placeholder(
            name=names.unique(name, fallback="output"),
            tensor=tensor,
            offset=offset,
            is_output=True,
            copied_from=index if start is None else None,
        )


def _own_place(layout: ModelLayout, tensor: int, taken: Sequence[tuple[int, int]]) -> int | None:
    """Offset of a tensor in the arena; None where a placeholder can't be there."""
    if layout.model.root(tensor).kind is TensorKind.CONSTANT or layout.offset(tensor) % ALIGNMENT:
        return None
    start = layout.offset(tensor)
    end = start + layout.model.tensors[tensor].size_bytes
    return None if any(first < end and start < last for first, last in taken) else start


def _free(taken: Sequence[tuple[int, int]], size_bytes: int) -> int:
    """The lowest aligned offset of ``size_bytes`` that overlap nothing."""
    at = 0
    for first, last in sorted(taken):
        if first < at + size_bytes and at < last:
            at = align_up(last, ALIGNMENT)
    return at


def _split(layout: ModelLayout, end: int) -> int:
    """The smallest offset behind the placeholders that lies within no buffer."""
    at = align_up(end, ALIGNMENT)
    for start, stop in sorted(_buffers(layout)):
        if start < at < stop:
            at = align_up(stop, ALIGNMENT)
    return at


def _buffers(layout: ModelLayout) -> Iterator[tuple[int, int]]:
    """Yield first and last byte of everything that the plan places."""
    sizes = {t.id: t.size_bytes for t in layout.model.tensors}
    yield from ((at, at + sizes[i]) for i, at in layout.plan.tensor_offsets.items())
    for step in layout.steps:
        for slot, size in placed_workspaces(step):
            start = layout.plan.workspace_offsets[step.index][slot]
            yield start, start + size
