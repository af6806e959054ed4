# SPDX-License-Identifier: Apache-2.0
"""Tensors of the values that a main function keeps in its workspaces and memory pools."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mlf_sdk.analysis.c.calllist import PassedArgument
from mlf_sdk.frontends.aotuse import ParameterUse
from mlf_sdk.ir.dtype import UINT, DType
from mlf_sdk.ir.model import Tensor, TensorKind
from mlf_sdk.ir.tensor import TensorTable

_BYTE = DType(code=UINT, bits=8)


class SharedError(Exception):
    """Values of one storage that cannot be distinguished.

    Attributes:
        base: of the storage.
    """

    def __init__(self, base: object, what: str) -> None:
        super().__init__(what)
        self.base = base


class ViewTable(TensorTable):
    """Tensors of a model, and views of them.

    Attributes:
        written: outputs of the model that some step has written.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__(tensors)
        self.written: set[int] = set()
        self._views: dict[tuple[int, int, DType, tuple[int, ...]], int] = {}

    def view(self, tensor: int, argument: PassedArgument, use: ParameterUse, start: int = 0) -> int:
        """Return the tensor that an argument is of another one: itself, or an alias.

        Args:
            start: of the tensor, on the scale of the argument's offset.
        """
        whole = self.tensors[tensor]
        offset = argument.place.offset - start
        dtype, shape = _type_of(argument, use, whole.size_bytes - offset)
        if offset == 0 and (argument.shape is None or (dtype, shape) == (whole.dtype, whole.shape)):
            return tensor
        key = (tensor, offset, dtype, shape)
        if key not in self._views:
            self._views[key] = self.add(
                whole.name, dtype, shape, TensorKind.INTERMEDIATE, alias_of=tensor, offset_bytes=offset
            )
        return self._views[key]


class _Value(msgspec.Struct, frozen=True):
    """Bytes of a storage that hold the value of one tensor."""

    first: int
    end: int
    tensor: int

    def meets(self, first: int, end: int) -> bool:
        return self.first < end and first < self.end


class Storage:
    """One workspace or memory pool, and the values in it at one place of main.

    Attributes:
        name: for people.
        split: each value is a tensor of its own; else all are parts of one tensor.
    """

    def __init__(self, base: object, name: str, size_bytes: int, tensors: ViewTable, *, split: bool) -> None:
        self.base = base
        self.name = name
        self.size_bytes = size_bytes
        self.split = split
        self._tensors = tensors
        self._values: list[_Value] = []
        self._count = 0
        self._read: list[tuple[int, int]] = []

    def begin(self) -> None:
        """Begin a call."""
        self._read = []

    def take_whole(self, why: str) -> None:
        """Require that the storage is one tensor.

        Raises:
            SharedError: it is not.
        """
        if self.split:
            raise SharedError(self.base, why)

    def holds(self, offset: int, size_bytes: int | None) -> bool:
        """Return whether there is any value in some bytes, or behind an offset."""
        if not self.split:
            return bool(self._values)
        end = self.size_bytes if size_bytes is None else offset + size_bytes
        return any(value.meets(offset, end) for value in self._values)

    def read(self, argument: PassedArgument, use: ParameterUse) -> int:
        """Tensor of a value that a kernel reads.

        Raises:
            SharedError: it is not all of one value.
        """
        first, end = self._span(argument, use)
        result = [value for value in self._values if value.meets(first, end)]
        if len(result) != 1 or not result[0].first <= first <= end <= result[0].end:
            raise SharedError(self.base, f"{self.name} is read where no value of a kernel is alone")
        self._read.append((first, end))
        return self._tensors.view(result[0].tensor, argument, use, result[0].first)

    def write(self, argument: PassedArgument, use: ParameterUse) -> int:
        """Tensor of a value that a kernel fills.

        Raises:
            SharedError: it lies over something else that the same call uses.
        """
        first, end = self._span(argument, use)
        if not self.split:
            if not self._values:
                whole = (self.size_bytes,)
                tensor = self._tensors.add(self.name, _BYTE, whole, TensorKind.INTERMEDIATE)
                self._values = [_Value(0, self.size_bytes, tensor)]
            return self._tensors.view(self._values[0].tensor, argument, use)
        if any(low < end and first < high for low, high in self._read):
            raise SharedError(self.base, f"{self.name}: a kernel writes over what it reads")
        self._read.append((first, end))
        self._values = [value for value in self._values if not value.meets(first, end)]
        self._count += 1
        name = self.name if self._count == 1 else f"{self.name}:{self._count}"
        dtype, shape = _type_of(argument, use, end - first)
        tensor = self._tensors.add(name, dtype, shape, TensorKind.INTERMEDIATE)
        self._values.append(_Value(first, end, tensor))
        return tensor

    def use_scratch(self, first: int, end: int) -> None:
        """Take bytes that a kernel uses as its own workspace: what was in them is lost.

        Raises:
            SharedError: they lie over something else that the same call uses.
        """
        if any(low < end and first < high for low, high in self._read):
            raise SharedError(
                self.base, f"{self.name}: a kernel's workspace lies over what it reads or writes"
            )
        self._values = [value for value in self._values if not value.meets(first, end)]

    def _span(self, argument: PassedArgument, use: ParameterUse) -> tuple[int, int]:
        """First byte, and the one behind the last, that a kernel accesses."""
        first, size = argument.place.offset, use.size_bytes(argument)
        if self.split and (size is None or (use.extent_bytes or 0) > size):
            raise SharedError(self.base, f"{self.name}: the bytes that a kernel accesses are not known")
        end = self.size_bytes if size is None or not self.split else first + size
        if not 0 <= first <= end <= self.size_bytes:
            raise SharedError(self.base, f"{self.name}: a kernel reaches beyond its end")
        return first, end


def _type_of(argument: PassedArgument, use: ParameterUse, size_bytes: int) -> tuple[DType, tuple[int, ...]]:
    """Type and extents of an argument; of a plain pointer, one dimension of ``size_bytes``."""
    if argument.shape is not None and argument.dtype is not None:
        return argument.dtype, argument.shape
    size = use.dtype.size_bytes
    if size_bytes % size:
        return _BYTE, (size_bytes,)
    return use.dtype, (size_bytes // size,)
