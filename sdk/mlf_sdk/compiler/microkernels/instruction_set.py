# SPDX-License-Identifier: Apache-2.0
"""Instruction sets as data: registers, frames, and the spelling of each operation."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.compiler.microkernels.operations import MEANINGS
from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.rowfile import described, read_row


class Registers(msgspec.Struct, forbid_unknown_fields=True):
    """Registers that a function may use.

    Attributes:
        all: names; a list of registers in an instruction is in this order.
        short: number of the first ones that short encodings reach.
        arguments: number of the first ones that hold arguments.
        groups: names of those that alone may hold a kind of contents (`builder.Kind.group`).
    """

    all: tuple[str, ...]
    short: int
    arguments: int
    groups: dict[str, tuple[str, ...]] = {}

    def numbers(self, group: str) -> set[int]:
        """Numbers of the registers of a group."""
        return {self.all.index(name) for name in self.groups[group]}


class File(msgspec.Struct, forbid_unknown_fields=True):
    """Registers beside the general ones: vectors, predicates, those that few instructions reach.

    Attributes:
        all: names.
        kept: number of the first ones that a function need not preserve; by default all.
        save, restore: instructions that keep the others on the stack; ``bytes``: what they take there.
    """

    all: tuple[str, ...]
    kept: int = 99
    save: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    bytes: int = 0


class Frame(msgspec.Struct, forbid_unknown_fields=True):
    """Instructions at the ends of a function.

    Attributes:
        enter, leave: instructions without a place on the stack; behind each that moves the stack pointer or
            a caller's register, ``.cfi_`` directives say to debuggers where these are now.
        bytes: what ``enter`` takes on the stack.
        reserve, release: of ``{i}`` bytes for values that no register holds.
        alignment: of the stack, bytes.
    """

    enter: tuple[str, ...]
    leave: tuple[str, ...]
    reserve: tuple[str, ...]
    release: tuple[str, ...]
    alignment: int
    bytes: int = 0


class Limits(msgspec.Struct, forbid_unknown_fields=True):
    """Largest constants, in bytes: an offset, an addition, each of several additions."""

    offset: int
    step: int
    step_many: int


class Spelling(msgspec.Struct, forbid_unknown_fields=True):
    """Instructions of an operation.

    Attributes:
        meaning: of an operation that `MEANINGS` does not have; an expression, or assignments as
            `mlf_sdk.compiler.microkernels.assignments` has them.
        modifies: the result is in the register of the first operand.
    """

    text: tuple[str, ...]
    meaning: str = ""
    modifies: bool = False


Places = dict[str, tuple[str, ...]]
"""Makers, ``module:function`` in `mlf_sdk.compiler.kernels`, by the name of their operator's class."""


class KernelSet(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Makers of kernels that are written for an instruction set.

    Attributes:
        all: for every goal that states none of its own.
        any_core: they may be the best ones of a core without it, too: they are mostly plain C.
    """

    all: Places = {}
    balanced: Places | None = None
    speed: Places | None = None
    instructions: Places | None = None
    size: Places | None = None
    ram: Places | None = None
    any_core: bool = False

    def of(self, goal: str) -> Places:
        """Makers for a goal."""
        own: Places | None = getattr(self, goal)
        return self.all if own is None else own

    @property
    def tables(self) -> tuple[Places, ...]:
        """Makers of all goals."""
        own = (self.balanced, self.speed, self.instructions, self.size, self.ram)
        return (self.all, *(table for table in own if table is not None))


class InstructionSet(msgspec.Struct, forbid_unknown_fields=True, dict=True):
    """An instruction set.

    Attributes:
        condition: of the C preprocessor, true where a compiler has it.
        operations: spelling of each operation: its one instruction, or a `Spelling`.
        memory, flow: spelling of loads, stores, loops and constants.
        files: registers beside the general ones, by the name that `builder.Kind.file` has.
        extends: another instruction set, whose rows this one has too; its own replace them.
        kernels: those that are written for it; not those of the one that it extends.
    """

    condition: str
    registers: Registers
    frame: Frame
    limits: Limits
    operations: dict[str, str | Spelling]
    memory: dict[str, tuple[str, ...]]
    flow: dict[str, tuple[str, ...]]
    files: dict[str, File] = {}
    extends: str = ""
    kernels: KernelSet = KernelSet()

    @functools.cached_property
    def spellings(self) -> dict[str, Spelling]:
        """Spelling of each operation."""
        return {n: Spelling((s,)) if isinstance(s, str) else s for n, s in self.operations.items()}

    @functools.cached_property
    def meanings(self) -> dict[str, str]:
        """Meaning of each operation."""
        return {name: spelling.meaning or MEANINGS[name] for name, spelling in self.spellings.items()}

    def names(self, file: str) -> tuple[str, ...]:
        """Names of the registers of a file; that of the general ones is called ""."""
        return self.files[file].all if file else self.registers.all


def _tables(path: Path) -> dict[str, Any]:
    """Rows of a file, behind those of what it extends."""
    tables = read_row(path, dict[str, Any])
    if "extends" not in tables:
        return tables
    rows = _tables(path.with_name(f"{tables['extends']}.toml"))
    base = {name: table for name, table in rows.items() if name != "kernels"}
    return base | {n: base[n] | t if isinstance(t, dict) and n in base else t for n, t in tables.items()}


def read_instruction_set(path: Path) -> InstructionSet:
    """An instruction set from its TOML file.

    Raises:
        InputError: the file is not one, or an operation has no meaning, or two.
    """
    try:
        result = msgspec.convert(_tables(path), described(InstructionSet))
    except msgspec.ValidationError as error:
        raise InputError(f"{error}", where=str(path)) from error
    for name, spelling in result.spellings.items():
        if bool(spelling.meaning) == (name in MEANINGS):
            raise InputError(
                f"operation '{name}' has {'two meanings' if spelling.meaning else 'no meaning'}",
                where=str(path),
            )
    return result


@functools.cache
def instruction_set(name: str) -> InstructionSet:
    """The instruction set ``board_templates/instruction_sets/NAME.toml``."""
    return read_instruction_set(data_dir("board_templates") / "instruction_sets" / f"{name}.toml")


@functools.cache
def instruction_set_names() -> tuple[str, ...]:
    """Names of all instruction sets, sorted."""
    folder = data_dir("board_templates") / "instruction_sets"
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))
