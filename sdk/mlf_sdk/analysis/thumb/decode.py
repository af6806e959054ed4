# SPDX-License-Identifier: Apache-2.0
"""Instructions of Thumb code on Cortex-M: decoded by capstone, and classified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import capstone
from capstone import arm

if TYPE_CHECKING:
    from typing import Any

    Instruction: TypeAlias = Any  # capstone has no types

SP, LR, PC = arm.ARM_REG_SP, arm.ARM_REG_LR, arm.ARM_REG_PC
SCRATCH = (arm.ARM_REG_R0, arm.ARM_REG_R1, arm.ARM_REG_R2, arm.ARM_REG_R3, arm.ARM_REG_R12, LR)
"""Registers that a call may change (AAPCS32)."""

CALLS = frozenset({arm.ARM_INS_BL, arm.ARM_INS_BLX})
TESTS = frozenset({arm.ARM_INS_CBZ, arm.ARM_INS_CBNZ})
TABLES = frozenset({arm.ARM_INS_TBB, arm.ARM_INS_TBH})
PUSHES = frozenset({arm.ARM_INS_PUSH, arm.ARM_INS_VPUSH})  # also what is written as stmdb sp!, vstmdb sp!
POPS = frozenset({arm.ARM_INS_POP, arm.ARM_INS_VPOP})
_RESTORES = POPS | {arm.ARM_INS_LDM}

_WIDE = (0b11101, 0b11110, 0b11111)  # first five bits of a 32-bit instruction
_LONGEST_IT_BLOCK = 5  # instructions, the first of them included
MAX_BLOCK_BYTES = 4 * _LONGEST_IT_BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """An instruction that the decoder does not know, of Armv8.1-M for the most part."""

    address: int
    size: int
    first: int
    second: int

    @property
    def stores_with_writeback_to_sp(self) -> bool:
        """True for a store that moves the stack pointer."""
        return self.first >> 9 in (0b1110110, 0b1111110) and self.first & 0x2F == 0x2D


@cache
def _decoder() -> capstone.Cs:
    # M class with v8 takes in Armv6-M, Armv7-M and Armv8-M
    decoder = capstone.Cs(
        capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8
    )
    decoder.detail = True
    return decoder


def decode_all(code: bytes, address: int) -> Iterator[Instruction | Undecoded]:
    """Decode code that begins at an address, to its end."""
    end = address + len(code)
    at = address
    while at < end:
        for found in _decoder().disasm(code[at - address :], at):
            yield found
            at = found.address + found.size
        if at < end:
            first, second = (int.from_bytes(code[at + i - address :][:2], "little") for i in (0, 2))
            size = 4 if first >> 11 in _WIDE else 2
            yield Undecoded(address=at, size=size, first=first, second=second)
            at += size


def decode_block(code: bytes, address: int) -> list[Instruction]:
    """Decode the instruction at an address, and with it the block that it makes conditional (IT).

    Empty where there is no instruction.
    """
    try:
        found = list(_decoder().disasm(code[:MAX_BLOCK_BYTES], address, _LONGEST_IT_BLOCK))
    except capstone.CsError:
        return []
    return found[: len(found[0].mnemonic) if found[0].id == arm.ARM_INS_IT else 1] if found else []


def is_unconditional(instruction: Instruction) -> bool:
    """True when an instruction is always executed."""
    return instruction.cc in (arm.ARM_CC_AL, arm.ARM_CC_INVALID)


def is_return(instruction: Instruction) -> bool:
    """True for a return: to the address in lr, or to one that is taken from the stack."""
    operands = instruction.operands
    if instruction.id in _RESTORES:
        return any(o.type == arm.ARM_OP_REG and o.reg == PC for o in operands)
    if instruction.id == arm.ARM_INS_BX:
        return bool(operands[0].reg == LR)
    if instruction.id == arm.ARM_INS_MOV and operands[0].reg == PC:
        return bool(operands[1].reg == LR)
    return bool(
        instruction.id == arm.ARM_INS_LDR
        and operands[0].reg == PC
        and operands[1].type == arm.ARM_OP_MEM
        and operands[1].mem.base == SP
    )


def label(instruction: Instruction) -> int:
    """The address that a direct branch, call or test names, as far as it is linked."""
    return int(instruction.operands[-1].imm) & 0xFFFFFFFE  # capstone has it with a sign


def written(instruction: Instruction) -> frozenset[int]:
    """Registers that an instruction writes."""
    return frozenset(instruction.regs_access()[1])
