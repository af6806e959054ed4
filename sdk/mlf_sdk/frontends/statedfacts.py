# SPDX-License-Identifier: Apache-2.0
"""Facts that an archive states about plain C functions, held against their code.

Under the seal of the archive they are those of the code, and count. Else the code decides: a function that
takes another number of arguments, or that certainly reaches beyond a tensor or a workspace, is a fault; an
input that it may write counts as written, and an address that it leaves in a variable as kept. What can't
be read, such as assembly, stands as it is stated; permissions never do (`plaincall.without_permissions`).
"""

from __future__ import annotations

import dataclasses

from mlf_sdk.analysis.c.effects import Effects
from mlf_sdk.analysis.c.extents import ArgumentExtent, kernel_extents
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.mlf.extension import UNPROVEN
from mlf_sdk.frontends.readcode import Code
from mlf_sdk.ir.abi import Convention, Value
from mlf_sdk.ir.model import Model, Step, TensorKind

# Bytes of C's types of numbers on every target; of those that differ, the smaller size.
_SIZES = {"char": 1, "short": 2, "int": 4, "long": 4, "float": 4, "double": 8, "half": 2, "__fp16": 2}
_SIZES |= {"_Float16": 2, "bool": 1, "_Bool": 1, "size_t": 4, "intptr_t": 4, "uintptr_t": 4}
_SIZES |= {f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}


def size_of(element_type: str) -> int:
    """Bytes of a C type of numbers; 0 for none."""
    return min((_SIZES.get(word, 8) for word in element_type.split()), default=0)


def checked_step(model: Model, step: Step, code: Code, faults: FaultCollector) -> Step:
    """The step of a plain C function, with what its code adds to facts that no seal covers."""
    function = code.functions.get(step.symbol)
    if step.opaque_reason != UNPROVEN or step.abi.convention is not Convention.C or function is None:
        return step
    passed = [argument.value for argument in step.abi.arguments]
    if len(function.parameters) != len(passed):
        what = f"takes {len(function.parameters)} arguments; the archive states {len(passed)}"
        faults.add(function.member, f"the kernel '{step.symbol[:128]}' {what}")
        return step
    if not function.doubts:
        for extent in kernel_extents(function).arguments[: len(passed)]:
            value = passed[extent.index]
            if value is not None:
                _check_reach(model, step, value, extent, function, faults)
    effects = effects_of(function, code)
    is_known = all(name.isidentifier() for name in effects.lasting)  # variables alone, no unknown code
    kept = effects.kept if is_known else frozenset()
    return dataclasses.replace(
        step,
        writes=tuple(sorted({*step.writes, *_inputs(model, step, passed, effects.written)})),
        escaping_args=tuple(sorted({*step.escaping_args, *_arguments(step, passed, kept)})),
        persistent_globals=tuple(sorted({*step.persistent_globals, *effects.lasting})),
    )


def _arguments(step: Step, passed: list[Value | None], parameters: frozenset[int]) -> list[int]:
    """Positions of the step's arguments that are passed as some parameters."""
    tensors = {value.tensor for i in parameters if (value := passed[i]) is not None}
    return [i for i, tensor in enumerate(step.arguments) if tensor in tensors]


def _inputs(model: Model, step: Step, passed: list[Value | None], written: frozenset[int]) -> list[int]:
    """Positions of inputs in memory that may be written; a write to a parameter is found where it is made."""
    result = [i for i in _arguments(step, passed, written) if i < len(step.inputs)]
    return [i for i in result if model.root(step.inputs[i]).kind is not TensorKind.CONSTANT]


def _check_reach(
    model: Model,
    step: Step,
    value: Value,
    extent: ArgumentExtent,
    function: FunctionDefinition,
    faults: FaultCollector,
) -> None:
    """Compare the elements that a function certainly reaches with what the archive says that it gets."""
    size, room, name = size_of(extent.element_type), 0, ""
    if value.tensor is not None:
        tensor = model.tensors[value.tensor]
        room, name = tensor.size_bytes, f"'{tensor.name[:80]}'"
    elif value.slot is not None and not value.offset_bytes:
        room = next((w.size_bytes for w in step.workspaces if w.slot == value.slot), 0)
        name = "its workspace"
    if not name:
        return
    reached, before = extent.at_least * size, extent.before * size
    what = f"the kernel '{step.symbol[:128]}' reaches {{}} of {name}, which has {room}"
    if reached > room:
        faults.add(function.member, what.format(f"byte {reached}"))
    if before:
        faults.add(function.member, what.format(f"{before} bytes before the first"))


def effects_of(function: FunctionDefinition, code: Code) -> Effects:
    """Effects of a kernel; an address that a call leaves behind matters if anything can use it later."""
    if not function.member.endswith(".c"):
        return Effects()
    result = code.effects.of(function)
    return result if result.lasting else dataclasses.replace(result, kept=frozenset())
