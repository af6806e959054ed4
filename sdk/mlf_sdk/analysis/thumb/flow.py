# SPDX-License-Identifier: Apache-2.0
"""One Thumb function at a time: its instructions, where each leads, and the constants in registers.

Follows the flow of control from an entry. Code that cannot be followed for certain (a jump through
a table or a register, bytes that are no instruction) raises UntraceableError.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import capstone
from capstone import arm

from mlf_sdk.analysis.elf import raw as rawelf
from mlf_sdk.analysis.elf.raw import RawElf, RawRelocation, RawSymbol

MAX_INSTRUCTIONS = 50_000
"""Instructions that are decoded of one object."""

MAX_VISITS = 200_000
"""Instructions that are gone through in one object, each as often as what is known at it changes."""

_R_ARM_ABS32 = 2
_LONGEST_IT_BLOCK = 5
_MASK = 0xFFFFFFFF
_CLOBBERED = (arm.ARM_REG_R0, arm.ARM_REG_R1, arm.ARM_REG_R2, arm.ARM_REG_R3, arm.ARM_REG_R12, arm.ARM_REG_LR)
_CALLS = frozenset({arm.ARM_INS_BL, arm.ARM_INS_BLX})
_TESTS = frozenset({arm.ARM_INS_CBZ, arm.ARM_INS_CBNZ})
_TABLES = frozenset({arm.ARM_INS_TBB, arm.ARM_INS_TBH})
_RESTORES = frozenset({arm.ARM_INS_POP, arm.ARM_INS_LDM})
_TRAPS = frozenset({arm.ARM_INS_UDF, arm.ARM_INS_BKPT})


class UntraceableError(Exception):
    """The machine code cannot be followed; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of code: section index and offset."""

    section: int
    offset: int


if TYPE_CHECKING:
    from typing import Any

    Instruction: TypeAlias = Any  # of a library without types

Value = int | Place | str
"""What a register holds: a number, a place in the code, or the address of an undefined symbol."""

Registers = Mapping[int, Value]


@dataclass(slots=True)
class Call:
    """A call, or a jump that leaves the function: its target, and whether it returns here.

    ``target`` is a Place or the name of an undefined symbol; None when it is not known.
    """

    target: Place | str | None
    returns: bool
    conditional: bool = False


@dataclass(slots=True)
class Step:
    """One instruction.

    Attributes:
        following: offsets that it can lead to inside the function.
        call: what it calls, if it does.
        leaves: it may return from the function.
        registers: known when the instruction begins, whichever way it was reached.
    """

    instruction: Instruction
    following: tuple[int, ...] = ()
    call: Call | None = None
    leaves: bool = False
    registers: dict[int, Value] = field(default_factory=dict)


class ThumbCode:
    """The code of an ARM object, decoded on demand."""

    def __init__(self, elf: RawElf) -> None:
        """Index the relocations and the functions of ``elf``."""
        self.elf = elf
        self.decoder = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
        self.decoder.detail = True
        self.relocations = {(r.section, r.offset): r for r in elf.relocations}
        self.entries = {place(s) for s in elf.symbols if s.type == rawelf.STT_FUNC and s.is_defined}
        self.cache: dict[Place, Instruction] = {}
        self.visits = 0

    def trace(self, entry: Place) -> dict[int, Step]:
        """Steps of the function at ``entry`` by offset.

        Raises:
            UntraceableError: some of it cannot be followed.
        """
        steps: dict[int, Step] = {}
        pending: list[tuple[int, Registers]] = [(entry.offset, {})]
        while pending:
            offset, registers = pending.pop()
            self.visits += 1
            if self.visits > MAX_VISITS:
                raise UntraceableError("the object has too much code to follow")
            step = steps.get(offset)
            if step is None:
                step = steps[offset] = Step(self._decode(Place(entry.section, offset)))
                step.registers = dict(registers)
            else:
                kept = {r: v for r, v in step.registers.items() if r in registers and registers[r] == v}
                if len(kept) == len(step.registers):
                    continue
                step.registers = kept
            self._resolve(step, entry)
            after = self._after(step, entry.section)
            pending += [(following, after) for following in step.following]
        return steps

    def _decode(self, at: Place) -> Instruction:
        """The instruction at a place; one in an IT block with its condition."""
        if at not in self.cache:
            if len(self.cache) >= MAX_INSTRUCTIONS:
                raise UntraceableError(f"the object has more than {MAX_INSTRUCTIONS} instructions")
            code = self._code(at)
            found = list(self.decoder.disasm(code[: 4 * _LONGEST_IT_BLOCK], at.offset, _LONGEST_IT_BLOCK))
            if not found:
                raise UntraceableError(f"there is no instruction at {at.offset:#x}")
            block = len(found[0].mnemonic) if found[0].id == arm.ARM_INS_IT else 1
            for instruction in found[:block]:
                self.cache.setdefault(Place(at.section, instruction.address), instruction)
        return self.cache[at]

    def _code(self, at: Place) -> bytes:
        section = self.elf.sections[at.section] if at.section < len(self.elf.sections) else None
        if section is None or not section.flags & rawelf.SHF_EXECINSTR or at.offset >= len(section.data):
            raise UntraceableError("the flow of control leaves the code")
        return bytes(section.data[at.offset : at.offset + 4 * _LONGEST_IT_BLOCK])

    def _resolve(self, step: Step, entry: Place) -> None:
        """Find where an instruction leads, with the registers that are known at it."""
        instruction = step.instruction
        after = instruction.address + instruction.size
        always = instruction.cc in (arm.ARM_CC_AL, arm.ARM_CC_INVALID)
        onward = () if always else (after,)
        operands = instruction.operands
        if instruction.id in _CALLS:
            step.call = Call(self._target(step, entry.section), returns=True, conditional=not always)
            step.following = (after,)
        elif instruction.id in _TESTS:
            step.following = (after, operands[1].imm)
        elif instruction.id == arm.ARM_INS_B:
            target = self._target(step, entry.section)
            if (
                isinstance(target, Place)
                and target.section == entry.section
                and not self._is_other(target, entry)
            ):
                step.following = (*onward, target.offset)
            else:
                step.call = Call(target, returns=False, conditional=not always)
                step.following = onward
        elif instruction.id == arm.ARM_INS_BX:
            if operands[0].reg == arm.ARM_REG_LR:
                step.leaves = True
            else:
                step.call = Call(self._target(step, entry.section), returns=False, conditional=not always)
            step.following = onward
        elif _restores_pc(instruction):
            step.leaves, step.following = True, onward
        elif instruction.id in _TRAPS:
            step.following = ()
        elif instruction.id in _TABLES or arm.ARM_REG_PC in self._written(instruction):
            raise UntraceableError(
                f"there is a jump through a table or a register at {instruction.address:#x}"
            )
        else:
            step.following = (after,)

    def _is_other(self, target: Place, entry: Place) -> bool:
        return target in self.entries and target != entry

    def _target(self, step: Step, section: int) -> Place | str | None:
        """What a branch goes to: by its relocation, its operand, or the register in it."""
        instruction = step.instruction
        relocation = self.relocations.get((section, instruction.address))
        operand = instruction.operands[0]
        if operand.type == arm.ARM_OP_REG:
            value = step.registers.get(operand.reg)
            return None if isinstance(value, int) else value
        if relocation is None:
            return Place(section, operand.imm & ~1)
        symbol = self.elf.symbols[relocation.symbol]
        if not symbol.is_defined:
            return symbol.name
        where = place(symbol)
        return Place(where.section, where.offset + operand.imm - instruction.address)

    def _written(self, instruction: Instruction) -> set[int]:
        return set(instruction.regs_access()[1])

    def _after(self, step: Step, section: int) -> dict[int, Value]:
        """Registers that are known when the instruction is done."""
        instruction = step.instruction
        known = dict(step.registers)
        if instruction.id in _CALLS:
            gone = set(_CLOBBERED)
            value = None
        else:
            gone = self._written(instruction)
            value = self._value(step, section) if instruction.cc == arm.ARM_CC_AL else None
        for register in gone:
            known.pop(register, None)
        if value is not None:
            known[instruction.operands[0].reg] = value
        return known

    def _value(self, step: Step, section: int) -> Value | None:
        """What an instruction puts into its first register, if that is a constant."""
        instruction = step.instruction
        operands = instruction.operands
        if len(operands) < 2 or operands[0].type != arm.ARM_OP_REG or any(o.shift.type for o in operands):
            return None
        if (section, instruction.address) in self.relocations:
            return None
        last, old = operands[-1], step.registers.get(operands[0].reg)
        number = last.imm if last.type == arm.ARM_OP_IMM else None
        value: Value | None = None
        if instruction.id in (arm.ARM_INS_MOV, arm.ARM_INS_MOVW) and len(operands) == 2:
            value = number & _MASK if number is not None else step.registers.get(last.reg)
        elif instruction.id == arm.ARM_INS_MVN and number is not None:
            value = ~number & _MASK
        elif instruction.id == arm.ARM_INS_MOVT and isinstance(old, int) and number is not None:
            value = (old & 0xFFFF) | ((number & 0xFFFF) << 16)
        elif instruction.id == arm.ARM_INS_LDR and last.type == arm.ARM_OP_MEM:
            value = self._literal(instruction, section)
        elif instruction.id == arm.ARM_INS_LSL and number is not None and len(operands) == 3:
            shifted = step.registers.get(operands[1].reg)
            value = (shifted << (number & 31)) & _MASK if isinstance(shifted, int) else None
        elif instruction.id in (arm.ARM_INS_ADD, arm.ARM_INS_SUB):
            value = self._sum(step, section, number)
        return value

    def _sum(self, step: Step, section: int, number: int | None) -> Value | None:
        """The result of an addition or subtraction of constants, or of an offset and the place."""
        instruction = step.instruction
        operands = instruction.operands
        first = step.registers.get(operands[-2].reg) if operands[-2].type == arm.ARM_OP_REG else None
        if instruction.id == arm.ARM_INS_ADD and number is None and operands[-1].reg == arm.ARM_REG_PC:
            here = instruction.address + 4
            return Place(section, (first + here) & _MASK & ~1) if isinstance(first, int) else None
        if not isinstance(first, int) or number is None:
            return None
        return (first + number if instruction.id == arm.ARM_INS_ADD else first - number) & _MASK

    def _literal(self, instruction: Instruction, section: int) -> Value | None:
        """The word that a load takes from the constants beside the code."""
        memory = instruction.operands[1].mem
        if memory.base != arm.ARM_REG_PC or memory.index or instruction.writeback:
            return None
        offset = ((instruction.address + 4) & ~3) + memory.disp
        data = self.elf.sections[section].data
        if offset < 0 or offset + 4 > len(data):
            return None
        (word,) = struct.unpack_from("<I", data, offset)
        relocation = self.relocations.get((section, offset))
        return int(word) if relocation is None else self._address(relocation, word)

    def _address(self, relocation: RawRelocation, addend: int) -> Value | None:
        """The address that the linker will put in place of a word, as far as it is one of code."""
        symbol = self.elf.symbols[relocation.symbol]
        if relocation.type != _R_ARM_ABS32:
            return None
        if not symbol.is_defined:
            return symbol.name if addend == 0 else None
        where = place(symbol)
        return Place(where.section, (where.offset + addend) & ~1)


def place(symbol: RawSymbol) -> Place:
    """Where the code of a symbol is, without the bit that says Thumb."""
    return Place(symbol.section, symbol.value & ~1)


def _restores_pc(instruction: Instruction) -> bool:
    """Whether an instruction returns by taking the return address from the stack."""
    operands = instruction.operands
    if instruction.id in _RESTORES:
        return any(operand.reg == arm.ARM_REG_PC for operand in operands)
    return bool(
        instruction.id == arm.ARM_INS_LDR
        and operands[0].reg == arm.ARM_REG_PC
        and operands[1].type == arm.ARM_OP_MEM
        and operands[1].mem.base == arm.ARM_REG_SP
    )
