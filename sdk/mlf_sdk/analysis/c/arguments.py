# SPDX-License-Identifier: Apache-2.0
"""Names that stand for the arguments of a kernel: packed ABI, or plain pointers as parameters."""

from __future__ import annotations

from typing import Final

import msgspec

from mlf_sdk.analysis.c.syntax import (
    CAST,
    CONSTANT,
    FIELD,
    INDEX,
    NAME,
    UNARY,
    Declaration,
    Expr,
    Statement,
)
from mlf_sdk.analysis.c.unit import FunctionDefinition, Parameter
from mlf_sdk.tools.ctext import SCALAR_TYPES

MAX_ARGUMENTS: Final = 10_000
"""Arguments of a kernel; the parts of a memory pool that it names are numbered behind them."""

DESCRIPTOR_FIELDS: Final = frozenset({"shape", "strides", "ndim", "dtype", "byte_offset", "device", "ctx"})
"""Fields of a DLTensor other than its data."""

_BYTES: Final = ("uint8_t*", "int8_t*")


class ArgumentNames(msgspec.Struct):
    """Names that stand for arguments.

    Attributes:
        data: argument whose data a name points to.
        types: element types of names that are declared with one.
        handles: argument whose descriptor a name is.
        packed: name of the packed arguments; empty for another ABI.
        skip: offsets of the statements that only give these names.
        parts: of a named part of an argument (``void* x = &pool[64];``) the argument and the byte at which it
            starts, by the number of the part.
        problem: why the names are not certain; empty when they are.
    """

    data: dict[str, int] = msgspec.field(default_factory=dict)
    types: dict[str, str] = msgspec.field(default_factory=dict)
    handles: dict[str, int] = msgspec.field(default_factory=dict)
    packed: str = ""
    skip: set[int] = msgspec.field(default_factory=set)
    parts: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)
    problem: str = ""

    def __contains__(self, name: object) -> bool:
        """Return whether ``name`` stands for an argument."""
        return name in self.data or name in self.handles or (name == self.packed and name != "")

    @property
    def indices(self) -> set[int]:
        """Arguments that have a name."""
        return {*self.data.values(), *self.handles.values()}

    def last_name(self, index: int) -> str:
        """Name of the data of an argument, else of its descriptor."""
        named = [name for names in (self.handles, self.data) for name, i in names.items() if i == index]
        return named[-1]

    def element(self, expression: Expr) -> tuple[str, str] | None:
        """Name and element type of the data that ``((float*)x)[i]`` or ``x[i]`` is an element of."""
        if expression.kind != INDEX:
            return None
        base = expression.args[0]
        if base.kind == NAME and base.text in self.types:
            return base.text, self.types[base.text]
        if base.kind == CAST and base.args[0].kind == NAME and is_scalar_pointer(base.text):
            return base.args[0].text, element_type(base.text[:-1])
        return None


def argument_names(function: FunctionDefinition) -> ArgumentNames:
    """Read the parameters and the top-level declarations that name arguments."""
    names = ArgumentNames()
    if function.is_packed:
        names.packed = function.parameters[0].name
        for statement in function.body.parts:
            _unpack(names, statement)
    else:
        for index, parameter in enumerate(function.parameters):
            _take_parameter(names, index, parameter)
        untyped = names.data.keys() - names.types.keys()
        for statement in function.body.parts:
            _copy(names, statement, untyped)
        for statement in function.body.walk():
            _part(names, function, statement)
    return names


def is_scalar_pointer(type_name: str) -> bool:
    """Return whether a type is a pointer to plain numbers."""
    words = type_name.removesuffix("*").split()
    return type_name.endswith("*") and bool(words) and SCALAR_TYPES.issuperset(words)


def element_type(type_name: str) -> str:
    """Drop the qualifiers of a C type."""
    return " ".join(word for word in type_name.split() if word not in ("const", "volatile"))


def descriptor(expression: Expr, type_name: str) -> tuple[str, int] | None:
    """Name and index of ``((type_name)name)[index]``; None when the expression is something else."""
    if expression.kind != INDEX or expression.args[1].kind != CONSTANT:
        return None
    base, subscript = expression.args
    if base.kind != CAST or base.text != type_name or base.args[0].kind != NAME:
        return None
    return base.args[0].text, subscript.value


def _initial_value(statement: Statement) -> tuple[str, Expr] | None:
    """Name and value of ``void* name = value;``."""
    if not isinstance(statement, Declaration) or len(statement.variables) != 1:
        return None
    variable = statement.variables[0]
    return (variable.name, variable.value) if variable.type == "void*" and variable.value else None


def _unpack(names: ArgumentNames, statement: Statement) -> None:
    """Take ``void* p = args[k].v_handle;`` and ``void* x = p->data;`` in the spelling of TVM."""
    result = _initial_value(statement)
    if result is None or result[1].kind != FIELD:
        return
    name, value = result
    if value.text == "v_handle" and (packed := descriptor(value.args[0], "TVMValue*")) is not None:
        if packed[0] != names.packed or packed[1] >= MAX_ARGUMENTS:
            return
        if packed[1] in names.handles.values():
            names.problem = "an argument is unpacked twice"
        if name in names:
            names.problem = "one name stands for two things"
        names.handles[name] = packed[1]
    elif value.text == "data" and (handle := descriptor(value.args[0], "DLTensor*")) is not None:
        if handle[0] not in names.handles or handle[1] != 0:
            return
        _name_data(names, name, names.handles[handle[0]])
    else:
        return
    names.skip.add(statement.start)


def _take_parameter(names: ArgumentNames, index: int, parameter: Parameter) -> None:
    is_scalar = is_scalar_pointer(parameter.type)
    if not is_scalar and parameter.type != "void*":
        names.problem = f"the parameter {parameter.name[:40]} is no pointer to data"
    _name_data(names, parameter.name, index)
    if is_scalar:
        names.types[parameter.name] = element_type(parameter.type[:-1])


def _copy(names: ArgumentNames, statement: Statement, untyped: set[str]) -> None:
    """Take ``void* x = arg0;`` (TVM 0.8): one more name for the data of a ``void*`` parameter."""
    result = _initial_value(statement)
    if result is not None and result[1].kind == NAME and result[1].text in untyped:
        _name_data(names, result[0], names.data[result[1].text])
        names.skip.add(statement.start)


def _part(names: ArgumentNames, function: FunctionDefinition, statement: Statement) -> None:
    """Take ``void* x = &pool[64];``: a part of a memory pool, anywhere in the body."""
    name, value = _initial_value(statement) or ("", None)
    if value is None or (value.kind, value.text) != (UNARY, "&") or value.args[0].kind != INDEX:
        return
    base, subscript = value.args[0].args
    parameter = function.parameters[names.data.get(base.text, 0)]
    if base.kind != NAME or base.text != parameter.name or parameter.type not in _BYTES:
        return
    if subscript.kind == CONSTANT:
        part = names.data[base.text], subscript.value
        if name not in names:
            names.parts[MAX_ARGUMENTS + len(names.parts)] = part
            names.data[name] = MAX_ARGUMENTS + len(names.parts) - 1
        elif names.parts.get(names.data[name]) != part:
            names.problem = "one name stands for two things"
        names.skip.add(statement.start)


def _name_data(names: ArgumentNames, name: str, index: int) -> None:
    if not name or name in names:
        names.problem = "one name stands for two things"
    names.data[name] = index
