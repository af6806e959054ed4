# SPDX-License-Identifier: Apache-2.0
"""Values of a function that is executed on symbols: addresses, plain numbers, and cells of local arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from mlf_sdk.analysis.c.arguments import element_type
from mlf_sdk.analysis.c.syntax import (
    BINARY,
    CAST,
    CONSTANT,
    FIELD,
    INDEX,
    NAME,
    OTHER,
    UNARY,
    Expr,
    UnreadableError,
)
from mlf_sdk.analysis.c.unit import FunctionDefinition

_SIZES: Final = {"void": 1, "char": 1, "float": 4, "double": 8}
_BYTES: Final = _SIZES | {f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True, slots=True)
class Place:
    """Address: bytes behind the start of the memory that ``base`` names."""

    base: Hashable
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """Base of the memory of one request: the variable that holds its address."""

    name: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Address of an element of a local array, or of an argument's descriptor, seen as ``type``."""

    array: str
    type: str = ""
    index: int = 0


class VariableAddress(msgspec.Struct, frozen=True):
    """Address of a local variable."""

    name: str


class Unknown(msgspec.Struct, frozen=True):
    """Value that no address and no size may depend on."""


SymbolicValue = int | Place | Cell | VariableAddress | Unknown


class Symbols:
    """Variables and local arrays of a function, as far as they are known.

    Attributes:
        values: of variables.
        types: of variables.
        cells: what was stored in a field of an element; one without fields has the field ``''``.
        views: type as which each array is used.
    """

    def __init__(self, function: FunctionDefinition, arguments: Sequence[Place]) -> None:
        self.values: dict[str, SymbolicValue] = {}
        self.types: dict[str, str] = {p.name: p.type for p in function.parameters}
        self.cells: dict[tuple[Cell, str], SymbolicValue] = {}
        self.views: dict[str, str] = {}
        if function.is_packed:
            self._take_packed(function, arguments)
        elif len(arguments) != len(function.parameters):
            raise UnreadableError(f"{len(arguments)} arguments for {len(function.parameters)} parameters")
        else:
            self.values |= {p.name: a for p, a in zip(function.parameters, arguments, strict=True)}

    def _take_packed(self, function: FunctionDefinition, arguments: Sequence[Place]) -> None:
        args, codes, *others = (parameter.name for parameter in function.parameters)
        self.values |= {args: Cell("arguments"), codes: Cell("type codes")}
        self.values |= dict.fromkeys(others, Unknown())
        for index, place in enumerate(arguments):
            handle = Cell(f"argument {index}", "DLTensor*")
            self.cells[Cell("arguments", "TVMValue*", index), "v_handle"] = handle
            self.cells[Cell("type codes", "int32_t*", index), ""] = Unknown()
            self.cells[handle, "data"] = place
            for name in ("shape", "strides", "device.device_id", "byte_offset", "ndim"):
                self.cells[handle, name] = Unknown()

    def value(self, expression: Expr) -> SymbolicValue:
        """Evaluate an expression.

        Raises:
            UnreadableError: it is not understood.
        """
        kind = expression.kind
        if kind in (CONSTANT, OTHER) and expression.value >= 0:
            return expression.value
        if kind == NAME and (expression.text in self.values or expression.text == "NULL"):
            return self.values.get(expression.text, 0)
        if kind == CAST:
            return self._cast(expression)
        if kind in (INDEX, FIELD):
            return self.load(*self.cell(expression))
        if (kind, expression.text) == (BINARY, "+"):
            return self._element(*expression.args)
        if kind == UNARY and expression.text in ("&", "*"):
            return self._address(expression.args[0]) if expression.text == "&" else self._pointee(expression)
        raise UnreadableError(f"a value is not understood: {expression.text[:40]}")

    def _cast(self, expression: Expr) -> SymbolicValue:
        value = self.value(expression.args[0])
        if not isinstance(value, Cell):
            return value
        type_ = "int32_t*" if expression.text == "int*" else expression.text
        if value.index or expression.text in ("void*", value.type):
            return value
        return replace(value, type=type_)

    def _address(self, expression: Expr) -> SymbolicValue:
        if expression.kind == NAME and not self.types.get(expression.text, "[]").endswith("[]"):
            return VariableAddress(expression.text)
        if expression.kind == INDEX:
            return self._element(*expression.args)
        raise UnreadableError("an address is not understood")

    def _pointee(self, expression: Expr) -> SymbolicValue:
        """Read ``*(T*)&variable``."""
        address = self.value(expression.args[0])
        if not isinstance(address, VariableAddress):
            raise UnreadableError("a value behind a pointer is not understood")
        return self.values[address.name]

    def _element(self, base: Expr, subscript: Expr) -> SymbolicValue:
        """Address of an element; of an array of plain numbers, so many bytes further."""
        address, index = self.value(base), self.value(subscript)
        if isinstance(address, Cell) and isinstance(index, int):
            return replace(address, index=address.index + index)
        type_ = base.text if base.kind == CAST else self.types.get(base.text, "")
        size = _BYTES.get(element_type(type_.removesuffix("*"))) if type_.endswith("*") else None
        if not isinstance(address, Place) or not isinstance(index, int) or size is None:
            raise UnreadableError("an address is computed in a way that is not understood")
        return replace(address, offset=address.offset + index * size)

    def cell(self, expression: Expr) -> tuple[Cell, str]:
        """Element of a local array, and the field of it, that an expression names.

        Raises:
            UnreadableError: it names something else.
        """
        fields: list[str] = []
        while expression.kind == FIELD:
            fields.append(expression.text)
            expression = expression.args[0]
        cell = self._element(*expression.args) if expression.kind == INDEX else None
        if not isinstance(cell, Cell):
            raise UnreadableError("memory is read or written in a way that is not understood")
        return cell, ".".join(reversed(fields))

    def load(self, cell: Cell, field: str) -> SymbolicValue:
        """Read a field of an element.

        Raises:
            UnreadableError: nothing was stored there.
        """
        if cell.array == "type codes":
            cell = replace(cell, type="int32_t*")
        if (cell, field) not in self.cells:
            raise UnreadableError(f"{cell.array[:40]} is read before it is set")
        return self.cells[cell, field]
