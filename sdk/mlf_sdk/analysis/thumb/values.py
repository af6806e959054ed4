# SPDX-License-Identifier: Apache-2.0
"""Values that Thumb instructions put into registers: constants, stack addresses, words of known objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from capstone import arm

from mlf_sdk.analysis.machine.values import Loaded, StackAddress, Value

if TYPE_CHECKING:
    from mlf_sdk.analysis.thumb.decode import Instruction, Operand
    from mlf_sdk.analysis.thumb.flow import Code

_MASK = 0xFFFFFFFF
_MOST_ALIGNED_BITS = 12
_ADDS = frozenset({arm.ARM_INS_ADD, arm.ARM_INS_ADDW, arm.ARM_INS_ADR})
_SUBS = frozenset({arm.ARM_INS_SUB, arm.ARM_INS_SUBW})
_MOVES = frozenset({arm.ARM_INS_MOV, arm.ARM_INS_MOVW})


def value_of(
    code: Code, instruction: Instruction, depth: int, registers: Mapping[int, Value]
) -> Value | None:
    """The value that an instruction puts into its first register; None when that is not known.

    Args:
        depth: bytes from the stack pointer on entry down to where it is now.
        registers: those that are known.
    """
    operands = instruction.operands
    if len(operands) < 2 or operands[0].type != arm.ARM_OP_REG or code.is_relocated(instruction.address):
        return None
    last = operands[-1]
    if last.type == arm.ARM_OP_MEM:
        return _loaded(code, instruction, registers) if instruction.id == arm.ARM_INS_LDR else None
    if any(o.shift.type for o in operands):
        return None

    def held(operand: Operand) -> Value | None:
        if operand.type == arm.ARM_OP_IMM:
            return int(operand.imm) & _MASK
        if operand.reg == arm.ARM_REG_PC:
            here = int(instruction.address + 4)
            return here & ~3 if last.type == arm.ARM_OP_IMM else here
        return StackAddress(depth) if operand.reg == arm.ARM_REG_SP else registers.get(operand.reg)

    if instruction.id == arm.ARM_INS_BFC:  # clears bits from operands[1] on: aligns where that is 0
        aligned = held(operands[0])
        low = operands[1].imm == 0 and isinstance(aligned, StackAddress) and last.imm < _MOST_ALIGNED_BITS
        return (
            StackAddress(aligned.bytes + (1 << last.imm) - 1)
            if isinstance(aligned, StackAddress) and low
            else None
        )
    first, second = held(operands[-2]), held(last)
    if instruction.id in _MOVES and len(operands) == 2:
        return second
    if instruction.id == arm.ARM_INS_ADR:
        first = int((instruction.address + 4) & ~3)
    return _computed(instruction.id, first, second)


def _computed(operation: int, first: Value | None, second: Value | None) -> Value | None:
    """The result of an operation on two values, the second of them often a constant."""
    if operation == arm.ARM_INS_MVN:
        return ~second & _MASK if isinstance(second, int) else None
    if operation in _ADDS and isinstance(first, int) and isinstance(second, StackAddress):
        first, second = second, first
    if not isinstance(second, int):
        return None
    if isinstance(first, StackAddress):
        return _moved(operation, first, second)
    if not isinstance(first, int):
        return None
    results = {
        arm.ARM_INS_MOVT: (first & 0xFFFF) | second << 16,
        arm.ARM_INS_LSL: first << (second & 31),
        **dict.fromkeys(_ADDS, first + second),
        **dict.fromkeys(_SUBS, first - second),
    }
    return results[operation] & _MASK if operation in results else None


def _moved(operation: int, address: StackAddress, by: int) -> StackAddress | None:
    """An address on the stack with something added to it, or aligned downwards."""
    if operation in _ADDS or operation in _SUBS:
        signed = by - (1 << 32) if by >> 31 else by
        return StackAddress(address.bytes - signed if operation in _ADDS else address.bytes + signed)
    mask = by if operation == arm.ARM_INS_BIC else ~by & _MASK if operation == arm.ARM_INS_AND else None
    return StackAddress(address.bytes + mask) if mask is not None and mask < 1 << _MOST_ALIGNED_BITS else None


def _loaded(code: Code, instruction: Instruction, registers: Mapping[int, Value]) -> Value | None:
    """The word beside the code that a load takes, or the object that it takes a word from."""
    memory = instruction.operands[-1].mem
    is_scaled = bool(instruction.operands[-1].shift.type)  # else either register may hold the address
    if instruction.writeback or (memory.index and not is_scaled):
        return None
    if memory.base != arm.ARM_REG_PC:
        base = registers.get(memory.base)
        return Loaded((base + memory.disp) & _MASK) if isinstance(base, int) else None
    if memory.index:
        return None
    return code.word(((instruction.address + 4) & ~3) + memory.disp)
