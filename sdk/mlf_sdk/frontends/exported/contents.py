# SPDX-License-Identifier: Apache-2.0
"""Contents of a library for people: its modules, its bytecode, its code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlf_sdk.analysis.elf.objects import read_object
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.exported import bytecode
from mlf_sdk.frontends.exported.bytecode import Constant, Executable, Function, Instruction, Operand
from mlf_sdk.frontends.exported.files import Library
from mlf_sdk.frontends.exported.program import BUILTIN
from mlf_sdk.frontends.exported.tree import LIBRARY, AotFactory, ConstantLoader, GraphFactory, Module
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.tools.checks import printable, shown

Contents = tuple[tuple[str, tuple[str, ...]], ...]
"""Lines by label."""

_MAX_LINES = 200
_NAMES = 20


def contents_of(library: Library) -> Contents:
    """Lines about the modules, the bytecode and the code of a library."""
    result: list[tuple[str, tuple[str, ...]]] = []
    serialized = library.modules
    if serialized is None:
        result.append(("modules", ("none: the library is its own root",)))
    else:
        prefix = f", system library '{serialized.prefix}'" if serialized.prefix else ""
        head = f"in {serialized.member} ({serialized.symbol}{prefix})"
        result.append(("modules", (head, *_bounded(list(_tree(serialized.modules))))))
        for module in serialized.modules:
            if isinstance(module.content, Executable):
                result += _executable(module.content)
    code = list(_code(library))
    result.append(("code", tuple(code) or ("none",)))
    if library.extra:
        result.append(("other files", _bounded([printable(name) for name in library.extra])))
    return tuple(result)


def _bounded(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - _MAX_LINES
    return tuple(lines) if more <= 0 else (*lines[:_MAX_LINES], f"... and {more} more")


def _tree(modules: tuple[Module, ...]) -> Iterator[str]:
    """Yield the modules as a tree; one that several import is shown once."""
    imported = {child for module in modules for child in module.imports}
    pending = [(index, 0) for index in range(len(modules) - 1, -1, -1) if index not in imported]
    seen: set[int] = set()
    while pending:
        index, depth = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        yield "  " * min(depth, 20) + _module_text(modules[index])
        pending += [(child, depth + 1) for child in reversed(modules[index].imports)]


def _module_text(module: Module) -> str:
    content, kind = module.content, printable(module.kind[:80])
    if module.kind == LIBRARY:
        return "_lib: the library's own code"
    if isinstance(content, GraphFactory):
        return (
            f"{kind} {shown(content.name)}: graph of {len(content.graph):,} bytes, {_tensors(content.params)}"
        )
    if isinstance(content, AotFactory):
        return f"{kind} {shown(content.name)}: {_tensors(content.params)}"
    if isinstance(content, ConstantLoader):
        symbols = ", ".join(shown(symbol) for symbol, _ in content.symbols[:_NAMES]) or "no module"
        return f"{kind}: {_tensors(content.constants)} for {symbols}"
    if isinstance(content, Executable):
        return (
            f"{kind}: bytecode {shown(content.version)}, {len(content.functions)} functions, "
            f"{len(content.constants)} constants, {len(content.instructions)} instructions"
        )
    return f"{kind}: {len(content):,} bytes, not decoded" if content else kind


def _tensors(tensors: Sequence[NamedTensor]) -> str:
    size = sum(tensor.size_bytes for tensor in tensors)
    return f"{len(tensors)} parameters of {size:,} bytes"


def _executable(code: Executable) -> Iterator[tuple[str, tuple[str, ...]]]:
    for function in code.programs:
        names = ", ".join(map(printable, function.parameters[:_NAMES]))
        body = [
            _instruction(code, function, index, code.instructions[index])
            for index in range(function.start, function.end)[: 4 * _MAX_LINES]
        ]
        yield "bytecode", _bounded([f"{printable(function.name[:80])}({names})", *(f"  {t}" for t in body)])
    constants = [f"{index}: {_constant(result)}" for index, result in enumerate(code.constants)]
    yield "constants", _bounded(constants)
    sizes = list(_storages(code))
    if sizes:
        total = f"{sum(size for _, size in sizes):,} bytes in all, by the bytecode's own plan"
        yield "allocates", _bounded([*(f"{text}" for text, _ in sizes), total])


def _storages(code: Executable) -> Iterator[tuple[str, int]]:
    """Yield register and bytes of each memory that the bytecode allocates."""
    for instruction in code.instructions:
        if (
            instruction.opcode != bytecode.CALL
            or code.functions[instruction.function].name != f"{BUILTIN}alloc_storage"
        ):
            continue
        extents = [code.constants[o.value] for o in instruction.arguments if o.kind == bytecode.CONSTANT]
        shapes = [c.value for c in extents if c.kind == "shape"]
        if len(shapes) == 1 and len(shapes[0]) == 1:
            yield f"r{instruction.target}: {shapes[0][0]:,} bytes", shapes[0][0]


def _instruction(code: Executable, function: Function, index: int, instruction: Instruction) -> str:
    if instruction.opcode == bytecode.CALL:
        names = ", ".join(_operand(code, function, operand) for operand in instruction.arguments[:_NAMES])
        more = ", ..." if len(instruction.arguments) > _NAMES else ""
        target = (
            "" if instruction.target == bytecode.VOID else f"{_register(function, instruction.target)} = "
        )
        return f"{target}{printable(code.functions[instruction.function].name[:120])}({names}{more})"
    if instruction.opcode == bytecode.RETURN:
        return f"return {_register(function, instruction.target)}"
    jump = f"go to {index + instruction.jump - function.start}"
    return (
        jump
        if instruction.opcode == bytecode.GOTO
        else f"unless {_register(function, instruction.target)} {jump}"
    )


def _operand(code: Executable, function: Function, operand: Operand) -> str:
    if operand.kind == bytecode.REGISTER:
        return _register(function, operand.value)
    if operand.kind == bytecode.FUNCTION:
        return printable(code.functions[operand.value].name[:80])
    return f"#{operand.value}" if operand.kind == bytecode.CONSTANT else str(operand.value)


def _register(function: Function, number: int) -> str:
    special = {bytecode.VOID: "-", bytecode.MACHINE: "vm"}
    if number < len(function.parameters):
        return printable(function.parameters[number][:80])
    return special.get(number, f"r{number}")


def _constant(result: Constant) -> str:
    if result.kind == "tensor":
        tensor: NamedTensor = result.value
        return f"tensor {tensor.dtype} {list(tensor.shape)}, {tensor.size_bytes:,} bytes"
    if result.kind == "string":
        return shown(result.value)
    return f"{result.kind} {list(result.value) if result.kind == 'shape' else result.value}"


def _code(library: Library) -> Iterator[str]:
    if library.machine:
        yield f"{library.machine} machine code, linked: {len(library.defined or ())} functions"
    for file in library.code:
        name = file.member.rpartition("/")[2]
        if file.kind != "o":
            yield f"{name}: C source" if file.kind == "c" else f"{name}: C++ source"
            continue
        info = read_object(file.data, name, FaultCollector(""))
        yield f"{name}: {info.machine} object, {len(info.defined)} symbols" if info is not None else name
