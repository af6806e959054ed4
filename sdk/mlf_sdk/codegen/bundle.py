# SPDX-License-Identifier: Apache-2.0
"""Texts of a bundle in Glow's layout: header, source of the entry, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mlf_sdk.codegen.bundleplan import CONSTANT, BundlePlan
from mlf_sdk.codegen.entry import passed_values
from mlf_sdk.codegen.link import external_symbols, link_models
from mlf_sdk.codegen.templates import template_text
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.glow.origin import origin_text
from mlf_sdk.frontends.glow.types import PlaceholderType, type_text
from mlf_sdk.ir.abi import Value, ValueKind
from mlf_sdk.ir.model import Model, Step, Tensor, TensorKind
from mlf_sdk.planner.layout import align_up
from mlf_sdk.tools.ctext import Values, c_comment, c_string

_TEXT_BYTES: Final = 20  # of the weights in a line of their text form


def renames(plan: BundlePlan) -> dict[str, str]:
    """Symbols of the model's code with other names in the bundle: those of the runtime, and its own entry."""
    (linkage,) = link_models([plan.layout], share_arena=False)
    own = {plan.name, f"{plan.name}_config"} & set(external_symbols(plan.layout.model))
    return {**linkage.renames, **{name: f"{name}_code" for name in sorted(own)}}


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
        origin=origin_text(plan.layout.model.provenance),
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
        includes=list(dict.fromkeys(filter(None, map(_included, plan.layout.steps)))),
        uses_ffi=any(s["convention"] == "ffi" for s in steps),
    )


def _render(template: str, plan: BundlePlan, **values: object) -> bytes:
    return template_text(f"common/{template}", {"plan": plan, "macro": plan.name.upper(), **values})


def _included(step: Step) -> str:
    """File with the function's prototype, or with static objects that the call names."""
    return step.abi.unit or step.abi.header.rpartition("/")[2]


class _View:
    """Template values of the steps of a bundle."""

    def __init__(self, plan: BundlePlan) -> None:
        self.plan = plan
        self.model = plan.layout.model
        self.arguments = sorted({i for s in plan.layout.steps if s.takes_tensors for i in s.arguments})
        self.shapes: dict[tuple[int, ...], int] = {}
        self.renames = renames(plan)

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
        result = self.model.tensors[tensor]
        shape = result.shape or (1,)
        memory, offset = self.place(tensor)
        return {
            "memory": memory,
            "offset": offset,
            "ndim": len(result.shape),
            "dtype": result.dtype,
            "shape": self.shapes.setdefault(shape, len(self.shapes)),
        }

    def step(self, number: int, step: Step) -> Values:
        index = {tensor: position for position, tensor in enumerate(self.arguments)}
        stack = None
        if step.workspace_stack_bytes:
            stack = self._slot(step, step.stack_slot, align_up(step.workspace_stack_bytes))
        return {
            "number": number,
            "comment": c_comment(step.name),
            "symbol": self.renames.get(step.symbol, step.symbol),
            "convention": step.abi.convention.value,
            "is_declared": bool(step.abi.header),
            "result": step.abi.result,
            "arguments": [index[i] for i in step.arguments] if step.takes_tensors else [],
            "slots": [self._slot(step, w.slot, w.size_bytes) for w in step.allocated],
            "stack": stack,
            **passed_values(step, self._pointer),
        }

    def _slot(self, step: Step, slot: int, size_bytes: int) -> Values:
        memory, offset = self.plan.place(self.plan.layout.plan.workspace_offsets[step.index][slot])
        return {"memory": memory, "offset": offset, "size_bytes": size_bytes}

    def _pointer(self, step: Step, value: Value) -> str:
        if value.kind is ValueKind.TENSOR and value.tensor is not None:
            return f"({self.address(value.tensor)})"
        if value.kind is ValueKind.WORKSPACE and value.slot is not None:
            slot = self._slot(step, value.slot, 0)
            return f"(memory[{slot['memory']}] + {slot['offset'] + value.offset_bytes})"
        if value.kind is ValueKind.SYMBOL:
            offset = f" + {value.offset_bytes}" if value.offset_bytes else ""
            return f"((uint8_t *)MLF_ABI_POINTER(&{value.symbol}){offset})"
        return "NULL"
