# SPDX-License-Identifier: Apache-2.0
"""A device's description of itself: models, tensors and the arrays that fit them, measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec
import numpy as np

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.tools.arrays import Array
from mlf_sdk.tools.checks import DeviceText
from mlf_sdk.wire import protocol
from mlf_sdk.wire.bulk import Pace, Transfer, carry, read_all
from mlf_sdk.wire.codes import Capability, Direction, Opcode
from mlf_sdk.wire.link import Link
from mlf_sdk.wire.transport import Deadline

_KINDS = {0: "i", 1: "u", 2: "f"}
_WIDTHS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64)}


class TensorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An input or an output of a model.

    Attributes:
        direction: input or output.
        index: position among the model's inputs or outputs.
        name: its name in the archive, or the beginning of it when ``name_cut``.
        shape: extents.
        type_code, bits, lanes: element type as in DLDataType.
        size_bytes: size in memory.
        streamed: an input whose rows are computed as they are written.
    """

    direction: Direction
    index: int
    name: DeviceText
    shape: tuple[int, ...]
    type_code: int
    bits: int
    lanes: int
    size_bytes: int
    name_cut: bool = False
    streamed: bool = False

    @property
    def label(self) -> str:
        """Name of the tensor for a message."""
        return f"{self.direction.name.lower()} {self.index} ({self.name})"

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type for numpy; bfloat16 is given as its 16 bits, unsigned.

        Raises:
            TargetError: numpy has no such type, or type and shape disagree with the size.
        """
        result = _numpy_type(self.type_code, self.bits, self.lanes)
        if result is None:
            what = f"type (code {self.type_code}, {self.bits} bits, {self.lanes} lanes) has no numpy type"
            raise TargetError(what, where=self.label)
        if result.itemsize * math.prod(self.shape) != self.size_bytes:
            raise TargetError(
                f"{self.size_bytes} bytes are not an array of {result} and shape {list(self.shape)}",
                where=self.label,
            )
        return result


def _numpy_type(code: int, bits: int, lanes: int) -> np.dtype[np.generic] | None:
    if lanes != 1:
        return None
    if (code, bits) == (1, 1):
        return np.dtype(np.bool_)
    if (code, bits) == (4, 16):
        return np.dtype("<u2")
    kind = _KINDS.get(code)
    if kind is None or bits not in _WIDTHS[kind]:
        return None
    return np.dtype(f"<{kind}{bits // 8}")


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model on the device.

    Attributes:
        index: the number that requests use.
        name: its name, or the beginning of it when ``name_cut``.
        archive_sha256: of the archive it was generated from, lower-case hex.
        num_steps: steps of a run.
        arena_bytes, params_bytes: sizes in memory.
        inputs_kept: whether a run leaves the inputs intact; else they must be written before each.
        inputs, outputs: its tensors.
    """

    index: int
    name: DeviceText
    archive_sha256: str
    num_steps: int
    arena_bytes: int
    params_bytes: int
    inputs_kept: bool
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    name_cut: bool = False

    @property
    def label(self) -> str:
        """Name of the model for a message."""
        return f"model {self.index} ({self.name})"


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Device and its models.

    Attributes:
        protocol_version: version of the protocol it speaks.
        sdk_version: of the SDK that generated its project; empty: not known.
        max_payload: bytes of the largest message.
        capabilities: what it can do.
        boot_nonce: differs from boot to boot; 0: the device cannot distinguish boots.
        ticks_hz: frequency of its counter in Hz; 0: not known, or no counter.
        window_bytes: of requests that it takes while it is busy; 0: one request at a time.
        models: by index.
        build_id: of its image, in hex; empty: not reported.
    """

    protocol_version: int
    sdk_version: DeviceText
    max_payload: int
    capabilities: Capability
    boot_nonce: int
    ticks_hz: int
    models: tuple[ModelInfo, ...]
    window_bytes: int = 0
    build_id: str = ""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that all succeeded: how many, and the counter's ticks of all of them together."""

    runs: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Measurements of a device since the model was prepared; None: not measured.

    Attributes:
        arena_high_water_bytes: end of the highest byte of the arena that changed.
        more_high_water_bytes: likewise of the arenas in other memories, in their order.
        workspace_high_water_bytes: end of the highest workspace, from the arena's beginning.
        workspace_requests: how many workspaces kernels asked for.
        refused_bytes: size of the last workspace that was refused; 0: none.
        stack_bytes: size of the stack.
        stack_high_water_bytes: bytes from its top to the lowest one that changed.
        dropped_frames: what the device received and could not take for a request, since it started.
        guards: before and behind each region, checked after each run; None: there are none.
        written_guard: number of the first guard that was written; None: all are intact.
    """

    arena_high_water_bytes: int | None
    workspace_high_water_bytes: int | None
    workspace_requests: int | None
    refused_bytes: int | None
    stack_bytes: int | None
    stack_high_water_bytes: int | None
    dropped_frames: int
    guards: int | None = None
    written_guard: int | None = None
    more_high_water_bytes: tuple[int, ...] = ()


PATTERNS = (0xA5, 0x5A)


def largest(first: Stats, second: Stats) -> Stats:
    """The larger figures of two inferences of a model, and the guard that was written first."""
    result: dict[str, Any] = {}
    for name in (field.name for field in fields(Stats)):
        known = [value for value in (getattr(first, name), getattr(second, name)) if value is not None]
        result[name] = max(known, default=None)
    pairs = zip(first.more_high_water_bytes, second.more_high_water_bytes, strict=True)
    result["more_high_water_bytes"] = tuple(map(max, pairs))
    if first.written_guard is not None:
        result["written_guard"] = first.written_guard
    return Stats(**result)


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
