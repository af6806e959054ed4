# SPDX-License-Identifier: Apache-2.0
"""How much stack a Thumb function takes at each of its calls, from its instructions alone.

Every way through a function is followed with the distance of the stack pointer from where it stood on
entry. Where ways meet, the larger distance counts. That works the same for compiled C and C++, for
ready-made objects and for library functions in assembly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from capstone import arm

from mlf_sdk.analysis.thumb.registers import Below, Value, joined, value_of
from mlf_sdk.analysis.thumb.thumbcode import CodeImage, CodeSymbol, Undecoded

if TYPE_CHECKING:
    from mlf_sdk.analysis.thumb.thumbcode import Instruction

_SP, _PC, _LR = arm.ARM_REG_SP, arm.ARM_REG_PC, arm.ARM_REG_LR
_CLOBBERED = (arm.ARM_REG_R0, arm.ARM_REG_R1, arm.ARM_REG_R2, arm.ARM_REG_R3, arm.ARM_REG_R12, _LR)
_CALLS = frozenset({arm.ARM_INS_BL, arm.ARM_INS_BLX})
_TESTS = frozenset({arm.ARM_INS_CBZ, arm.ARM_INS_CBNZ})
_TABLES = frozenset({arm.ARM_INS_TBB, arm.ARM_INS_TBH})
_TRAPS = frozenset({arm.ARM_INS_UDF})
_PUSHES = frozenset({arm.ARM_INS_PUSH, arm.ARM_INS_VPUSH})  # also what is written as stmdb sp!, vstmdb sp!
_POPS = frozenset({arm.ARM_INS_POP, arm.ARM_INS_VPOP})
_TABLE_HELPER = "__gnu_thumb1_case_"  # libgcc: jumps through the table behind its call
_ADDRESSES = frozenset({arm.ARM_INS_LDR, arm.ARM_INS_MOVT})  # what puts together an address
_RETURN = Below(-1)  # stands for the return address
_MOST_GROWTH = 16  # so often the depth at one instruction may grow before it counts as unbounded


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call (or a jump out of the function).

    Attributes:
        address: of the instruction.
        target: address of what is called; None when a pointer says it at run time.
        depth: bytes that the function has on the stack at that time.
        first_argument: the constant in r0, where there is one.
    """

    address: int
    target: int | None
    depth: int
    first_argument: int | None


@dataclass(slots=True)
class Frame:
    """A function.

    Attributes:
        bytes: the most that it has on the stack itself.
        taken: functions whose addresses it takes, apart from those that it only calls.
        objects: objects whose addresses it takes.
        unknown: what could make its stack larger, for people.
    """

    function: CodeSymbol
    entry: int
    bytes: int = 0
    calls: list[CallSite] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    objects: set[int] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _State:
    depth: int
    registers: dict[int, Value]
    grown: int = 0


class FrameReader:
    """Reads functions of an image, each entry once."""

    def __init__(self, code: CodeImage) -> None:
        """Read from ``code``."""
        self.code = code
        self._frames: dict[int, Frame | None] = {}

    def frame(self, entry: int) -> Frame | None:
        """The function that is entered at ``entry``; None when there is no code."""
        if entry not in self._frames:
            function = self.code.function_at(entry)
            self._frames[entry] = None if function is None else _Walk(self.code, function, entry).run()
        return self._frames[entry]


