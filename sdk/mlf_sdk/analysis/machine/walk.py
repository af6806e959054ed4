# SPDX-License-Identifier: Apache-2.0
"""Walk through the instructions of a function, with what is known of stack and registers at each.

Every way through the function is followed. Where ways meet, the larger distance of the stack pointer from
where it stood on entry counts, and what both know of registers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from mlf_sdk.analysis.machine.values import joined

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Function

_MAX_GROWTH: Final = 16  # so often the depth at one instruction may grow before it counts as unbounded
_MAX_JOINS: Final = 64  # so often stack addresses may move at one instruction before they count as unknown


class State(msgspec.Struct, kw_only=True):
    """State in which an instruction can be reached.

    Attributes:
        depth: bytes on the stack when it begins, the most of all ways.
        registers: known when it begins, whichever way it was reached.
        growths, joins: of the depth, and of ways.
    """

    depth: int
    registers: dict[int, Any]
    growths: int = 0
    joins: int = 0


Reached = TypeVar("Reached", bound=State)


class Walk(ABC, Generic[Reached]):
    """Walk from the entry of a function until nothing more is learnt.

    Attributes:
        steps: instructions that can be reached, by address.
        unknown: what could make the stack deeper, for people; in order.
    """

    def __init__(self, function: Function, entry: int, instructions: Container[int]) -> None:
        """Begin a walk.

        Args:
            instructions: addresses of instructions that a way may lead to.
        """
        self.function = function
        self.entry = entry
        self.steps: dict[int, Reached] = {}
        self.unknown: dict[str, None] = {}
        self._places = instructions
        self._pending: list[int] = []

    @abstractmethod
    def begin(self, address: int, depth: int, registers: dict[int, Any]) -> Reached:
        """The state of an instruction that is reached for the first time."""

    @abstractmethod
    def follow(self, address: int, step: Reached) -> None:
        """Reach what comes after an instruction."""

    def leave(self, address: int) -> None:
        """Note that a way leads to no instruction: behind a call that never returns, or a table."""

    def walk(self, depth: int, registers: Mapping[int, Any], start: int | None = None) -> None:
        """Reach an instruction, by default the entry, and follow all ways from there."""
        self.reach(self.entry if start is None else start, depth, registers)
        while self._pending:
            address = self._pending.pop()
            self.follow(address, self.steps[address])

    def reach(self, address: int, depth: int, registers: Mapping[int, Any]) -> None:
        """Record that an instruction can be reached in this state."""
        if address not in self._places:
            self.leave(address)
            return
        step = self.steps.get(address)
        if step is None:
            self.steps[address] = self.begin(address, depth, dict(registers))
            self._pending.append(address)
            return
        step.joins += 1
        kept = joined(step.registers, registers, exact=step.joins > _MAX_JOINS)
        if depth <= step.depth and kept == step.registers:
            return
        if depth > step.depth:
            step.growths += 1
            if step.growths > _MAX_GROWTH:
                self.not_known("its stack grows in a loop")
                return
        step.depth, step.registers = max(depth, step.depth), kept
        self._pending.append(address)

    def not_known(self, why: str) -> None:
        """Record a reason for which the stack may be deeper."""
        self.unknown[f"{self.function.name}: {why}"] = None

    @property
    def depth(self) -> int:
        """Most bytes on the stack at any instruction."""
        return max((step.depth for step in self.steps.values()), default=0)
