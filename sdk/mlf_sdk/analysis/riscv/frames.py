# SPDX-License-Identifier: Apache-2.0
"""Control flow of one RISC-V function: the stack that it takes, its calls, the addresses that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mlf_sdk.analysis.machine.calls import Call, Frame
from mlf_sdk.analysis.machine.values import Loaded, StackAddress, Value
from mlf_sdk.analysis.machine.walk import State, Walk
from mlf_sdk.analysis.riscv.decode import A0, SCRATCH, SP, ZERO, Instruction

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Function
    from mlf_sdk.analysis.riscv.code import RiscvCode

_MASK = 0xFFFFFFFF
_STACK_TOP = "__mlf_stack_top"


class Within(msgspec.Struct, frozen=True):
    """An address that is computed of a constant and of what is not known: somewhere in the object there."""

    address: int


class Relative(msgspec.Struct, frozen=True):
    """A word of the table at an address, to which that address was added: a place relative to the table."""

    address: int


Known = Value | Within | Relative
Registers = dict[int, Known]


def read_frame(code: RiscvCode, function: Function, entry: int) -> Frame:
    """Follow a function of a linked image that is entered at an address."""
    return _Tracer(code, function, entry).run()


class _Tracer(Walk[State]):
    def __init__(self, code: RiscvCode, function: Function, entry: int) -> None:
        self.code = code
        self.instructions = code.instructions(function)
        super().__init__(function, entry, self.instructions)
        self.calls: dict[int, Call] = {}
        self.addresses: dict[int, set[int]] = {}

    def run(self) -> Frame:
        self.walk(0, {SP: StackAddress(0)})
        calls = [self.calls[at] for at in sorted(self.calls)]
        addresses = set().union(*self.addresses.values()) if self.addresses else set()
        called = {call.target for call in calls if call.by_register}
        objects = (self.code.image.object_at(address) for address in addresses)
        return Frame(
            function=self.function,
            entry=self.entry,
            bytes=self.depth,
            calls=tuple(calls),
            taken=frozenset(addresses & set(self.code.functions) - called - {self.code.image.entry}),
            objects=frozenset(result.address for result in objects if result is not None),
            unknown=tuple(self.unknown),
        )

    def begin(self, address: int, depth: int, registers: Registers) -> State:
        return State(depth=depth, registers=registers)

    # ---- where an instruction leads ----

    def follow(self, address: int, step: State) -> None:
        self.calls.pop(address, None)
        self.addresses.pop(address, None)
        one = self.instructions[address]
        after = one.address + one.size
        if one.kind in ("trap", "mret"):
            if one.kind == "trap" and self.instructions.get(after) is not None:
                self.reach(after, step.depth, step.registers)  # semihosting, a breakpoint
        elif one.kind == "branch":
            self.reach(after, step.depth, step.registers)
            self._go(one, step, one.target)
        elif one.kind == "jal":
            if one.is_call:
                self._set_call(one, step, one.target, returns=True)
                self.reach(after, step.depth, _kept(step.registers))
            else:
                self._go(one, step, one.target)
        elif one.kind == "jalr":
            self._jump(one, step, after)
        else:
            depth, registers = self._effect(one, step)
            self.reach(after, depth, registers)

    def _go(self, one: Instruction, step: State, target: int) -> None:
        if target == self.entry or (target in self.instructions and target not in self.code.functions):
            self.reach(target, step.depth, step.registers)
        else:
            self._set_call(one, step, target, returns=False)

    def _jump(self, one: Instruction, step: State, after: int) -> None:
        """Follow a jump through a register: a call, a return, a table, or another function."""
        value = step.registers.get(one.rs1)
        target = (value + one.imm) & _MASK & ~1 if isinstance(value, int) else None
        if one.is_call:
            self._set_call(one, step, target, returns=True, pointer=value)
            self.reach(after, step.depth, _kept(step.registers))
        elif one.is_return:
            return
        elif target is not None:
            self._go(one, step, target)
        else:
            table = self._table(value) if isinstance(value, Loaded | Relative) else []
            for place in table:
                self.reach(place, step.depth, step.registers)
            if not table:
                self._set_call(one, step, None, returns=False, pointer=value)

    def _table(self, value: Loaded | Relative) -> list[int]:
        """Places inside the function that words in a row name: addresses, or relative to the table."""
        result = []
        at, base = value.address, value.address if isinstance(value, Relative) else 0
        while (word := self.code.image.word(at)) is not None:
            place = (base + word) & _MASK
            if not self.function.address <= place < self.function.end or place not in self.instructions:
                break
            result.append(place)
            at += 4
        return result

    def _set_call(
        self,
        one: Instruction,
        step: State,
        target: int | None,
        *,
        returns: bool,
        pointer: Known | None = None,
    ) -> None:
        argument = step.registers.get(A0)
        self.calls[one.address] = Call(
            address=one.address,
            after=one.address + one.size,
            target=target,
            returns=returns,
            conditional=one.kind == "branch",
            depth=step.depth,
            argument=argument if isinstance(argument, int) else None,
            by_register=one.kind == "jalr",
            table=pointer.address if isinstance(pointer, Loaded) else None,
        )

    # ---- what an instruction does to the stack pointer and to constants ----

    def _effect(self, one: Instruction, step: State) -> tuple[int, Registers]:
        value = _value_of(one, step.registers)
        self._note(one, step.registers, value)
        registers = {r: v for r, v in step.registers.items() if r != one.rd or r == ZERO}
        if one.rd == ZERO:
            return step.depth, registers
        if value is not None:
            registers[one.rd] = value
        if one.rd != SP:
            return step.depth, registers
        if isinstance(value, StackAddress):
            return value.bytes, registers
        if self._is_upper_part(one):
            return step.depth, registers
        top = self.code.image.find(_STACK_TOP)
        if top is not None and value == top.address:  # start-up, and a report that needs all of the stack
            return 0, registers | {SP: StackAddress(0)}
        self.not_known("a frame whose size is only known at run time")
        return step.depth, registers | {SP: StackAddress(step.depth)}

    def _note(self, one: Instruction, registers: Registers, value: Known | None) -> None:
        """Keep the addresses that an instruction puts together, or reads and writes at."""
        result = set()
        if isinstance(value, int | Within) and one.kind in ("addi", "add", "lui"):
            address = value if isinstance(value, int) else value.address
            if one.kind != "lui" or (self._begins_object(address) and not self._is_upper_part(one)):
                result.add(address)
        if one.kind in ("load", "store", "other"):
            base = registers.get(one.rs1)
            if isinstance(base, int | Within):
                result.add(((base if isinstance(base, int) else base.address) + one.imm) & _MASK)
        if result:
            self.addresses[one.address] = result

    def _is_upper_part(self, one: Instruction) -> bool:
        """True for the first instruction of two that put an address together."""
        rest = self.instructions.get(one.address + one.size)
        return (
            one.kind == "lui"
            and rest is not None
            and (rest.kind, rest.rd, rest.rs1) == ("addi", one.rd, one.rd)
        )

    def _begins_object(self, address: int) -> bool:
        """True for the address of an object or a function: the upper part of many lies in another one."""
        symbol = self.code.image.object_at(address)
        return address in self.code.functions or (symbol is not None and symbol.address == address)


def _kept(registers: Mapping[int, Known]) -> Registers:
    return {r: v for r, v in registers.items() if r not in SCRATCH}


def _value_of(one: Instruction, registers: Registers) -> Known | None:
    """The value that an instruction puts into its register; None when that is not known."""
    first = 0 if one.rs1 == ZERO else registers.get(one.rs1)
    second = 0 if one.rs2 == ZERO else registers.get(one.rs2)
    target: Known | None = None
    if one.kind == "lui":
        target = one.imm & _MASK
    elif one.kind == "auipc":
        target = one.target
    elif one.kind == "addi":
        target = _sum(first, one.imm)
    elif one.kind == "slli" and isinstance(first, int):
        target = first << one.imm & _MASK
    elif one.kind == "add":
        target = _sum(first, second) or _sum(second, first)
    elif one.kind == "sub" and isinstance(second, int):
        target = _sum(first, -_signed(second))
    elif one.kind == "load" and isinstance(first, int | Within):
        target = Loaded(((first if isinstance(first, int) else first.address) + one.imm) & _MASK)
    return target


def _sum(value: Known | None, by: Known | None) -> Known | None:
    if not isinstance(by, int):
        return None
    if isinstance(value, int):
        return (value + by) & _MASK
    if isinstance(value, StackAddress):
        return StackAddress(value.bytes - _signed(by & _MASK))
    if isinstance(value, Within):
        return Within((value.address + by) & _MASK)
    if isinstance(value, Loaded) and value.address == by:
        return Relative(by)
    return Within(by & _MASK) if by > 0xFFFF else None


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