class _Walk:
    """One function, every way through it."""

    def __init__(self, code: CodeImage, function: CodeSymbol, entry: int) -> None:
        self.code = code
        self.function = function
        self.frame = Frame(function, entry)
        self.steps = {i.address: i for i in code.instructions(function.address, function.end)}
        self.states: dict[int, _State] = {}
        self.pending: list[int] = []
        self.calls: dict[int, CallSite] = {}
        self.called: set[int] = set()
        self.table: _State | None = None

    def run(self) -> Frame:
        self._reach(self.frame.entry, 0, {})
        self._follow()
        while self.table is not None:
            # What only a jump through a table reaches has the depth of that jump.
            left = next((a for a in self.steps if a >= self.frame.entry and a not in self.states), None)
            if left is None:
                break
            self._reach(left, self.table.depth, self.table.registers)
            self._follow()
        self.frame.calls = [self.calls[a] for a in sorted(self.calls)]
        self.frame.taken -= self.called
        self.frame.unknown = list(dict.fromkeys(self.frame.unknown))
        return self.frame

    def _follow(self) -> None:
        while self.pending:
            address = self.pending.pop()
            step = self.steps[address]
            state = self.states[address]
            if isinstance(step, Undecoded):
                self._undecoded(step, state)
            else:
                self._step(step, state)

    def _reach(self, address: int, depth: int, registers: dict[int, Value]) -> None:
        """Take in that an instruction can be reached like this."""
        if address not in self.steps:
            return  # behind a call that never returns, or a table
        self.frame.bytes = max(self.frame.bytes, depth)
        state = self.states.get(address)
        if state is None:
            self.states[address] = _State(depth, dict(registers))
            self.pending.append(address)
            return
        kept = joined(state.registers, registers)
        if depth <= state.depth and kept == state.registers:
            return
        if depth > state.depth:
            state.grown += 1
            if state.grown > _MOST_GROWTH:
                self.frame.unknown.append(f"{self.function.name}: its stack grows in a loop")
                return
        state.depth, state.registers = max(depth, state.depth), kept
        self.pending.append(address)

    def _undecoded(self, step: Undecoded, state: _State) -> None:
        """Such an instruction counts as harmless unless it stores with a new stack pointer."""
        is_store = step.first >> 9 in (0b1110110, 0b1111110) and step.first & 0x2F == 0x2D
        if is_store:
            self.frame.unknown.append(f"{self.function.name}: an unknown instruction moves the stack pointer")
        self._reach(step.address + step.size, state.depth, state.registers)

    # ---- where an instruction leads ----

    def _step(self, step: Instruction, state: _State) -> None:
        after = step.address + step.size
        always = step.cc in (arm.ARM_CC_AL, arm.ARM_CC_INVALID)
        if step.id in _CALLS:
            self._call(step, state, after)
            return
        if step.id in _TESTS:
            self._reach(step.operands[1].imm, state.depth, state.registers)
            self._reach(after, state.depth, state.registers)
            return
        if step.id in _TRAPS:
            return
        leaves = self._jump(step, state)
        if leaves and always:
            return
        depth, registers = self._effect(step, state) if not leaves else (state.depth, state.registers)
        self._reach(after, depth if always else max(depth, state.depth), registers)

    def _call(self, step: Instruction, state: _State, after: int) -> None:
        target = self._target(step, state)
        if target is not None and self._is_inside(target) and step.operands[0].type == arm.ARM_OP_IMM:
            self._reach(target, state.depth, {})  # a far jump of Armv6-M
        elif target is not None and self._name(target).startswith(_TABLE_HELPER):
            self._jump_by_table(state)
        else:
            self._add_call(step, target, state)
        kept = {r: v for r, v in state.registers.items() if r not in _CLOBBERED}
        self._reach(after, state.depth, kept)

    def _jump(self, step: Instruction, state: _State) -> bool:
        """Follow a branch, a jump or a return; whether it was one."""
        operands = step.operands
        if step.id == arm.ARM_INS_B:
            self._go(step, operands[0].imm & ~1, state)
        elif step.id == arm.ARM_INS_BX:
            if operands[0].reg != _LR and state.registers.get(operands[0].reg) != _RETURN:
                self._add_call(step, self._target(step, state), state)
        elif step.id in _TABLES:
            self._jump_by_table(state)
        elif step.id in _POPS and any(o.reg == _PC for o in operands if o.type == arm.ARM_OP_REG):
            pass
        elif _writes_pc(step):
            source = operands[1]
            if source.mem.base == _SP if source.type == arm.ARM_OP_MEM else source.reg == _LR:
                return True  # a return
            value = value_of(self.code, step, state.depth, state.registers)
            if isinstance(value, int):
                self._go(step, value & ~1, state)
            else:
                self._jump_by_table(state)
        else:
            return False
        return True

    def _jump_by_table(self, state: _State) -> None:
        before = self.table or state
        self.table = _State(max(state.depth, before.depth), joined(before.registers, state.registers))

    def _go(self, step: Instruction, target: int, state: _State) -> None:
        if self._is_inside(target) or target == self.frame.entry:
            self._reach(target, state.depth, state.registers)
        else:
            self._add_call(step, target, state)

    def _is_inside(self, target: int) -> bool:
        return target in self.steps and target not in self.code.functions

    def _target(self, step: Instruction, state: _State) -> int | None:
        operand = step.operands[0]
        if operand.type == arm.ARM_OP_IMM:
            return int(operand.imm) & ~1
        value = state.registers.get(operand.reg)
        return value & ~1 if isinstance(value, int) else None

    def _name(self, target: int) -> str:
        found = self.code.functions.get(target)
        return found.name if found else ""

    def _add_call(self, step: Instruction, target: int | None, state: _State) -> None:
        argument = state.registers.get(arm.ARM_REG_R0)
        address = step.address
        before = self.calls.get(address)
        if target is not None and step.operands[0].type == arm.ARM_OP_REG:
            self.called.add(target)
        self.calls[address] = CallSite(
            address,
            target,
            max(state.depth, before.depth if before else 0),
            argument if isinstance(argument, int) else None,
        )

    # ---- what an instruction does to the stack pointer and to constants ----

    def _effect(self, step: Instruction, state: _State) -> tuple[int, dict[int, Value]]:
        written = step.regs_access()[1]
        registers = {r: v for r, v in state.registers.items() if r not in written}
        depth = state.depth
        if _SP in written or step.id in _PUSHES or step.id in _POPS:
            depth = self._moved(step, state)
            if step.id == arm.ARM_INS_POP:
                # Armv6-M cannot pop the return address into lr: a scratch register takes it.
                registers |= {o.reg: _RETURN for o in step.operands if o.reg in _CLOBBERED}
        elif step.operands and step.cc == arm.ARM_CC_AL:
            value = value_of(self.code, step, state.depth, state.registers)
            if value is not None:
                registers[step.operands[0].reg] = value
                if isinstance(value, int) and (step.id in _ADDRESSES or step.operands[-1].reg == _PC):
                    self._take(value)
        return depth, registers

    def _take(self, value: int) -> None:
        """Take in an address: that of a function, or of an object."""
        if value & 1 and value & ~1 in self.code.functions:
            self.frame.taken.add(value & ~1)
        found = self.code.object_at(value)
        if found is not None:
            self.frame.objects.add(found.address)

    def _moved(self, step: Instruction, state: _State) -> int:
        """The depth after an instruction that writes the stack pointer."""
        operands = step.operands
        if step.id in _PUSHES or step.id in _POPS:
            size = sum(8 if _is_double(o.reg) else 4 for o in operands)
            return state.depth + size if step.id in _PUSHES else state.depth - size
        memory = next((o.mem for o in operands if o.type == arm.ARM_OP_MEM), None)
        if memory is not None and memory.base == _SP and step.writeback and not memory.index:
            return state.depth - _offset(step, memory)
        if operands and operands[0].type == arm.ARM_OP_REG and operands[0].reg == _SP:
            value = value_of(self.code, step, state.depth, state.registers)
            if isinstance(value, Below):
                return value.bytes
        self.frame.unknown.append(f"{self.function.name}: a frame whose size is only known at run time")
        return state.depth


def _is_double(register: int) -> bool:
    return bool(arm.ARM_REG_D0 <= register <= arm.ARM_REG_D31)


def _writes_pc(step: Instruction) -> bool:
    return bool(
        step.operands
        and step.operands[0].type == arm.ARM_OP_REG
        and step.operands[0].reg == _PC
        and step.id in (arm.ARM_INS_LDR, arm.ARM_INS_MOV, arm.ARM_INS_ADD)
    )


def _offset(step: Instruction, memory: Instruction) -> int:
    """Bytes that a load or store with write-back adds to its base register."""
    last = step.operands[-1]
    if last.type == arm.ARM_OP_IMM:  # post-indexed
        return int(last.imm)
    return int(memory.disp)
