# SPDX-License-Identifier: Apache-2.0
"""Bytecode of relax's virtual machine: functions, constants and instructions, decoded and checked.

Layout, little-endian, packed: ``u64 magic | str version | functions | [memory scopes] | constants |
vec<i64> offsets of instructions | vec<i64> instructions``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.exported.stream import Stream
from mlf_sdk.frontends.mlf.params import Damaged, read_tensor
from mlf_sdk.ir.dtype import DType
from mlf_sdk.tools.checks import shown

PLAIN_MAGIC: Final = 0xD225DE2F4214151D
SCOPED_MAGIC: Final = 0xD225DE2F4214151E
"""Magic of bytecode with memory scopes, from 0.23 on."""

KERNEL, VM, VM_TIR = 0, 1, 2
CALL, RETURN, GOTO, IF = 1, 2, 3, 4
REGISTER, IMMEDIATE, CONSTANT, FUNCTION = 0, 1, 2, 3

VOID: Final = 1 << 54
"""Register of a result that is not used."""

MACHINE: Final = VOID + 1
"""Register that holds the virtual machine itself."""

_VALUE_BITS: Final = 56
_LENGTHS: Final = {RETURN: 2, GOTO: 2, IF: 3}
_MAX_WORDS: Final = 1 << 22
_MAX_EXTENTS: Final = 256
_FUNCTION_BYTES: Final = 4 + 8 * 6
_DTYPE: Final = struct.Struct("<BBH")
_DOUBLE: Final = struct.Struct("<d")


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the function table.

    Attributes:
        kind: `KERNEL` (or a builtin), `VM` or `VM_TIR`.
        start, end: instructions of a VM function, first and behind the last.
        registers: that it uses.
        parameters: names of its arguments.
    """

    kind: int
    name: str
    start: int
    end: int
    arguments: int
    registers: int
    parameters: tuple[str, ...]


