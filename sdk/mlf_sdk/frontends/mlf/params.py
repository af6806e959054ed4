# SPDX-License-Identifier: Apache-2.0
"""The parameter file of an archive (``parameters/<module>.params``): reader and writer side by side.

Layout, little-endian, packed::

    u64 0xF7E58D4F05049CB7 | u64 0 | u64 n | n x (u64 length, bytes) names | u64 n | n x tensor
    tensor: u64 0xDD5E40F096B4A13F | u64 0 | i32 device_type 1 | i32 device_id 0 | i32 ndim |
            u8 code | u8 bits | u16 lanes | i64 shape[ndim] | i64 size in bytes | data
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.ir.dtype import HANDLE, DType
from mlf_sdk.tools.checks import shown, tensor_name_problem

if TYPE_CHECKING:
    pass

LIST_MAGIC: Final = 0xF7E58D4F05049CB7
TENSOR_MAGIC: Final = 0xDD5E40F096B4A13F
MAX_NDIM: Final = 16
MAX_PARAMS: Final = 65536

_HEAD: Final = struct.Struct("<QQQ")
_U64: Final = struct.Struct("<Q")
_I64: Final = struct.Struct("<q")
_TENSOR: Final = struct.Struct("<QQiiiBBH")
_CPU: Final = 1


class Damaged(Exception):
    """Damaged data: message and byte offset."""

    def __init__(self, what: str, offset: int) -> None:
        """Set message and offset."""
        super().__init__(what)
        self.what = what
        self.offset = offset


def parse_params(data: bytes, member: str, faults: FaultCollector) -> tuple[NamedTensor, ...]:
    """Read all parameters; faults carry the byte offset. What was read before a fault is given."""
    tensors: list[NamedTensor] = []
    try:
        _parse(Cursor(data), tensors, member, faults)
    except Damaged as damage:
        faults.add(member, damage.what, field=f"byte {damage.offset}")
    return tuple(tensors)


def write_params(tensors: Iterable[NamedTensor]) -> bytes:
    """Give the parameter file that holds ``tensors`` in this order.

    Raises:
        InputError: a tensor's data does not have the size that its shape and type say.
    """
    items = tuple(tensors)
    parts = [_HEAD.pack(LIST_MAGIC, 0, len(items))]
    for item in items:
        name = item.name.encode("utf-8")
        parts += [_U64.pack(len(name)), name]
    parts.append(_U64.pack(len(items)))
    for item in items:
        if item.dtype.bytes_of(item.shape) != len(item.data):
            raise InputError("the data does not have the size of its shape", where=f"parameter {item.name}")
        dtype, ndim = item.dtype, len(item.shape)
        parts.append(_TENSOR.pack(TENSOR_MAGIC, 0, _CPU, 0, ndim, dtype.code, dtype.bits, dtype.lanes))
        parts += [_I64.pack(extent) for extent in item.shape]
        parts += [_I64.pack(len(item.data)), item.data]
    return b"".join(parts)


class Cursor:
    """A position in little-endian data; every step is checked against what remains."""

    def __init__(self, data: bytes) -> None:
        """Start at the first byte."""
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes that remain."""
        return len(self.data) - self.at

    def take(self, size: int, what: str) -> bytes:
        """Give the next ``size`` bytes; Damaged when fewer are left."""
        if size > self.left:
            raise Damaged(f"{what} needs {size} bytes, {self.left} are left", self.at)
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def unpack(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        """Give the next fields; Damaged when fewer bytes are left."""
        return layout.unpack(self.take(layout.size, what))

    def u64(self, what: str) -> int:
        """Give the next number without a sign."""
        return self.unpack(_U64, what)[0]

    def i64(self, what: str) -> int:
        """Give the next number with a sign."""
        return self.unpack(_I64, what)[0]


def _parse(cursor: Cursor, tensors: list[NamedTensor], member: str, faults: FaultCollector) -> None:
    magic, reserved, count = cursor.unpack(_HEAD, "the header")
    if magic != LIST_MAGIC:
        raise Damaged(f"not a parameter file: its magic is {magic:#018x}", 0)
    if reserved != 0:
        raise Damaged(f"the reserved word is {reserved:#x}, not 0", 8)
    if count > min(MAX_PARAMS, cursor.left // _U64.size):
        raise Damaged(f"{count} names; the {cursor.left} bytes that follow cannot hold them", 16)
    names = [_name(cursor, member, faults) for _ in range(count)]
    for name, times in Counter(names).items():
        if times > 1:
            faults.add(member, f"{times} parameters are called {shown(name)}")
    at = cursor.at
    again = cursor.u64("the number of tensors")
    if again != count:
        raise Damaged(f"{again} tensors for {count} names", at)
    for name in names:
        tensors.append(read_tensor(cursor, name))
    if cursor.left:
        raise Damaged(f"{cursor.left} bytes behind the last tensor", cursor.at)


def _name(cursor: Cursor, member: str, faults: FaultCollector) -> str:
    length = cursor.u64("the length of a name")
    at = cursor.at
    raw = cursor.take(length, "a name")
    name = raw.decode("utf-8", "replace")
    problem = "is not valid UTF-8" if name.encode("utf-8") != raw else tensor_name_problem(name)
    if problem is not None:
        faults.add(member, f"a parameter's name {problem}", field=f"byte {at}")
    return name


def read_tensor(cursor: Cursor, name: str) -> NamedTensor:
    """Read a tensor record; Damaged when it is none."""
    at = cursor.at
    what = f"tensor {shown(name)}"
    magic, reserved, device_type, device_id, ndim, code, bits, lanes = cursor.unpack(_TENSOR, what)
    if magic != TENSOR_MAGIC:
        raise Damaged(f"{what}: no tensor starts here, the magic is {magic:#018x}", at)
    if reserved != 0:
        raise Damaged(f"{what}: the reserved word is {reserved:#x}, not 0", at + 8)
    if (device_type, device_id) != (_CPU, 0):
        raise Damaged(f"{what}: device type {device_type}, id {device_id}; parameters are on 1, 0", at + 16)
    if not 0 <= ndim <= MAX_NDIM:
        raise Damaged(f"{what}: {ndim} dimensions; 0 to {MAX_NDIM} are read", at + 24)
    dtype = _dtype(code, bits, lanes, what, at + 28)
    at = cursor.at
    shape = cursor.unpack(struct.Struct(f"<{ndim}q"), f"the shape of {what}")
    if any(extent < 0 for extent in shape):
        raise Damaged(f"{what}: a negative extent in its shape {shape}", at)
    expected = dtype.bytes_of(shape)
    at = cursor.at
    size_bytes = cursor.i64(f"the size of {what}")
    if size_bytes != expected:
        raise Damaged(f"{what}: {size_bytes} bytes stated, {expected} follow from {shape} {dtype}", at)
    return NamedTensor(name=name, dtype=dtype, shape=shape, data=cursor.take(size_bytes, what))


def _dtype(code: int, bits: int, lanes: int, what: str, at: int) -> DType:
    try:
        dtype = DType(code=code, bits=bits, lanes=lanes)
    except InputError as error:
        raise Damaged(f"{what}: {error.what}", at) from error
    if code == HANDLE or lanes != 1:
        raise Damaged(f"{what}: a parameter cannot be {dtype}", at)
    return dtype
