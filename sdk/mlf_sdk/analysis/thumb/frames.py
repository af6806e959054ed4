# SPDX-License-Identifier: Apache-2.0
"""The stack that a Thumb function takes, the calls that it makes, and the addresses that it hands on.

All from its instructions, in the same way for compiled C and C++, for ready-made objects and for library
functions in assembly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from capstone import arm

from mlf_sdk.analysis.machine.calls import Frame
from mlf_sdk.analysis.thumb.decode import PC, SCRATCH, Undecoded, is_unconditional
from mlf_sdk.analysis.thumb.flow import TracedInstruction, trace_function

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Function
    from mlf_sdk.analysis.thumb.code import ThumbCode

_ADDRESSES = frozenset({arm.ARM_INS_LDR, arm.ARM_INS_MOVT})  # what puts together an address
_MOST_BETWEEN = 64  # instructions between the load of an offset and its addition to the pc


def read_frame(code: ThumbCode, function: Function, entry: int) -> Frame:
    """Follow a function of a linked image that is entered at an address."""
    trace = trace_function(code, function, entry)
    calls = [step.call for _, step in sorted(trace.steps.items()) if step.call is not None]
    addresses = {
        step.value
        for at, step in trace.steps.items()
        if _takes_address(step) and not _is_offset(trace.steps, at)
    }
    taken = {a & ~1 for a in addresses if isinstance(a, int) and a & 1 and a & ~1 in code.functions}
    objects = (code.image.object_at(a) for a in addresses if isinstance(a, int))
    return Frame(
        function=function,
        entry=entry,
        bytes=max((step.depth for step in trace.steps.values()), default=0),
        calls=tuple(calls),
        taken=frozenset(taken - {call.target for call in calls if call.by_register}),
        objects=frozenset(result.address for result in objects if result is not None),
        unknown=tuple(trace.unknown),
    )


def _takes_address(step: TracedInstruction) -> bool:
    instruction = step.instruction
    if step.value is None or isinstance(instruction, Undecoded):
        return False
    return instruction.id in _ADDRESSES or instruction.operands[-1].reg == PC


def _is_offset(steps: Mapping[int, TracedInstruction], at: int) -> bool:
    """True when the pc is added to what an instruction loads before anything else can be done with it.

    That is how position-independent code, LLVM's for one, takes an address: the word itself is none, whatever
    function lies where it would point to.
    """
    loads = steps[at].instruction
    if isinstance(loads, Undecoded):
        return False
    register = loads.operands[0].reg
    for _ in range(_MOST_BETWEEN):
        following = steps[at].following
        if len(following) != 1 or following[0] not in steps:
            return False
        at = following[0]
        step = steps[at]
        instruction = step.instruction
        if isinstance(instruction, Undecoded) or (step.call is not None and register in SCRATCH):
            return False
        if register in instruction.read:
            operands = instruction.operands
            adds_pc = instruction.id == arm.ARM_INS_ADD and operands[-1].reg == PC
            return adds_pc and operands[0].reg == register and is_unconditional(instruction)
        if register in instruction.written:
            return is_unconditional(instruction)
    return False
