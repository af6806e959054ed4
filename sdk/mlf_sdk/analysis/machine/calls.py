# SPDX-License-Identifier: Apache-2.0
"""A function as its machine code shows it: its calls, and the stack that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Function


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call, or a jump that leaves the function: what it leads to returns for the function.

    Attributes:
        address: of the instruction.
        after: the address behind it.
        target: None when a pointer decides at run time.
        returns: it comes back to ``after``.
        conditional: it is executed under a condition.
        depth: bytes that the function has on the stack at that time.
        argument: the constant in the register of the first argument, where there is one.
        by_register: the target is in a register.
        table: an address in the object that the target was loaded from; None where that is not known.
    """

    address: int
    after: int
    target: int | None
    returns: bool = True
    conditional: bool = False
    depth: int = 0
    argument: int | None = None
    by_register: bool = False
    table: int | None = None


class Frame(msgspec.Struct, frozen=True, kw_only=True):
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
