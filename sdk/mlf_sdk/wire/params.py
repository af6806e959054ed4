# SPDX-License-Identifier: Apache-2.0
"""Parameters of a device's models: description, reading, replacement (``crt/BLOBS.md``)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

import msgspec

from mlf_sdk.codegen.graphblob import GraphBlob, read_graph_blob
from mlf_sdk.codegen.paramsblob import HEADER, ParamsBlob, ParamsHeader, read_params_header
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.wire import protocol
from mlf_sdk.wire.codes import DeviceError, NoAnswerError, Status
from mlf_sdk.wire.protocol import Body
from mlf_sdk.wire.session import ModelKey, Session
from mlf_sdk.wire.transport import Deadline

_LEAST_WRITE_S = 60.0
_PIECE_S = 4.0  # for a long piece, erasing a sector of flash included
_LEAST_PIECE = 64


class ParamsOpcode(IntEnum):
    """Requests of the extension."""

    PARAMS_INFO = 0x40
    GRAPH_READ = 0x41
    PARAMS_READ = 0x42
    PARAMS_BEGIN = 0x43
    PARAMS_WRITE = 0x44
    PARAMS_COMMIT = 0x45


class BlobStatus(IntEnum):
    """Status codes of parameter replies, in addition to those of the protocol."""

    SIZE = -64
    FORMAT = -65
    CRC = -66
    LIMIT = -67
    INDEX = -68
    RANGE = -69
    KERNEL = -70
    MISMATCH = -71
    ALIGN = -72
    FLASH = -73
    STATE = -74
    GAP = -75


BLOB_STATUS_TEXT = {
    BlobStatus.SIZE: "the blob is shorter or longer than its header says",
    BlobStatus.FORMAT: "this is no blob of a version that the device knows",
    BlobStatus.CRC: "the parameters arrived damaged",
    BlobStatus.LIMIT: "the memory for it is too small",
    BlobStatus.INDEX: "the blob names something that it does not have",
    BlobStatus.RANGE: "the blob has something outside of its memory",
    BlobStatus.KERNEL: "the blob calls a kernel that the image does not have",
    BlobStatus.MISMATCH: "the parameters are laid out for another graph",
    BlobStatus.ALIGN: "the blob is not aligned",
    BlobStatus.FLASH: "the device's flash failed, or reads differently from what was written",
    BlobStatus.STATE: "no change of the parameters is under way",
    BlobStatus.GAP: "a piece of the parameters is missing",
}


class ParamsError(TargetError):
    """The device did not take new parameters; the old ones are in force.

    Attributes:
        status: what it answered.
    """

    def __init__(self, status: int, *, where: str = "") -> None:
        self.status = status
        said = BLOB_STATUS_TEXT[BlobStatus(status)]
        super().__init__(said, where=where, hint="The parameters that were in force still are.")


class ParamsInfo(Body, frozen=True):
    """Parameters in force: the reply to PARAMS_INFO and PARAMS_COMMIT; sizes in bytes."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBIIIIII")
    has_store: int
    slot: int
    generation: int
    blob_bytes: int
    header_crc: int
    graph_bytes: int
    room_bytes: int
    program_bytes: int

    @property
    def place(self) -> str:
        """Location of the parameters in force, for people."""
        return f"slot {self.slot}" if self.slot <= 1 else "image"


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """New parameters that the device has read back and put in force."""

    info: ParamsInfo
    header: ParamsHeader


