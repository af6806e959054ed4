# SPDX-License-Identifier: Apache-2.0
"""The stack that a Thumb function takes, the calls that it makes, and the addresses that it hands on.

All from its instructions, in the same way for compiled C and C++, for ready-made objects and for library
functions in assembly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capstone import arm

from mlf_sdk.analysis.thumb.decode import PC, Undecoded
from mlf_sdk.analysis.thumb.flow import Call, TracedInstruction, trace_function

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Function
    from mlf_sdk.analysis.thumb.code import ThumbCode

_ADDRESSES = frozenset({arm.ARM_INS_LDR, arm.ARM_INS_MOVT})  # what puts together an address


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A function.

    Attributes:
        entry: the address at which it is entered.
        bytes: the most that it has on the stack itself.
        calls: by address, jumps to other functions included.
        taken: functions whose addresses it takes, apart from those that it only calls.
        objects: objects whose addresses it takes.
        unknown: what could make its stack larger, for people.
    """

    function: Function
    entry: int
    bytes: int
    calls: tuple[Call, ...]
    taken: frozenset[int]
    objects: frozenset[int]
    unknown: tuple[str, ...]


def read_frame(code: ThumbCode, function: Function, entry: int) -> Frame:
    """Follow a function of a linked image that is entered at an address."""
    trace = trace_function(code, function, entry)
    calls = [step.call for _, step in sorted(trace.steps.items()) if step.call is not None]
    addresses = {step.value for step in trace.steps.values() if _takes_address(step)}
    taken = {a & ~1 for a in addresses if isinstance(a, int) and a & 1 and a & ~1 in code.functions}
    objects = (code.image.object_at(a) for a in addresses if isinstance(a, int))
    return Frame(
        function=function,
        entry=entry,
        bytes=max((step.depth for step in trace.steps.values()), default=0),
        calls=tuple(calls),
        taken=frozenset(taken - {call.target for call in calls if call.by_register}),
        objects=frozenset(found.address for found in objects if found is not None),
        unknown=tuple(trace.unknown),
    )


def _takes_address(step: TracedInstruction) -> bool:
    instruction = step.instruction
    if step.value is None or isinstance(instruction, Undecoded):
        return False
    return instruction.id in _ADDRESSES or instruction.operands[-1].reg == PC
