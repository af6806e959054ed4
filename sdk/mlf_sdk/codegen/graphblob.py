# SPDX-License-Identifier: Apache-2.0
"""The graph blob that a device loads (``crt/BLOBS.md``): writer and reader side by side."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import DType

MAGIC: Final = b"MLFG"
VERSION: Final = 1
ALIGNMENT: Final = 16
NO_HASH: Final = bytes(32)
HEADER: Final = struct.Struct("<4sHHIIIIHHHHIIIIBBBBI32s32s32s")
_EXTENT: Final = struct.Struct("<q")
_TENSOR: Final = struct.Struct("<IIIBBBBHH")
_SLOT: Final = struct.Struct("<II")
_STEP: Final = struct.Struct("<HHHH")
_NAMED: Final = struct.Struct("<HHI")
_ARG: Final = struct.Struct("<H")
_CRC_AT: Final = 12
_INPUTS_KEPT: Final = 1
_U32: Final = 0xFFFFFFFF


class BlobTensor(msgspec.Struct, frozen=True, kw_only=True):
    """Tensor at a byte offset in the arena or in the parameters."""

    dtype: DType
    shape: tuple[int, ...]
    offset: int
    in_params: bool

    @property
    def size_bytes(self) -> int:
        """Bytes of the data."""
        return self.dtype.bytes_of(self.shape)


class BlobStep(msgspec.Struct, frozen=True, kw_only=True):
    """A call: index of the kernel in the image's table, tensors, and (offset, bytes) of each workspace."""

    kernel: int
    args: tuple[int, ...]
    slots: tuple[tuple[int, int], ...] = ()


class BlobName(msgspec.Struct, frozen=True, kw_only=True):
    """Name of a tensor."""

    tensor: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBlob:
    """The structure of a model.

    Attributes:
        arena_bytes, params_bytes: what it needs.
        num_kernels: entries of the image's table of kernels.
        code_id: sha256 of the kernels' code; parameters fit a graph only with the same code.
        archive_sha256: of the archive that it came from.
    """

    name: str
    tensors: tuple[BlobTensor, ...]
    steps: tuple[BlobStep, ...]
    inputs: tuple[BlobName, ...]
    outputs: tuple[BlobName, ...]
    params: tuple[BlobName, ...]
    arena_bytes: int
    params_bytes: int
    num_kernels: int
    inputs_kept: bool
    code_id: bytes
    archive_sha256: bytes

    @property
    def graph_id(self) -> bytes:
        """Hash that parameters are bound to: SHA-256 of the blob with this field, CRC and archive zeroed."""
        plain = dataclasses.replace(self, archive_sha256=NO_HASH)
        return hashlib.sha256(_join(plain, NO_HASH, 0)).digest()

    def pack(self) -> bytes:
        """Encode the blob.

        Raises:
            InputError: a number is larger than its field.
        """
        try:
            graph_id = self.graph_id
            return _join(self, graph_id, zlib.crc32(_join(self, graph_id, 0)))
        except struct.error as error:
            raise InputError(
                f"the model is too large for a graph blob: {error}",
                where=f"model {self.name}",
                hint="Use the static executor.",
            ) from error


class _Names:
    """String table: zero-terminated texts, each once."""

    def __init__(self, first: str) -> None:
        self._places: dict[str, int] = {}
        self.data = b""
        self.add(first)

    def add(self, text: str) -> int:
        clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        if clean not in self._places:
            self._places[clean] = len(self.data)
            self.data += clean.encode("utf-8", "replace") + b"\0"
        return self._places[clean]


def _join(graph: GraphBlob, graph_id: bytes, crc: int) -> bytes:
    names = _Names(graph.name)
    parts, counts = _parts(graph, names)
    size = HEADER.size + len(parts) + len(names.data)
    fixed = (graph.arena_bytes, graph.params_bytes, graph.num_kernels, len(graph.tensors), len(graph.steps))
    kept = _INPUTS_KEPT if graph.inputs_kept else 0
    header = HEADER.pack(
        MAGIC,
        VERSION,
        HEADER.size,
        size,
        crc,
        *fixed,
        len(graph.params),
        *counts,
        len(names.data),
        len(graph.inputs),
        len(graph.outputs),
        kept,
        0,
        0,
        graph_id,
        graph.code_id,
        graph.archive_sha256,
    )
    return header + parts + names.data


def _parts(graph: GraphBlob, names: _Names) -> tuple[bytes, tuple[int, int, int]]:
    """All parts but the names; counts of extents, arguments and workspaces."""
    extents: dict[tuple[int, ...], int] = {}
    flat: list[int] = []
    for tensor in graph.tensors:
        if tensor.shape not in extents:
            extents[tensor.shape] = len(flat)
            flat += tensor.shape
    named = [*graph.inputs, *graph.outputs, *graph.params]
    args = [a for step in graph.steps for a in step.args]
    slots = [s for step in graph.steps for s in step.slots]
    parts = [
        *(_EXTENT.pack(extent) for extent in flat),
        *(_pack_tensor(tensor, extents[tensor.shape]) for tensor in graph.tensors),
        *(_SLOT.pack(*slot) for slot in slots),
        *(_STEP.pack(step.kernel, len(step.args), len(step.slots), 0) for step in graph.steps),
        *(_NAMED.pack(item.tensor, 0, names.add(item.name)) for item in named),
        *(_ARG.pack(arg) for arg in args),
    ]
    return b"".join(parts), (len(flat), len(args), len(slots))


def _pack_tensor(tensor: BlobTensor, first_extent: int) -> bytes:
    dtype = tensor.dtype
    kind = (int(tensor.in_params), len(tensor.shape), dtype.code, dtype.bits, dtype.lanes, 0)
    return _TENSOR.pack(tensor.offset, tensor.size_bytes, first_extent, *kind)