class DeviceParams:
    """The parameters of one model of a device, over a session after its ``hello``.

    Every method may raise what a session's methods raise, and ParamsError.

    Attributes:
        REQUESTS: those that begin, write and commit a transfer.

    Args:
        session: with the device.
        model: index, name or description of the model.
    """

    REQUESTS: ClassVar[tuple[IntEnum, IntEnum, IntEnum]] = (
        ParamsOpcode.PARAMS_BEGIN,
        ParamsOpcode.PARAMS_WRITE,
        ParamsOpcode.PARAMS_COMMIT,
    )

    def __init__(self, session: Session, model: ModelKey) -> None:
        self._session = session
        self._model = session.model(model)
        self._index = bytes([self._model.index])
        self._most = session.info.max_payload - protocol.HEADER.size
        self._piece = self._most  # bytes at once; less on a bad line

    @property
    def model_name(self) -> str:
        """Name of the model."""
        return self._model.name

    @property
    def where(self) -> str:
        """Name of the model in error messages."""
        return f"parameters of {self._model.label}"

    def info(self) -> ParamsInfo:
        """Return a description of the parameters in force.

        Raises:
            InputError: the firmware has no dynamic executor.
        """
        try:
            return ParamsInfo.unpack(self._call(ParamsOpcode.PARAMS_INFO))
        except DeviceError as error:
            if error.status not in (Status.OPCODE, Status.MODEL):
                raise
            raise InputError(
                "the parameters of this firmware can't be replaced",
                where=self.where,
                hint="Generate its project with --executor graph, then build and flash it.",
            ) from error

    def graph(self, info: ParamsInfo) -> GraphBlob:
        """Return the graph that the device runs."""
        return read_graph_blob(self._read(ParamsOpcode.GRAPH_READ, info.graph_bytes), self.where)

    def header(self, info: ParamsInfo) -> ParamsHeader | None:
        """The header of the parameters in force; None where the graph has none."""
        if not info.blob_bytes:
            return None
        return read_params_header(self._read(ParamsOpcode.PARAMS_READ, HEADER.size), self.where)

    def push(self, blob: ParamsBlob, progress: Callable[[int, int], None] | None = None) -> Pushed:
        """Write new parameters, from the beginning, and put them in force.

        The device reads them back and checks them before they count; its answer is compared with
        what was sent.

        Args:
            blob: for the graph of the device.
            progress: called with the bytes that are written, and all of them.

        Raises:
            InputError: the device has no place for them.
            ParamsError: the device did not take them.
            TargetError: the old ones are in force, unless the error says that the new ones may be.
        """
        info = self.info()
        data = blob.pack()
        if not info.has_store:
            raise InputError("the device has no place for other parameters", where=self.where)
        if len(data) > info.room_bytes:
            raise InputError(f"{len(data):,} bytes do not fit {info.room_bytes:,}", where=self.where)
        try:
            self._write(data, info.program_bytes, progress)
        except DeviceError as error:
            if error.status != Status.OPCODE:
                raise
            hint = "Sign the parameters and send them: mlf-sdk package, mlf-sdk package push."
            raise InputError(
                "this firmware takes signed packages only", where=self.where, hint=hint
            ) from error
        after = ParamsInfo.unpack(self._commit())
        header = self.header(after)
        same = after.header_crc == blob.header_crc and after.blob_bytes == len(data)
        if header is None or not same or header.header_crc != after.header_crc:
            raise TargetError("the device reads back other parameters than were sent", where=self.where)
        return Pushed(info=after, header=header)

    def _commit(self) -> bytes:
        """Put what was written in force; an error that leaves it open says so."""
        try:
            return self._call(self.REQUESTS[2])
        except (ParamsError, DeviceError):
            raise
        except TargetError as error:
            error.what = f"the device did not confirm the new parameters, which may be in force: {error.what}"
            error.hint = f"Look which are: mlf-sdk params show. {error.hint}"
            raise

    def _write(
        self,
        data: bytes,
        unit: int,
        progress: Callable[[int, int], None] | None,
        *,
        start: int = 0,
        stop: int = 0,
        begins: bool = True,
    ) -> None:
        """Send ``data`` in pieces, none across ``stop``; above 0, ``start`` goes on with a transfer."""
        seconds = max(_LEAST_WRITE_S, self._session.timeouts.transfer_s)
        until = Deadline.after(seconds, self._session.timeouts.clock)
        if begins and not start:
            self._call(self.REQUESTS[0], struct.pack("<I", len(data)), until)
        room = self._most - len(self._index) - 4
        offset = start
        while offset < len(data):
            size = min(room, self._piece, stop - offset if offset < stop else room)
            piece = data[offset : offset + (size // unit * unit if 0 < unit <= size else size)]
            verifies = offset + len(piece) == stop  # which takes its time
            tries_until = until if verifies else self._try_until(until)
            if self._write_piece(offset, piece, until, tries_until):
                offset += len(piece)
                if progress is not None:
                    progress(offset, len(data))

    def _write_piece(self, offset: int, piece: bytes, until: Deadline, tries_until: Deadline) -> bool:
        """Write a piece; False: it was lost, and the next one is to be smaller."""
        body = struct.pack("<I", offset) + piece
        try:
            self._call(self.REQUESTS[1], body, tries_until)
        except NoAnswerError:
            self._shrink()
        else:
            return True
        try:  # an empty piece behind it shows whether it arrived, and only the reply was lost
            self._call(self.REQUESTS[1], struct.pack("<I", offset + len(piece)), until)
        except ParamsError as error:
            if error.status != BlobStatus.GAP:
                raise
            return False
        return True

    def _read(self, opcode: ParamsOpcode, size: int) -> bytes:
        until = Deadline.after(self._session.timeouts.transfer_s, self._session.timeouts.clock)
        data = b""
        while len(data) < size:
            count = min(self._most - protocol.STATUS_SIZE, self._piece, size - len(data))
            try:
                piece = self._call(opcode, struct.pack("<IH", len(data), count), self._try_until(until))
            except NoAnswerError:
                self._shrink()
                continue
            if len(piece) != count:
                raise TargetError(f"the device sent {len(piece)} bytes instead of {count}", where=self.where)
            data += piece
        return data

    def _try_until(self, until: Deadline) -> Deadline:
        """Deadline of one piece: shortened for a long piece, which a bad line may never let through."""
        return until if self._piece <= _LEAST_PIECE else until.within(_PIECE_S)

    def _shrink(self) -> None:
        """Take smaller pieces from now on.

        Raises:
            NoAnswerError: they are as small as they get.
        """
        if self._piece <= _LEAST_PIECE:
            raise NoAnswerError("the device does not answer any more", where=self.where)
        self._piece = max(_LEAST_PIECE, min(self._piece, self._most) // 4)

    def _call(self, opcode: IntEnum, body: bytes = b"", deadline: Deadline | None = None) -> bytes:
        try:
            return self._session.extension(opcode, self._index + body, where=self.where, deadline=deadline)
        except DeviceError as error:
            if error.status in BLOB_STATUS_TEXT:
                raise ParamsError(error.status, where=self.where) from error
            raise
