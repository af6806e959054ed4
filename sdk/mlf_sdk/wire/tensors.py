# SPDX-License-Identifier: Apache-2.0
"""Tensors of a device: arrays that fit them, and their bytes to and from the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlf_sdk.errors import InputError
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire import protocol
from mlf_sdk.wire.bulk import Pace, Transfer, carry, read_all
from mlf_sdk.wire.codes import Opcode
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.device import ModelInfo, TensorInfo
from mlf_sdk.wire.link import Link

Inputs = Mapping[str, Array] | Sequence[Array]


def arrays_of(model: ModelInfo, inputs: Inputs) -> list[Array]:
    """Return an array for each input of a model, in order; raises InputError naming what is amiss."""
    names = ", ".join(tensor.name for tensor in model.inputs)
    if not isinstance(inputs, Mapping):
        if len(inputs) != len(model.inputs):
            what = f"{len(inputs)} inputs were given for {len(model.inputs)}"
            raise InputError(what, where=model.label, hint=f"It has: {names}.")
        return list(inputs)
    left = dict(inputs)
    arrays = []
    for tensor in model.inputs:
        key = tensor.name if tensor.name in left else str(tensor.index)
        if key not in left:
            raise InputError(f"no array for {tensor.label}", where=model.label)
        arrays.append(left.pop(key))
    if left:
        unknown = ", ".join(repr(key) for key in left)
        raise InputError(f"there is no input {unknown}", where=model.label, hint=f"It has: {names}.")
    return arrays


def pick(model: ModelInfo, tensors: tuple[TensorInfo, ...], index: int) -> TensorInfo:
    """Return the tensor of an index; raises InputError."""
    if not 0 <= index < len(tensors):
        raise InputError(f"there is no tensor {index} of {len(tensors)}", where=model.label)
    return tensors[index]


def bytes_of(array: Array, tensor: TensorInfo, model: ModelInfo) -> bytes:
    """Return an array as the bytes of a tensor; raises InputError unless shape and type are its own."""
    values = np.asarray(array)
    if values.dtype != tensor.dtype or values.shape != tensor.shape:
        raise InputError(
            f"an array of {values.dtype} and shape {list(values.shape)} was given for "
            f"{tensor.dtype} and shape {list(tensor.shape)}",
            where=f"{model.label}, {tensor.label}",
            hint=f"Quantise or convert it first, to numpy.{tensor.dtype.name}; reshape it to {tensor.shape}.",
        )
    return values.tobytes()


def begin_rows(link: Link, model: ModelInfo, tensor: TensorInfo, deadline: Deadline) -> None:
    """Begin anew with an input that is streamed: what came of it counts no more."""
    request = protocol.WriteRequest(model.index, tensor.index, 0).pack()
    link.call(Opcode.WRITE, request, deadline, where=f"{model.label}, {tensor.label}")


def write_tensor(
    link: Link, pace: Pace, model: ModelInfo, tensor: TensorInfo, data: bytes, deadline: Deadline
) -> None:
    """Write all of an input."""
    if tensor.streamed:
        begin_rows(link, model, tensor, deadline)
    write_bytes(link, pace, model, tensor, data, 0, deadline)


def write_bytes(
    link: Link,
    pace: Pace,
    model: ModelInfo,
    tensor: TensorInfo,
    data: bytes,
    offset: int,
    deadline: Deadline,
) -> None:
    """Write the bytes of an input from an offset on."""

    def request(start: int, end: int) -> bytes:
        return protocol.WriteRequest(model.index, tensor.index, offset + start).pack() + data[start:end]

    def take(start: int, end: int, body: bytes) -> None:
        protocol.WriteReply.unpack(body)

    transfer = Transfer(
        opcode=Opcode.WRITE,
        size_bytes=len(data),
        room_bytes=pace.payload_bytes - protocol.HEADER.size - protocol.WriteRequest.LAYOUT.size,
        request=request,
        take=take,
        where=f"{model.label}, {tensor.label}",
    )
    carry(link, pace, transfer, deadline)


def read_tensor(
    link: Link, pace: Pace, model: ModelInfo, tensor: TensorInfo, deadline: Deadline
) -> bytearray:
    """Return all bytes of an input or an output."""

    def request(start: int, end: int) -> bytes:
        wanted = protocol.ReadRequest(model.index, tensor.direction, tensor.index, start, end - start)
        return wanted.pack()

    where = f"{model.label}, {tensor.label}"
    return read_all(link, pace, Opcode.READ, tensor.size_bytes, request, where, deadline)
