# SPDX-License-Identifier: Apache-2.0
"""Instructions of Thumb code on Cortex-M: decoded by capstone, and classified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import capstone
import msgspec
from capstone import arm

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
_BRANCHES = CALLS | TESTS | {arm.ARM_INS_B}  # with an address as their last operand


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an instruction, as capstone has it: ``reg`` is also the base register of memory."""

    type: int
    reg: int
    imm: int
    mem: Any
    shift: Any


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction at an address.

    Attributes:
        id, mnemonic, cc, operands, writeback: as capstone has them.
        read, written: registers, those included that are no operands.
    """

    address: int
    size: int
    id: int
    mnemonic: str
    cc: int
    writeback: bool
    operands: tuple[Operand, ...]
    read: frozenset[int]
    written: frozenset[int]

    def moved(self, by: int) -> Instruction:
        """The same bytes ``by`` bytes further on: what a branch names moves with them."""
        operands = self.operands
        if self.id in _BRANCHES and operands[-1].type == arm.ARM_OP_IMM:
            target = (operands[-1].imm + by) & 0xFFFFFFFF
            operands = (*operands[:-1], replace(operands[-1], imm=target, reg=target))
        return Instruction(
            self.address + by,
            self.size,
            self.id,
            self.mnemonic,
            self.cc,
            self.writeback,
            operands,
            self.read,
            self.written,
        )


class Undecoded(msgspec.Struct, frozen=True, kw_only=True):
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


def _length(code: bytes) -> int:
    """Bytes of the first instruction, and of those that it makes conditional."""
    first = int.from_bytes(code[:2], "little")
    left = 1
    if first >> 8 == 0xBF and first & 0xF:  # IT: the lowest bit that is set ends the block
        left += 4 - ((first & -first) & 0xF).bit_length() + 1
    at = 0
    for _ in range(left):
        at += 4 if int.from_bytes(code[at : at + 2], "little") >> 11 in _WIDE else 2
    return at


@lru_cache(maxsize=1 << 15)
def _decoded(code: bytes) -> tuple[Instruction, ...]:
    """Decode one instruction, or an IT block, as if it lay at address 0; what is unknown is missing.

    Kept, because few encodings make up most of the code, and reading capstone's structures takes time.
    """
    result = []
    for one in _decoder().disasm(code, 0):
        read, written = one.regs_access()
        operands = (Operand(o.type, o.reg, o.imm, o.mem, o.shift) for o in one.operands)
        result.append(
            Instruction(
                address=one.address,
                size=one.size,
                id=one.id,
                mnemonic=one.mnemonic,
                cc=one.cc,
                writeback=one.writeback,
                operands=tuple(operands),
                read=frozenset(read),
                written=frozenset(written),
            )
        )
    return tuple(result)


def decode_all(code: bytes, address: int) -> Iterator[Instruction | Undecoded]:
    """Decode code that begins at an address, to its end."""
    at = 0
    while at < len(code):
        block = code[at : at + MAX_BLOCK_BYTES]
        result = _decoded(block[: _length(block)])
        for one in result:
            yield one.moved(address + at)
        at += sum(one.size for one in result)
        if not result:
            first, second = (int.from_bytes(block[i : i + 2], "little") for i in (0, 2))
            size = 4 if first >> 11 in _WIDE else 2
            yield Undecoded(address=address + at, size=size, first=first, second=second)
            at += size


def decode_block(code: bytes, address: int) -> list[Instruction]:
    """Decode the instruction at an address, and with it the block that it makes conditional (IT).

    Empty where there is no instruction.
    """
    return [one.moved(address) for one in _decoded(code[: _length(code)])]


def disassemble(code: bytes, address: int) -> str:
    """Text of the first instruction, as ``vadd.f32 s0, s0, s1``; empty where there is none."""
    result = next(_decoder().disasm(code, address, 1), None)
    return " ".join(filter(None, (result.mnemonic, result.op_str))) if result else ""


def register_name(register: int) -> str:
    """Name of a register, as ``d0``."""
    return str(_decoder().reg_name(register))


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