# ---- reading ----------------------------------------------------------------------------------


def read_graph_blob(data: bytes, where: str = "") -> GraphBlob:
    """Decode a graph blob; bytes after it are ignored.

    Raises:
        InputError: it is cut off, of another kind or version, damaged, or breaks a rule.
    """
    return _Reader(data, where).read()


class _Reader:
    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        self.at = HEADER.size

    def fault(self, what: str) -> InputError:
        return InputError(f"the graph blob {what}", where=self.where)

    def read(self) -> GraphBlob:
        if len(self.data) < HEADER.size:
            raise self.fault("is cut off")
        head = HEADER.unpack_from(self.data)
        magic, version, header, size, crc, arena, params, kernels, num_tensors, num_steps = head[:10]
        num_params, num_extents, num_args, num_slots, names_bytes, num_in, num_out, flags = head[10:18]
        zeros, graph_id, code_id, archive = head[18:20], *head[20:]
        if (magic, version, header) != (MAGIC, VERSION, HEADER.size):
            raise self.fault("is no blob of a version that is known")
        if not HEADER.size <= size <= len(self.data):
            raise self.fault("is cut off")
        self.data = self.data[:size]
        if zlib.crc32(self.data[:_CRC_AT] + bytes(4) + self.data[_CRC_AT + 4 :]) != crc:
            raise self.fault("is damaged")
        if any(zeros) or flags & ~_INPUTS_KEPT:
            raise self.fault("has fields that are not known")
        extents = [e for (e,) in self.take(_EXTENT, num_extents)]
        tensors = tuple(self.tensor(row, extents, arena, params) for row in self.take(_TENSOR, num_tensors))
        slots = [self.slot(row, arena) for row in self.take(_SLOT, num_slots)]
        steps = list(self.take(_STEP, num_steps))
        named = list(self.take(_NAMED, num_in + num_out + num_params))
        args = [self.index(a, num_tensors) for (a,) in self.take(_ARG, num_args)]
        names = self.data[self.at :]
        if len(names) != names_bytes or names[-1:] != b"\0":
            raise self.fault("does not end with its names")
        items = [self.name(row, num_tensors, names) for row in named]
        graph = GraphBlob(
            name=_text(names, 0),
            tensors=tensors,
            steps=self.steps(steps, args, slots, kernels),
            inputs=tuple(items[:num_in]),
            outputs=tuple(items[num_in : num_in + num_out]),
            params=tuple(items[num_in + num_out :]),
            arena_bytes=arena,
            params_bytes=params,
            num_kernels=kernels,
            inputs_kept=bool(flags & _INPUTS_KEPT),
            code_id=code_id,
            archive_sha256=archive,
        )
        if any(tensors[item.tensor].in_params for item in graph.inputs):
            raise self.fault("has an input among the parameters")
        if graph.pack() != self.data or graph.graph_id != graph_id:
            raise self.fault("is not written as it must be")
        return graph

    def take(self, layout: struct.Struct, count: int) -> Iterable[tuple[Any, ...]]:
        if count > (len(self.data) - self.at) // layout.size:
            raise self.fault("is shorter than its header says")
        start, self.at = self.at, self.at + count * layout.size
        return layout.iter_unpack(self.data[start : self.at])

    def index(self, index: int, limit: int) -> int:
        if index >= limit:
            raise self.fault(f"names tensor {index} of {limit}")
        return index

    def inside(self, offset: int, size: int, limit: int) -> None:
        if offset % ALIGNMENT or offset > limit or size > limit - offset:
            raise self.fault(f"has {size} bytes at {offset} of {limit}")

    def tensor(self, row: tuple[Any, ...], extents: list[int], arena: int, params: int) -> BlobTensor:
        offset, size, first, place, ndim, code, bits, lanes, zero = row
        if place > 1 or zero or first > len(extents) or ndim > len(extents) - first:
            raise self.fault("has a tensor that breaks a rule")
        shape = tuple(extents[first : first + ndim])
        if any(not 0 <= extent <= _U32 for extent in shape):
            raise self.fault(f"has a tensor of shape {shape}")
        dtype = DType(code=code, bits=bits, lanes=lanes)
        tensor = BlobTensor(dtype=dtype, shape=shape, offset=offset, in_params=place == 1)
        if tensor.size_bytes != size:
            raise self.fault(f"has a tensor of {size} bytes for {shape} {dtype}")
        self.inside(offset, size, params if place else arena)
        return tensor

    def slot(self, row: tuple[Any, ...], arena: int) -> tuple[int, int]:
        offset, size = row
        self.inside(offset, size, arena)
        return offset, size

    def name(self, row: tuple[Any, ...], num_tensors: int, names: bytes) -> BlobName:
        tensor, zero, at = row
        if zero or at >= len(names):
            raise self.fault("has a name that breaks a rule")
        return BlobName(tensor=self.index(tensor, num_tensors), name=_text(names, at))

    def steps(
        self, rows: list[tuple[Any, ...]], args: list[int], slots: list[tuple[int, int]], kernels: int
    ) -> tuple[BlobStep, ...]:
        steps = []
        for kernel, num_args, num_slots, zero in rows:
            if zero or kernel >= kernels or num_args > len(args) or num_slots > len(slots):
                raise self.fault("has a step that breaks a rule")
            steps.append(BlobStep(kernel=kernel, args=tuple(args[:num_args]), slots=tuple(slots[:num_slots])))
            del args[:num_args], slots[:num_slots]
        if args or slots:
            raise self.fault("has arguments or workspaces that belong to no step")
        return tuple(steps)


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")
