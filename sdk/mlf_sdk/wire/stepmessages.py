# SPDX-License-Identifier: Apache-2.0
"""The messages of ``crt/PROTOCOL.md`` about single steps: STEP, ADVANCE, PEEK."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from mlf_sdk.wire.protocol import Body, MessageError


@dataclass(frozen=True, slots=True)
class StepRequest(Body):
    """STEP: model, and index of the step in the order of execution."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BH")
    model: int
    step: int


@dataclass(frozen=True, slots=True)
class AdvanceRequest(Body):
    """ADVANCE: model, the first step to run (the device's position, or 0 to begin), and how many."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BHH")
    model: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class PeekRequest(Body):
    """PEEK: model, step, Direction, index of the argument, offset and size in bytes."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BHBHIH")
    model: int
    step: int
    direction: int
    index: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class StepReply(Body):
    """STEP: the step's number in the archive, how many inputs and outputs; flags and name follow."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<HHH")
    number: int
    num_inputs: int
    num_outputs: int


@dataclass(frozen=True, slots=True)
class AdvanceReply(Body):
    """ADVANCE: the step that failed or NO_STEP, steps that have run, CRC-32 of the last one's outputs,
    and ticks between two looks at the counter; the ticks of each step follow.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<iHIQ")
    step: int
    position: int
    crc32: int
    empty_ticks: int


TICKS = struct.Struct("<Q")


def unpack_ticks(body: bytes) -> tuple[int, ...]:
    """The ticks behind an AdvanceReply."""
    if len(body) % TICKS.size:
        raise MessageError("the ticks of a step are cut off")
    return tuple(ticks for (ticks,) in TICKS.iter_unpack(body))
