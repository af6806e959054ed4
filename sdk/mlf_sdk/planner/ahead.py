# SPDX-License-Identifier: Apache-2.0
"""Weights that are copied to a fast RAM before their layer, where reading them there saves more cycles.

A copy is a step of the model, and what it writes is a tensor like any other: its buffer has a lifetime from
the copy to the layer, lies in an arena, and is planned, guarded and measured with it. Weights that a layer
reads once stay where they are: copying them costs as many words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from mlf_sdk.errors import DoesNotFitError
from mlf_sdk.ir.abi import Abi, Argument, Convention, Value, ValueKind
from mlf_sdk.ir.model import CodeUnit, Model, Step, TensorKind, UnitKind
from mlf_sdk.ir.step import Span
from mlf_sdk.ir.tensor import Tensor
from mlf_sdk.planner.layout import Bank
from mlf_sdk.planner.memories import Pins
from mlf_sdk.planner.spread import Placement, place_model
from mlf_sdk.planner.traffic import Traffic, traffic_of

CALL_CYCLES: Final = 200  # of a copy beside its words: the step, the call, the loop
_MOST: Final = 24  # candidates, by what they may save; each is a placement of its own
_AHEAD: Final = "_ahead"


def place_ahead(model: Model, banks: Sequence[Bank], pins: Pins, *, keep_inputs: bool = False) -> Placement:
    """Plan a model in several memories, with copies of weights where they make the sum of cycles smaller.

    Raises:
        DoesNotFitError, InputError, NotPossibleError: as of `mlf_sdk.planner.spread.place_model`.
    """
    best = place_model(model, banks, pins, keep_inputs=keep_inputs)
    if pins.ahead == "no":
        return best
    chosen: list[int] = []
    for constant in _candidates(model, best, banks)[:_MOST]:
        try:
            one = place_model(with_copies(model, [*chosen, constant]), banks, pins, keep_inputs=keep_inputs)
        except DoesNotFitError:
            continue
        if one.cycles + CALL_CYCLES < best.cycles:
            best = msgspec.structs.replace(one, slow_cycles=best.slow_cycles)
            chosen.append(constant)
    return best


def _candidates(model: Model, placed: Placement, banks: Sequence[Bank]) -> list[int]:
    """Constants of one plain C step each, those first whose copy in the fastest RAM would save most."""
    users: dict[int, list[Step]] = {}
    for step in model.steps:
        for number in step.inputs:
            users.setdefault(number, []).append(step)
    traffic = traffic_of(model)
    gains: list[tuple[float, int]] = []
    for part in placed.layout.params:
        for tensor in model.constants:
            own = users.get(tensor.id, [])
            if not part.holds(placed.layout.constant_offsets[tensor.id]) or len(own) != 1:
                continue
            if own[0].abi.convention is not Convention.C or own[0].stream is not None:
                continue
            words = -(-tensor.size_bytes // 4)
            once, all_reads = Traffic(reads=words), traffic.get(tensor.id, Traffic())
            fast = min(
                (bank.cycles(all_reads + Traffic(writes=words)) for bank in banks if bank.is_ram),
                default=math.inf,
            )
            gain = part.bank.cycles(all_reads) - part.bank.cycles(once) - fast - CALL_CYCLES
            if gain > 0:
                gains.append((gain, tensor.id))
    return [constant for _, constant in sorted(gains, key=lambda one: (-one[0], one[1]))]


def with_copies(model: Model, constants: Iterable[int]) -> Model:
    """The model with a step before the one user of each constant, which copies it to a tensor of its own."""
    wanted = set(constants)
    if not wanted:
        return model
    tensors = list(model.tensors)
    copies: dict[int, int] = {}
    for constant in sorted(wanted):
        origin = tensors[constant]
        copies[constant] = len(tensors)
        tensors.append(
            Tensor(
                id=len(tensors),
                name=f"{origin.name}{_AHEAD}",
                c_name=f"{origin.c_name}{_AHEAD}",
                dtype=origin.dtype,
                shape=origin.shape,
                kind=TensorKind.INTERMEDIATE,
            )
        )
    steps: list[Step] = []
    sizes: list[int] = []
    for step in model.steps:
        for constant in (tensor for tensor in step.inputs if tensor in wanted):
            sizes.append(tensors[constant].size_bytes)
            steps.append(_copy(model, tensors[constant], copies[constant], len(steps)))
        steps.append(_from_copies(step, copies, len(steps)))
    return replace(
        model, tensors=tuple(tensors), steps=tuple(steps), units=(*model.units, _unit(model, sizes))
    )


def _copy(model: Model, constant: Tensor, copy: int, index: int) -> Step:
    values = (Value.of_tensor(constant.id), Value.of_tensor(copy))
    return Step(
        index=index,
        name=f"copy_{constant.name}",
        symbol=_symbol(model, constant.size_bytes),
        inputs=(constant.id,),
        outputs=(copy,),
        abi=Abi(
            convention=Convention.C, arguments=tuple(Argument(value=value) for value in values), result="void"
        ),
        spans=(Span(first=0, last=0),) * 2,
        opaque_reason="its compiler states what it accesses",
    )


def _from_copies(step: Step, copies: dict[int, int], index: int) -> Step:
    """The step with other numbers: of itself, and of the tensors that it reads copies of."""
    inputs = tuple(copies.get(tensor, tensor) for tensor in step.inputs)
    if inputs == step.inputs:
        return replace(step, index=index)
    arguments = tuple(
        msgspec.structs.replace(argument, value=replace(value, tensor=copies.get(value.tensor, value.tensor)))
        if (value := argument.value) is not None
        and value.kind is ValueKind.TENSOR
        and value.tensor is not None
        else argument
        for argument in step.abi.arguments
    )
    return replace(step, index=index, inputs=inputs, abi=replace(step.abi, arguments=arguments))


def _symbol(model: Model, size_bytes: int) -> str:
    return f"{model.c_name}{_AHEAD}_{size_bytes}"


def _unit(model: Model, sizes: Iterable[int]) -> CodeUnit:
    """C source of the copies, one function a size; all call one that the application may define."""
    copy = f"{model.c_name}{_AHEAD}"
    text = f"""// SPDX-License-Identifier: Apache-2.0
// Copies of weights to a faster memory, before their layer. Define {copy} in the application to
// copy otherwise (by DMA: it returns when all bytes are there).
#include <stddef.h>
#include <string.h>

void {copy}(void *to, const void *from, size_t size_bytes);
__attribute__((weak)) void {copy}(void *to, const void *from, size_t size_bytes) {{
  (void)memcpy(to, from, size_bytes);
}}
"""
    symbols = []
    for size_bytes in sorted(set(sizes)):
        symbols.append(name := _symbol(model, size_bytes))
        text += f"""
void {name}(void *from, void *to);
void {name}(void *from, void *to) {{
  {copy}(to, from, {size_bytes}u);
}}
"""
    return CodeUnit(
        member=f"ahead/{model.c_name}_ahead.c",
        kind=UnitKind.C,
        data=text.encode(),
        linked=True,
        symbols=(copy, *symbols),
        clean=True,
    )
