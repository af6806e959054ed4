# SPDX-License-Identifier: Apache-2.0
"""Instruction sets as data: registers, frames, and the spelling of each operation."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from mlf_sdk.compiler.microkernels.operations import MEANINGS
from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.rowfile import read_row


class Registers(msgspec.Struct, forbid_unknown_fields=True):
    """Registers that a function may use.

    Attributes:
        all: names; a list of registers in an instruction is in this order.
        short: number of the first ones that short encodings reach.
        arguments: number of the first ones that hold arguments.
    """

    all: tuple[str, ...]
    short: int
    arguments: int


class Frame(msgspec.Struct, forbid_unknown_fields=True):
    """Instructions at the ends of a function.

    Attributes:
        saved: registers that ``enter`` keeps, from the lowest address up; a word each.
        enter, leave: instructions without a place on the stack.
        reserve, release: of ``{i}`` bytes for values that no register holds.
        alignment: of the stack, bytes.
    """

    enter: tuple[str, ...]
    leave: tuple[str, ...]
    reserve: tuple[str, ...]
    release: tuple[str, ...]
    alignment: int
    saved: tuple[str, ...] = ()


class Limits(msgspec.Struct, forbid_unknown_fields=True):
    """Largest constants, in bytes: an offset, an addition, each of several additions."""

    offset: int
    step: int
    step_many: int


class Spelling(msgspec.Struct, forbid_unknown_fields=True):
    """Instructions of an operation.

    Attributes:
        meaning: of an operation that `MEANINGS` does not have.
        modifies: the result is in the register of the first operand.
    """

    text: tuple[str, ...]
    meaning: str = ""
    modifies: bool = False


class InstructionSet(msgspec.Struct, forbid_unknown_fields=True, dict=True):
    """An instruction set.

    Attributes:
        condition: of the C preprocessor, true where a compiler has it.
        operations: spelling of each operation: its one instruction, or a `Spelling`.
        memory, flow: spelling of loads, stores, loops and constants.
    """

    condition: str
    registers: Registers
    frame: Frame
    limits: Limits
    operations: dict[str, str | Spelling]
    memory: dict[str, tuple[str, ...]]
    flow: dict[str, tuple[str, ...]]

    @functools.cached_property
    def spellings(self) -> dict[str, Spelling]:
        """Spelling of each operation."""
        return {n: Spelling((s,)) if isinstance(s, str) else s for n, s in self.operations.items()}

    @functools.cached_property
    def meanings(self) -> dict[str, str]:
        """Meaning of each operation."""
        return {name: spelling.meaning or MEANINGS[name] for name, spelling in self.spellings.items()}


def read_instruction_set(path: Path) -> InstructionSet:
    """An instruction set from its TOML file.

    Raises:
        InputError: the file is not one, or an operation has no meaning, or two.
    """
    found = read_row(path, InstructionSet)
    for name, spelling in found.spellings.items():
        if bool(spelling.meaning) == (name in MEANINGS):
            raise InputError(
                f"operation '{name}' has {'two meanings' if spelling.meaning else 'no meaning'}",
                where=str(path),
            )
    return found


@functools.cache
def instruction_set(name: str) -> InstructionSet:
    """The instruction set ``board_templates/instruction_sets/NAME.toml``."""
    return read_instruction_set(data_dir("board_templates") / "instruction_sets" / f"{name}.toml")