class Operand(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a call: its kind, and a register, a number, a constant or a function."""

    kind: int
    value: int


class Instruction(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction.

    Attributes:
        target: CALL: register of the result; RETURN, IF: the register; GOTO: 0.
        function: CALL: row of the function table.
        arguments: of a call.
        jump: GOTO, IF: distance in instructions.
    """

    opcode: int
    target: int = 0
    function: int = 0
    arguments: tuple[Operand, ...] = ()
    jump: int = 0


class Constant(msgspec.Struct, frozen=True, kw_only=True):
    """A constant: its kind, and a `NamedTensor`, extents, text, number or `DType`."""

    kind: str
    value: Any


class Executable(msgspec.Struct, frozen=True, kw_only=True):
    """Decoded bytecode; all registers, jumps, functions and constants that it names exist."""

    version: str
    functions: tuple[Function, ...]
    constants: tuple[Constant, ...]
    instructions: tuple[Instruction, ...]

    @property
    def programs(self) -> tuple[Function, ...]:
        """Functions that are bytecode."""
        return tuple(f for f in self.functions if f.kind != KERNEL)


def read_executable(stream: Stream, types: Mapping[int, str]) -> Executable:
    """Decode bytecode, up to the end of ``stream``.

    Args:
        types: kind of a constant by type index, which changed between releases.

    Raises:
        Damaged: it is broken.
    """
    at, magic = stream.at, stream.u64("the magic")
    if magic not in (PLAIN_MAGIC, SCOPED_MAGIC):
        raise Damaged(f"no bytecode starts here, the magic is {magic:#018x}", at)
    version = stream.text("the version")
    functions = tuple(_function(stream) for _ in range(stream.count("functions", _FUNCTION_BYTES)))
    if magic == SCOPED_MAGIC:
        for _ in range(stream.count("memory scopes", 16)):
            stream.i64("a memory scope")
            stream.text("a memory scope")
    constants = tuple(_constant(stream, index, types) for index in range(stream.count("constants", 8)))
    at = stream.at
    offsets = stream.numbers("offsets of instructions", signed=True, most=_MAX_WORDS)
    words = stream.numbers("words of instructions", signed=True, most=_MAX_WORDS)
    if stream.left:
        raise Damaged(f"{stream.left} bytes behind the instructions", stream.at)
    decoded = Executable(
        version=version,
        functions=functions,
        constants=constants,
        instructions=tuple(_instructions(words, offsets, at)),
    )
    _check(decoded, at)
    return decoded


def _function(stream: Stream) -> Function:
    at, kind = stream.at, stream.i32("the kind of a function")
    name = stream.text("the name of a function")
    if kind not in (KERNEL, VM, VM_TIR):
        raise Damaged(f"function {shown(name)} is of the unknown kind {kind}", at)
    start, end, arguments, registers = (stream.i64(f"function {shown(name)}") for _ in range(4))
    names = stream.texts("names of parameters")
    if kind != KERNEL and arguments != len(names):
        raise Damaged(f"function {shown(name)} has {arguments} arguments and {len(names)} names of them", at)
    return Function(
        kind=kind,
        name=name,
        start=start,
        end=end,
        arguments=arguments,
        registers=registers,
        parameters=names,
    )


def _constant(stream: Stream, index: int, types: Mapping[int, str]) -> Constant:
    at, what = stream.at, f"constant {index}"
    number = stream.i32(f"the type of {what}")
    kind = types.get(number, "")
    if kind == "tensor":
        value: Any = read_tensor(stream, what)
    elif kind == "shape":
        value = stream.numbers(f"extents of {what}", signed=True, most=_MAX_EXTENTS)
    elif kind == "string":
        value = stream.text(what)
    elif kind == "int":
        value = stream.i64(what)
    elif kind == "float":
        value = stream.unpack(_DOUBLE, what)[0]
    elif kind == "dtype":
        value = _dtype(stream.unpack(_DTYPE, what), what, at)
    else:
        raise Damaged(f"{what} is of the unknown type {number}", at)
    return Constant(kind=kind, value=value)


def _dtype(fields: tuple[int, ...], what: str, at: int) -> DType | None:
    """An element type; None: the one that stands for nothing."""
    code, bits, lanes = fields
    if (bits, lanes) == (0, 0):
        return None
    try:
        return DType(code=code, bits=bits, lanes=lanes)
    except InputError as error:
        raise Damaged(f"{what}: {error.what}", at) from error


def _instructions(words: tuple[int, ...], offsets: tuple[int, ...], at: int) -> Iterator[Instruction]:
    """Decode the instructions, none of which reaches into the next; Damaged names ``at`` as the place."""
    ends = (*offsets[1:], len(words))
    for start, end in zip(offsets, ends, strict=False):
        if not 0 <= start < end <= len(words):
            raise Damaged(f"an instruction has the words {start} to {end} of {len(words)}", at)
        yield _instruction(words, start, end, at)


def _instruction(words: tuple[int, ...], start: int, end: int, at: int) -> Instruction:
    opcode, left = words[start], end - start
    needed = _LENGTHS.get(opcode, 4)
    if opcode != CALL and opcode not in _LENGTHS:
        raise Damaged(f"unknown opcode {opcode} at word {start}", at)
    if needed > left or (opcode == CALL and not 0 <= words[start + 3] <= left - needed):
        raise Damaged(f"the instruction at word {start} does not end within its {left} words", at)
    if opcode == CALL:
        target, function, count = words[start + 1 : start + 4]
        arguments = tuple(_operand(word) for word in words[start + 4 : start + 4 + count])
        return Instruction(opcode=opcode, target=target, function=function, arguments=arguments)
    if opcode == GOTO:
        return Instruction(opcode=opcode, jump=words[start + 1])
    return Instruction(opcode=opcode, target=words[start + 1], jump=words[start + 2] if opcode == IF else 0)


def _operand(word: int) -> Operand:
    kind, value = word >> _VALUE_BITS & 0xFF, word & ((1 << _VALUE_BITS) - 1)
    if value >> (_VALUE_BITS - 1):
        value -= 1 << _VALUE_BITS
    return Operand(kind=kind, value=value)


def _check(code: Executable, at: int) -> None:
    """Check every number that instructions name; functions share no instructions."""
    count = len(code.instructions)
    for function in code.programs:
        if not 0 <= function.start < function.end <= count:
            what = f"has instructions {function.start} to {function.end} of {count}"
            raise Damaged(f"function {shown(function.name)} {what}", at)
    if sum(f.end - f.start for f in code.programs) > count:
        raise Damaged(f"functions have more than the {count} instructions", at)
    for function in code.programs:
        for index in range(function.start, function.end):
            problem = _problem(code, function, index)
            if problem:
                raise Damaged(f"instruction {index} of function {shown(function.name)} {problem}", at)


def _problem(code: Executable, function: Function, index: int) -> str:
    """The reason why an instruction can't be run; empty for none."""
    instruction = code.instructions[index]
    if instruction.opcode in (GOTO, IF) and not function.start <= index + instruction.jump < function.end:
        return f"jumps to instruction {index + instruction.jump}, outside of it"
    if instruction.opcode != GOTO and not _is_register(instruction.target, function):
        return f"names register {instruction.target} of {function.registers}"
    if instruction.opcode == CALL and not 0 <= instruction.function < len(code.functions):
        return f"calls function {instruction.function} of {len(code.functions)}"
    problems = (_operand_problem(code, function, operand) for operand in instruction.arguments)
    return next(filter(None, problems), "")


def _operand_problem(code: Executable, function: Function, operand: Operand) -> str:
    if operand.kind == REGISTER:
        is_there = _is_register(operand.value, function)
        return "" if is_there else f"names register {operand.value} of {function.registers}"
    names = {CONSTANT: "constant", FUNCTION: "function"}
    if operand.kind in names:
        limit = len(code.constants if operand.kind == CONSTANT else code.functions)
        is_there = 0 <= operand.value < limit
        return "" if is_there else f"names {names[operand.kind]} {operand.value} of {limit}"
    return "" if operand.kind == IMMEDIATE else f"has an argument of the unknown kind {operand.kind}"


def _is_register(number: int, function: Function) -> bool:
    return 0 <= number < function.registers or number in (VOID, MACHINE)
