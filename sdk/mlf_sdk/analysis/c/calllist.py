# SPDX-License-Identifier: Apache-2.0
"""Calls of a main function that is nothing but calls in a row, as TVM prints it for ahead-of-time models.

The function is executed on symbols: addresses of its arguments, of its workspaces and of memory pools, plain
numbers, and the local arrays in which the packed convention passes descriptors of tensors. Anything else in
it (a branch, a loop, a value that is not understood) gives a reason instead of calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from mlf_sdk.analysis.c.allocations import Kind, find_allocations, is_error_return
from mlf_sdk.analysis.c.symbols import Cell, Place, Request, SymbolicValue, Symbols, Unknown
from mlf_sdk.analysis.c.syntax import (
    ASSIGN,
    BINARY,
    CALL,
    CONSTANT,
    UNKNOWN,
    Block,
    Declaration,
    Evaluate,
    Expr,
    If,
    Loop,
    Return,
    Statement,
    Switch,
    UnreadableError,
    Variable,
)
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.ir.dtype import DType

MAX_RANK: Final = 64
"""Dimensions of a tensor."""

_TENSOR_HANDLE: Final = 7  # TVM's type code of a DLTensor*


class PassedArgument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a call.

    Attributes:
        shape: as the packed convention states it; None for a plain pointer.
        dtype: of the elements, likewise.
    """

    place: Place
    shape: tuple[int, ...] | None = None
    dtype: DType | None = None


class KernelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a kernel, which ends the run when it fails."""

    symbol: str
    arguments: tuple[PassedArgument, ...]
    is_packed: bool


class CallList(msgspec.Struct, frozen=True, kw_only=True):
    """Calls in order, and the bytes of each workspace that they get.

    Attributes:
        reason: why the function is something else; empty otherwise.
    """

    calls: tuple[KernelCall, ...] = ()
    workspaces: Mapping[str, int] = msgspec.field(default_factory=dict)
    reason: str = ""


def read_calls(function: FunctionDefinition, arguments: Sequence[Place]) -> CallList:
    """Read the calls of a main function.

    Args:
        function: packed: it takes descriptors of tensors; else one address for each parameter.
        arguments: address of the data of each argument.

    Raises:
        InputError: a tensor has an element type that does not exist.
    """
    try:
        return _Reader(function, arguments).run()
    except UnreadableError as error:
        return CallList(reason=str(error))


class _Reader:
    """Symbolic execution of one body."""

    def __init__(self, function: FunctionDefinition, arguments: Sequence[Place]) -> None:
        self.function = function
        self.symbols = Symbols(function, arguments)
        self.calls: list[KernelCall] = []

    def run(self) -> CallList:
        if self.function.doubts:
            raise UnreadableError(self.function.doubts[0])
        if macro := min(self.function.macros & self.function.words, default=""):
            raise UnreadableError(f"{macro[:40]} is a macro")
        allocations = find_allocations(self.function)
        if allocations.reason:
            raise UnreadableError(allocations.reason)
        *statements, last = self.function.body.parts or (Block(0),)
        for statement in statements:
            if statement.start in allocations.consumed:
                self._workspace(statement)
            else:
                self._statement(statement)
        if not isinstance(last, Return) or [self.symbols.value(v) for v in last.values] != [0]:
            raise UnreadableError("it does not end with return 0")
        events = [event for event in allocations.events if event.kind is Kind.ALLOCATE]
        workspaces = {event.name: event.size_bytes for event in events}
        if len(workspaces) < len(events):
            raise UnreadableError("two workspaces have one name")
        return CallList(calls=tuple(self.calls), workspaces=workspaces)

    # ---- statements ----

    def _workspace(self, statement: Statement) -> None:
        """Take a request; a check or free of a workspace is nothing."""
        if isinstance(statement, Declaration):
            name = statement.variables[0].name
            self.symbols.types[name], self.symbols.values[name] = "void*", Place(Request(name))

    def _statement(self, statement: Statement) -> None:
        if isinstance(statement, Declaration):
            for variable in statement.variables:
                self._declare(variable)
        elif isinstance(statement, Evaluate) and statement.values[0].kind == ASSIGN:
            self._assign(statement.values[0])
        elif isinstance(statement, If) and (call := _checked_call(statement)) is not None:
            self._call(call)
        elif not _is_idle(statement):
            raise UnreadableError(_unsupported(statement))

    def _declare(self, variable: Variable) -> None:
        name, value = variable.name, variable.value
        if name in self.symbols.types:
            raise UnreadableError(f"{name[:40]} is declared again")
        self.symbols.types[name] = variable.type
        if variable.type.endswith("[]"):
            if value is not None:
                raise UnreadableError(f"the array {name[:40]} has initial values")
            self.symbols.values[name] = Cell(name)
        else:
            self.symbols.values[name] = Unknown() if value is None else self.symbols.value(value)

    def _assign(self, expression: Expr) -> None:
        """Take ``((T*)array)[i].field = value``."""
        if expression.text != "=":
            raise UnreadableError("a variable is changed in place")
        target, value = expression.args
        cell, field = self.symbols.cell(target)
        if not cell.type or self.symbols.views.setdefault(cell.array, cell.type) != cell.type:
            raise UnreadableError(f"the array {cell.array[:40]} is used as two types")
        self.symbols.cells[cell, field] = self.symbols.value(value)

    # ---- calls ----

    def _call(self, call: Expr) -> None:
        values = [self.symbols.value(argument) for argument in call.args]
        is_packed = len(values) == 6 and isinstance(values[0], Cell)
        arguments = self._packed(values) if is_packed else [self._plain(value) for value in values]
        self.calls.append(KernelCall(symbol=call.text, arguments=tuple(arguments), is_packed=is_packed))

    def _plain(self, value: SymbolicValue) -> PassedArgument:
        if not isinstance(value, Place):
            raise UnreadableError("a kernel gets something else than the address of data")
        return PassedArgument(place=value)

    def _packed(self, values: Sequence[SymbolicValue]) -> list[PassedArgument]:
        """Read the arguments of a packed call: arrays of descriptors and of type codes, and their number."""
        args, codes, count, *results, resource = values
        if not isinstance(args, Cell) or not isinstance(codes, Cell) or not isinstance(count, int):
            raise UnreadableError("a packed call is not understood")
        if resource != 0 or any(
            self.symbols.values.get(getattr(r, "name", "")) != Unknown() for r in results
        ):
            raise UnreadableError("a packed call gets a resource or shares its result")
        result = []
        for index in range(count):
            code = self.symbols.load(Cell(codes.array, "int32_t*", codes.index + index), "")
            handle = self.symbols.load(Cell(args.array, "TVMValue*", args.index + index), "v_handle")
            if code != _TENSOR_HANDLE or not isinstance(handle, Cell):
                raise UnreadableError("a packed call gets something else than tensors")
            result.append(self._tensor(handle))
        return result

    def _tensor(self, handle: Cell) -> PassedArgument:
        """Read a descriptor that the function has made."""
        data, rank = self.symbols.load(handle, "data"), self._number(handle, "ndim")
        shape = self.symbols.load(handle, "shape")
        is_plain = self._number(handle, "strides") == self._number(handle, "byte_offset") == 0
        if not is_plain or not isinstance(data, Place) or self._number(handle, "device.device_type") != 1:
            raise UnreadableError("a tensor has strides, an offset, no data, or lies on another device")
        if rank > MAX_RANK or not isinstance(shape, Cell):
            raise UnreadableError("the shape of a tensor is not understood")
        extents = [self._number(replace(shape, index=shape.index + axis), "") for axis in range(rank)]
        dtype = DType(**{part: self._number(handle, f"dtype.{part}") for part in ("code", "bits", "lanes")})
        return PassedArgument(place=data, shape=tuple(extents), dtype=dtype)

    def _number(self, cell: Cell, field: str) -> int:
        value = self.symbols.load(cell, field)
        if not isinstance(value, int):
            raise UnreadableError(f"the {field or 'extent'} of a tensor is not a number")
        return value


def _checked_call(statement: If) -> Expr | None:
    """Return the call in ``if (kernel(...) != 0) return -1;``."""
    condition = statement.values[0]
    if len(statement.parts) != 1 or not is_error_return(statement.parts[0]):
        return None
    if (condition.kind, condition.text) == (BINARY, "!="):
        called, zero = condition.args
        is_zero = zero.kind == CONSTANT and zero.value == 0
        return called if called.kind == CALL and is_zero else None
    return None


def _is_idle(statement: Statement) -> bool:
    """Return whether a statement has no effect: an empty one, a condition without branches."""
    parts = [part for top in statement.parts for part in top.walk()]
    effects = {ASSIGN, CALL, UNKNOWN}
    is_plain = isinstance(statement, Block | If) and all(isinstance(p, Block) and not p.values for p in parts)
    return is_plain and not any(e.kind in effects for value in statement.values for e in value.walk())


def _unsupported(statement: Statement) -> str:
    """Return the reason why a statement is more than a call."""
    reasons = {
        If: "it has a branch",
        Switch: "it has a branch",
        Loop: "it has a loop",
        Return: "it returns early",
    }
    return reasons.get(type(statement), "a statement is not a call whose result is checked")
