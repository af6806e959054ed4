# SPDX-License-Identifier: Apache-2.0
"""Control flow of one Thumb function, with the stack depth and the constants at each instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec
from capstone import arm

from mlf_sdk.analysis.machine.calls import Call
from mlf_sdk.analysis.machine.values import Loaded, StackAddress, Value, joined
from mlf_sdk.analysis.machine.walk import State, Walk
from mlf_sdk.analysis.thumb import decode
from mlf_sdk.analysis.thumb.decode import PC, SP, Undecoded
from mlf_sdk.analysis.thumb.values import value_of

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Function
    from mlf_sdk.analysis.thumb.decode import Instruction

MAX_VISITS = 200_000
"""Instructions that are gone through in code of unknown origin, each as often as what is known changes."""

_TABLE_HELPER = "__gnu_thumb1_case_"  # libgcc: jumps through the table behind its call
_RETURN = StackAddress(-1)  # stands for the return address


class UntraceableError(Exception):
    """Machine code that cannot be followed; the text gives the reason."""


class Code(Protocol):
    """The machine code of a linked image, or of an object.

    Attributes:
        strict: raise UntraceableError where the flow is not certain; else go on with what is likely.
        visits: instructions that were gone through.
    """

    strict: bool
    visits: int

    @property
    def functions(self) -> Mapping[int, Function]:
        """Functions that have a symbol, by address."""

    def instructions(self, function: Function) -> Mapping[int, Instruction | Undecoded]:
        """The instructions that the flow of a function can reach without a call, by address."""

    def branch_target(self, instruction: Instruction) -> int | None:
        """The address that a direct branch or call goes to."""

    def name_at(self, address: int) -> str:
        """The name of the function at an address; empty: it has none."""

    def word(self, address: int) -> int | None:
        """The word at an address; None where it is not known."""

    def is_relocated(self, address: int) -> bool:
        """True when the linker will still change the instruction at an address."""


class TracedInstruction(State, kw_only=True):
    """One instruction that can be reached.

    Attributes:
        following: addresses that it can lead to inside the function.
        call: what it calls, if it does.
        leaves: it may return from the function.
        value: what it puts into its first register, where that is known.
    """

    instruction: Instruction | Undecoded
    following: tuple[int, ...] = ()
    call: Call | None = None
    leaves: bool = False
    value: Value | None = None


class Trace(msgspec.Struct):
    """A function as its flow shows it: steps by address, and what could make its stack deeper."""

    steps: dict[int, TracedInstruction] = msgspec.field(default_factory=dict)
    unknown: dict[str, None] = msgspec.field(default_factory=dict)


def trace_function(code: Code, function: Function, entry: int) -> Trace:
    """Follow a function that is entered at an address.

    Raises:
        UntraceableError: the code is strict, and some of it cannot be followed for certain.
    """
    return _Tracer(code, function, entry).run()


class _Tracer(Walk[TracedInstruction]):
    def __init__(self, code: Code, function: Function, entry: int) -> None:
        self.code = code
        self.instructions = code.instructions(function)
        super().__init__(function, entry, self.instructions)
        self.table: tuple[int, dict[int, Value]] | None = None

    def run(self) -> Trace:
        self.walk(0, {})
        while self.table is not None:
            # What only a jump through a table reaches has the depth of that jump.
            left = next((a for a in self.instructions if a >= self.entry and a not in self.steps), None)
            if left is None:
                break
            self.walk(*self.table, start=left)
        return Trace(self.steps, self.unknown)

    def begin(self, address: int, depth: int, registers: dict[int, Value]) -> TracedInstruction:
        return TracedInstruction(instruction=self.instructions[address], depth=depth, registers=registers)

    def leave(self, address: int) -> None:
        if self.code.strict:
            raise UntraceableError("the flow of control leaves the code")

    def follow(self, address: int, step: TracedInstruction) -> None:
        self.code.visits += 1
        if self.code.strict and self.code.visits > MAX_VISITS:
            raise UntraceableError("the object has too much code to follow")
        step.following, step.call, step.leaves, step.value = (), None, False, None
        if isinstance(step.instruction, Undecoded):
            self._pass_undecoded(step, step.instruction)
        else:
            self._resolve(step, step.instruction)

    def _onward(self, step: TracedInstruction, address: int, depth: int, registers: dict[int, Value]) -> None:
        step.following = (*step.following, address)
        self.reach(address, depth, registers)

    def _pass_undecoded(self, step: TracedInstruction, instruction: Undecoded) -> None:
        """Skip an undecoded instruction: harmless unless it stores with writeback to the stack pointer."""
        if self.code.strict:
            raise UntraceableError(f"there is no instruction at {self.code.name_at(instruction.address)}")
        if instruction.stores_with_writeback_to_sp:
            self.not_known("an unknown instruction moves the stack pointer")
        self._onward(step, instruction.address + instruction.size, step.depth, step.registers)

    # ---- where an instruction leads ----

    def _resolve(self, step: TracedInstruction, instruction: Instruction) -> None:
        after = instruction.address + instruction.size
        always = decode.is_unconditional(instruction)
        if instruction.id in decode.CALLS:
            self._call(step, instruction, after)
        elif instruction.id in decode.TESTS:
            self._onward(step, after, step.depth, step.registers)
            self._onward(step, decode.label(instruction), step.depth, step.registers)
        elif instruction.id == arm.ARM_INS_UDF:
            pass  # a trap
        elif self._jump(step, instruction):
            if not always:
                self._onward(step, after, step.depth, step.registers)
        else:
            depth, registers = self._effect(step, instruction)
            self._onward(step, after, depth if always else max(depth, step.depth), registers)

    def _call(self, step: TracedInstruction, instruction: Instruction, after: int) -> None:
        target = self._target(step, instruction)
        kept = {r: v for r, v in step.registers.items() if r not in decode.SCRATCH}
        is_direct = instruction.operands[0].type == arm.ARM_OP_IMM
        if target is not None and is_direct and self._is_far_jump(target):
            self._onward(step, target, step.depth, {})
        elif target is not None and self.code.name_at(target).startswith(_TABLE_HELPER):
            self._jump_by_table(step, instruction)
        else:
            self._set_call(step, instruction, target, returns=True)
        self._onward(step, after, step.depth, kept)

    def _jump(self, step: TracedInstruction, instruction: Instruction) -> bool:
        """Follow a branch, a jump or a return; False for any other instruction."""
        if decode.is_return(instruction):
            step.leaves = True
        elif instruction.id == arm.ARM_INS_B:
            self._go(step, instruction, self.code.branch_target(instruction))
        elif instruction.id == arm.ARM_INS_BX:
            if step.registers.get(instruction.operands[0].reg) == _RETURN:
                step.leaves = True
            else:
                self._set_call(step, instruction, self._target(step, instruction), returns=False)
        elif instruction.id in decode.TABLES:
            self._jump_by_table(step, instruction)
        elif _computes_pc(instruction):
            value = value_of(self.code, instruction, step.depth, step.registers)
            if isinstance(value, int):
                self._go(step, instruction, value & ~1)
            else:
                self._jump_by_table(step, instruction)
        else:
            return False
        return True

    def _go(self, step: TracedInstruction, instruction: Instruction, target: int | None) -> None:
        if target is not None and (target == self.entry or self._is_inside(target)):
            self._onward(step, target, step.depth, step.registers)
        else:
            self._set_call(step, instruction, target, returns=False)

    def _jump_by_table(self, step: TracedInstruction, instruction: Instruction) -> None:
        if self.code.strict:
            where = self.code.name_at(instruction.address)
            raise UntraceableError(f"there is a jump through a table or a register at {where}")
        depth, registers = self.table or (step.depth, step.registers)
        self.table = max(step.depth, depth), joined(registers, step.registers)

    def _is_inside(self, target: int) -> bool:
        return target in self.instructions and target not in self.code.functions

    def _is_far_jump(self, target: int) -> bool:
        """True for a ``bl`` that jumps inside the function, as compilers for Armv6-M make them."""
        return self.function.address <= target < self.function.end and self._is_inside(target)

    def _target(self, step: TracedInstruction, instruction: Instruction) -> int | None:
        operand = instruction.operands[0]
        if operand.type == arm.ARM_OP_IMM:
            return self.code.branch_target(instruction)
        value = step.registers.get(operand.reg)
        return value & ~1 if isinstance(value, int) else None

    def _set_call(
        self, step: TracedInstruction, instruction: Instruction, target: int | None, *, returns: bool
    ) -> None:
        argument = step.registers.get(arm.ARM_REG_R0)
        operand = instruction.operands[0]
        by_register = operand.type == arm.ARM_OP_REG
        pointer = step.registers.get(operand.reg) if by_register else None
        step.call = Call(
            address=instruction.address,
            after=instruction.address + instruction.size,
            target=target,
            returns=returns,
            conditional=not decode.is_unconditional(instruction),
            depth=step.depth,
            argument=argument if isinstance(argument, int) else None,
            by_register=by_register,
            table=pointer.address if isinstance(pointer, Loaded) else None,
        )

    # ---- what an instruction does to the stack pointer and to constants ----

    def _effect(self, step: TracedInstruction, instruction: Instruction) -> tuple[int, dict[int, Value]]:
        changed = instruction.written
        registers = {r: v for r, v in step.registers.items() if r not in changed}
        depth = step.depth
        if SP in changed or instruction.id in decode.PUSHES or instruction.id in decode.POPS:
            depth = self._moved(step, instruction)
            if instruction.id == arm.ARM_INS_POP:
                # Armv6-M cannot pop the return address into lr: a scratch register takes it.
                registers |= {o.reg: _RETURN for o in instruction.operands if o.reg in decode.SCRATCH}
        elif instruction.operands and instruction.cc == arm.ARM_CC_AL:
            step.value = value_of(self.code, instruction, step.depth, step.registers)
            if step.value is not None:
                registers[instruction.operands[0].reg] = step.value
        return depth, registers

    def _moved(self, step: TracedInstruction, instruction: Instruction) -> int:
        """The depth after an instruction that writes the stack pointer."""
        operands = instruction.operands
        if instruction.id in decode.PUSHES or instruction.id in decode.POPS:
            size = sum(8 if arm.ARM_REG_D0 <= o.reg <= arm.ARM_REG_D31 else 4 for o in operands)
            return step.depth + size if instruction.id in decode.PUSHES else step.depth - size
        memory = next((o.mem for o in operands if o.type == arm.ARM_OP_MEM), None)
        if memory is not None and memory.base == SP and instruction.writeback and not memory.index:
            last = operands[-1]  # post-indexed: the offset is an operand of its own
            return step.depth - int(last.imm if last.type == arm.ARM_OP_IMM else memory.disp)
        if operands and operands[0].type == arm.ARM_OP_REG and operands[0].reg == SP:
            value = value_of(self.code, instruction, step.depth, step.registers)
            if isinstance(value, StackAddress):
                return value.bytes
        self.not_known("a frame whose size is only known at run time")
        return step.depth


def _computes_pc(instruction: Instruction) -> bool:
    operands = instruction.operands
    return (
        bool(operands and operands[0].type == arm.ARM_OP_REG and operands[0].reg == PC)
        and PC in instruction.written
    )
