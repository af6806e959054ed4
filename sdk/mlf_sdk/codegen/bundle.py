# SPDX-License-Identifier: Apache-2.0
"""A model as a bundle in Glow's layout: its memory plan, header, source of the entry, and constants.

Inputs and outputs lie in the mutable memory; everything else of the plan that does not share memory with
them lies in the activations. Both together are the arena.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mlf_sdk.codegen.context import Values
from mlf_sdk.codegen.ctext import c_comment, c_string
from mlf_sdk.codegen.link import link_models
from mlf_sdk.codegen.render import environment
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.glow.bundle import ALIGNMENT
from mlf_sdk.frontends.glow.types import PlaceholderType, type_text
from mlf_sdk.ir.abi import Value, ValueKind
from mlf_sdk.ir.model import Model, Step, Tensor, TensorKind
from mlf_sdk.ir.names import NameTable
from mlf_sdk.planner.layout import ModelLayout, align_up, lay_out
from mlf_sdk.version import __version__

CONSTANT, MUTABLE, ACTIVATIONS = range(3)
_TEXT_BYTES: Final = 20  # of the weights in a line of their text form


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePlan:
    """Memory of a bundle.

    Attributes:
        name: of the entry and of the files, a C identifier.
        placeholders: inputs, then outputs.
        constant_bytes, mutable_bytes, activations_bytes: multiples of 64.
        split: offset in the arena at which the activations begin.
    """

    name: str
    layout: ModelLayout
    placeholders: tuple[Placeholder, ...]
    constant_bytes: int
    mutable_bytes: int
    activations_bytes: int
    split: int

    def place(self, offset: int) -> tuple[int, int]:
        """Memory of a byte of the arena, and the offset in it."""
        return (MUTABLE, offset) if offset < self.split else (ACTIVATIONS, offset - self.split)


def plan_bundle(model: Model, *, keep_inputs: bool = False) -> BundlePlan:
    """Plan the memory of a bundle.

    Args:
        model: analysed for the compiler of the bundle.
        keep_inputs: a call leaves the inputs intact.

    Raises:
        InputError: the model keeps state between calls, or has a tensor type that bundles do not have.
    """
    if model.states:
        raise InputError(
            f"it keeps state between runs ('{model.states[0].name[:80]}'), and a bundle can't",
            where=f"model {model.name}",
            hint="Convert it to an archive (--to mlf).",
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
        split=split,
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
    buffers = sorted(_buffers(layout))
    for start, stop in buffers:
        if start < at < stop:
            at = align_up(stop, ALIGNMENT)
    return at


def _buffers(layout: ModelLayout) -> Iterator[tuple[int, int]]:
    """Yield first and last byte of everything that the plan places."""
    sizes = {t.id: t.size_bytes for t in layout.model.tensors}
    yield from ((at, at + sizes[i]) for i, at in layout.plan.tensor_offsets.items())
    for step in layout.steps:
        for slot, size in _workspaces(step):
            start = layout.plan.workspace_offsets[step.index][slot]
            yield start, start + size


def _workspaces(step: Step) -> Iterator[tuple[int, int]]:
    yield from ((w.slot, w.size_bytes) for w in step.workspaces)
    if step.workspace_stack_bytes:
        yield step.stack_slot, align_up(step.workspace_stack_bytes)


def weights(plan: BundlePlan) -> bytes:
    """Constants, exactly as many bytes as the bundle states."""
    return plan.layout.params_blob().ljust(plan.constant_bytes, b"\0")


def weights_text(data: bytes) -> bytes:
    """Constants as text that a C array includes."""
    rows = (data[at : at + _TEXT_BYTES] for at in range(0, len(data), _TEXT_BYTES))
    return "".join("".join(f" 0X{byte:02X}," for byte in row) + "\n" for row in rows).encode()


def header(plan: BundlePlan, *, dynamic: bool, needs: Sequence[str]) -> bytes:
    """Header of the bundle, for C and C++.

    Args:
        dynamic: the configuration describes the memory, in place of macros.
        needs: symbols that the caller's image supplies, e.g. of the C library.

    Raises:
        InputError: a tensor has a type that bundles do not have.
    """
    rows = [
        {
            "name": p.name,
            "type": _type(p.tensor, plan.layout.model),
            "elements": p.tensor.elements,
            "size_bytes": p.tensor.size_bytes,
            "offset": p.offset,
        }
        for p in plan.placeholders
    ]
    return _render(
        "bundle.h.j2",
        plan,
        rows=rows,
        dynamic=dynamic,
        needs=needs,
        outputs=[p.name for p in plan.placeholders if p.is_output],
        inputs_kept=plan.layout.inputs_kept,
        model_name=c_comment(plan.layout.model.name).replace('"', "'"),
    )


def _type(tensor: Tensor, model: Model) -> str:
    kind = PlaceholderType(dtype=tensor.dtype, shape=tensor.shape, quantisation=tensor.quantisation)
    text = type_text(kind)
    if text is None:
        raise InputError(
            f"'{tensor.name[:80]}' is {tensor.dtype}: bundles have no such type",
            where=f"model {model.name}",
            hint="Convert it to an archive (--to mlf).",
        )
    return text


def source(plan: BundlePlan, *, dynamic: bool) -> bytes:
    """C source of the entry: calls of all steps with pointers into the three memories."""
    view = _View(plan)
    steps = [view.step(number, step) for number, step in enumerate(plan.layout.steps)]
    return _render(
        "bundle.c.j2",
        plan,
        dynamic=dynamic,
        steps=steps,
        places=[view.described(i) for i in view.arguments],
        shapes=list(view.shapes),
        most_arguments=max((len(s["arguments"]) for s in steps), default=0),
        most_slots=max((len(s["slots"]) for s in steps), default=0),
        copies=[
            {
                "offset": p.offset,
                "address": view.address(p.copied_from),
                "size_bytes": p.tensor.size_bytes,
            }
            for p in plan.placeholders
            if p.copied_from is not None
        ],
        rows=[
            {"name": c_string(p.name), "offset": p.offset, "elements": p.tensor.elements}
            for p in plan.placeholders
        ],
        includes=list(
            dict.fromkeys(s.abi.unit or s.abi.header for s in plan.layout.steps if s.abi.unit or s.abi.header)
        ),
    )


def _render(template: str, plan: BundlePlan, **values: object) -> bytes:
    text = environment().get_template(f"common/{template}")
    return text.render(sdk_version=__version__, plan=plan, macro=plan.name.upper(), **values).encode()


class _View:
    """Template values of the steps of a bundle."""

    def __init__(self, plan: BundlePlan) -> None:
        self.plan = plan
        self.model = plan.layout.model
        self.arguments = sorted({i for s in plan.layout.steps if s.is_packed for i in s.arguments})
        self.shapes: dict[tuple[int, ...], int] = {}
        (self.linkage,) = link_models([plan.layout], share_arena=False)

    def place(self, tensor: int) -> tuple[int, int]:
        """Memory of a tensor, and the offset in it."""
        offset = self.plan.layout.offset(tensor)
        if self.model.root(tensor).kind is TensorKind.CONSTANT:
            return CONSTANT, offset
        return self.plan.place(offset)

    def address(self, tensor: int) -> str:
        """C expression of a tensor's address."""
        memory, offset = self.place(tensor)
        return f"memory[{memory}] + {offset}"

    def described(self, tensor: int) -> Values:
        """A tensor as a kernel takes it."""
        found = self.model.tensors[tensor]
        shape = found.shape or (1,)
        memory, offset = self.place(tensor)
        return {
            "memory": memory,
            "offset": offset,
            "ndim": len(found.shape),
            "dtype": found.dtype,
            "shape": self.shapes.setdefault(shape, len(self.shapes)),
        }

    def step(self, number: int, step: Step) -> Values:
        """A call."""
        index = {tensor: position for position, tensor in enumerate(self.arguments)}
        stack = None
        if step.workspace_stack_bytes:
            stack = self._slot(step, step.stack_slot, align_up(step.workspace_stack_bytes))
        return {
            "number": number,
            "comment": c_comment(step.name),
            "symbol": self.linkage.symbol(step.symbol),
            "is_packed": step.is_packed,
            "is_declared": bool(step.abi.unit or step.abi.header),
            "result": step.abi.result,
            "arguments": [index[i] for i in step.arguments] if step.is_packed else [],
            "slots": [self._slot(step, w.slot, w.size_bytes) for w in step.allocated],
            "stack": stack,
            "structs": [
                {
                    "tag": argument.struct,
                    "name": f"argument_{position}",
                    "fields": [(f.name, self._pointer(step, f.value)) for f in argument.fields],
                }
                for position, argument in enumerate(step.abi.arguments)
                if argument.value is None
            ],
            "passed": [
                f"&argument_{position}" if argument.value is None else self._pointer(step, argument.value)
                for position, argument in enumerate(step.abi.arguments)
            ],
        }

    def _slot(self, step: Step, slot: int, size_bytes: int) -> Values:
        memory, offset = self.plan.place(self.plan.layout.plan.workspace_offsets[step.index][slot])
        return {"memory": memory, "offset": offset, "size_bytes": size_bytes}

    def _pointer(self, step: Step, value: Value) -> str:
        if value.kind is ValueKind.TENSOR and value.tensor is not None:
            return f"({self.address(value.tensor)})"
        if value.kind is ValueKind.WORKSPACE and value.slot is not None:
            slot = self._slot(step, value.slot, 0)
            return f"(memory[{slot['memory']}] + {slot['offset']})"
        return f"MLF_ABI_POINTER(&{value.symbol})" if value.kind is ValueKind.SYMBOL else "NULL"
