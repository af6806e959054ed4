# SPDX-License-Identifier: Apache-2.0
"""The bytes of a tensor to and from a device, in pieces."""

from __future__ import annotations

from mlf_sdk.errors import TargetError
from mlf_sdk.wire import protocol
from mlf_sdk.wire.bulk import Pace, Transfer, carry
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.device import ModelInfo, TensorInfo
from mlf_sdk.wire.link import Link
from mlf_sdk.wire.protocol import Opcode


def write_tensor(
    link: Link, pace: Pace, model: ModelInfo, tensor: TensorInfo, data: bytes, deadline: Deadline
) -> None:
    """Write all of an input."""

    def request(start: int, end: int) -> bytes:
        return protocol.WriteRequest(model.index, tensor.index, start).pack() + data[start:end]

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
    data = bytearray(tensor.size_bytes)
    where = f"{model.label}, {tensor.label}"

    def request(start: int, end: int) -> bytes:
        wanted = protocol.ReadRequest(model.index, tensor.direction, tensor.index, start, end - start)
        return wanted.pack()

    def take(start: int, end: int, piece: bytes) -> None:
        if len(piece) != end - start:
            raise TargetError(f"the device sent {len(piece)} bytes instead of {end - start}", where=where)
        data[start:end] = piece

    transfer = Transfer(
        opcode=Opcode.READ,
        size_bytes=tensor.size_bytes,
        room_bytes=pace.payload_bytes - protocol.HEADER.size - protocol.STATUS_SIZE,
        request=request,
        take=take,
        where=where,
    )
    carry(link, pace, transfer, deadline)
    return data
