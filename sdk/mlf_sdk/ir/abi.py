# SPDX-License-Identifier: Apache-2.0
"""Calling conventions of steps, as data: what a caller passes, whatever format the code came from."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec


class Convention(enum.Enum):
    """Way in which a step's function takes its arguments."""

    PACKED = "packed"
    """TVM's packed call: arrays of ``DLTensor *`` and of type codes; inputs, then outputs."""

    FFI = "ffi"
    """tvm-ffi's call (TVM 0.21 on): an array of tagged values, here ``DLTensor *``; inputs, then outputs."""

    C = "c"
    """A plain C function with the arguments of `Abi.arguments`."""


class ValueKind(enum.Enum):
    """Kind of a pointer that is passed."""

    TENSOR = "tensor"
    WORKSPACE = "workspace"
    SYMBOL = "symbol"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A pointer that is passed.

    Attributes:
        tensor: TENSOR: id of the tensor whose address is passed.
        slot: WORKSPACE: slot of the step's workspace.
        symbol: SYMBOL: object in the step's code whose address is passed.
        offset_bytes: SYMBOL and WORKSPACE: distance of the address from the start; that of a workspace may be
            before it, for a function that uses only what lies from there on.
    """

    kind: ValueKind
    tensor: int | None = None
    slot: int | None = None
    symbol: str = ""
    offset_bytes: int = 0

    @classmethod
    def of_tensor(cls, tensor: int) -> Value:
        """Address of a tensor."""
        return cls(kind=ValueKind.TENSOR, tensor=tensor)

    @classmethod
    def of_workspace(cls, slot: int, offset_bytes: int = 0) -> Value:
        """Address of one of the step's workspaces, or so many bytes from it."""
        return cls(kind=ValueKind.WORKSPACE, slot=slot, offset_bytes=offset_bytes)

    @classmethod
    def of_symbol(cls, symbol: str, offset_bytes: int = 0) -> Value:
        """Address of an object that the step's code defines, or so many bytes behind it."""
        return cls(kind=ValueKind.SYMBOL, symbol=symbol, offset_bytes=offset_bytes)

    @classmethod
    def null(cls) -> Value:
        """A null pointer."""
        return cls(kind=ValueKind.NULL)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a struct and the pointer in it."""

    name: str
    value: Value


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a C function: a pointer, or the address of a struct of pointers.

    Attributes:
        value: the pointer; None for a struct.
        struct: tag of the struct, which `Abi.header` or `Abi.unit` declares; empty for a pointer.
        fields: of the struct.
    """

    value: Value | None = None
    struct: str = ""
    fields: tuple[Field, ...] = ()

    @property
    def values(self) -> tuple[Value, ...]:
        """All pointers of the argument."""
        return tuple(f.value for f in self.fields) if self.value is None else (self.value,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abi:
    """Calling convention of a step.

    Attributes:
        convention: how arguments are passed.
        arguments: C only; in the order of the function's parameters.
        result: C only: type of the result, which is 0 on success; ``void`` for a function that can't fail.
        header: member with the function's prototype; empty: it is declared with ``void *`` parameters.
        unit: member whose static objects the arguments name: the call is compiled as part of it. It may be
            the header as well.
    """

    convention: Convention = Convention.PACKED
    arguments: tuple[Argument, ...] = ()
    result: str = "int32_t"
    header: str = ""
    unit: str = ""

    @property
    def values(self) -> Iterator[Value]:
        """All pointers that are passed."""
        return (value for argument in self.arguments for value in argument.values)

    @property
    def slots(self) -> frozenset[int]:
        """Workspaces that are passed as arguments."""
        return frozenset(v.slot for v in self.values if v.slot is not None)


PACKED = Abi()
FFI = Abi(convention=Convention.FFI)


def call_with(values: Iterable[Value], *, result: str = "int32_t", unit: str = "", header: str = "") -> Abi:
    """A C function that takes one pointer for each of ``values``."""
    arguments = tuple(Argument(value=value) for value in values)
    return Abi(convention=Convention.C, arguments=arguments, result=result, unit=unit, header=header)
