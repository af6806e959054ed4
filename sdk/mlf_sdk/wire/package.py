# SPDX-License-Identifier: Apache-2.0
"""Signed packages to a device (``crt/PACKAGES.md``)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from mlf_sdk.codegen.packagefile import HEAD_BYTES, Package
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.tools.signing import KEY_ID_BYTES
from mlf_sdk.wire.codes import DeviceError, Status
from mlf_sdk.wire.difference import Base, pieces
from mlf_sdk.wire.params import BlobStatus, DeviceParams, ParamsError
from mlf_sdk.wire.protocol import MessageError
from mlf_sdk.wire.transport import Deadline

_INFO = struct.Struct("<IIIIII8sB")
_CASE_BYTES = 2


class PackageOpcode(IntEnum):
    """Requests of the extension."""

    PACKAGE_INFO = 0x46
    PACKAGE_BEGIN = 0x47
    PACKAGE_WRITE = 0x48
    PACKAGE_COMMIT = 0x49
    PACKAGE_COPY = 0x4A


class PackageStatus(IntEnum):
    """Status codes of packages, in addition to those of parameters."""

    FORMAT = -80
    KEY = -81
    REVOKED = -82
    SIGNATURE = -83
    FIRMWARE = -84
    MODEL = -85
    ARENA = -86
    OLD = -87
    ROOM = -88
    HASH = -89
    CASE = -90


PACKAGE_STATUS_TEXT = {
    PackageStatus.FORMAT: "this is no package of a version that the device knows, or its sizes disagree",
    PackageStatus.KEY: "the key that signed it is not trusted",
    PackageStatus.REVOKED: "the key that signed it is revoked, or it drops a revocation that is in force",
    PackageStatus.SIGNATURE: "the signature is wrong",
    PackageStatus.FIRMWARE: "it is for a firmware with other kernels",
    PackageStatus.MODEL: "it is for another model",
    PackageStatus.ARENA: "it needs a larger arena than the firmware has",
    PackageStatus.OLD: "it is not newer than what is in force",
    PackageStatus.ROOM: "it is larger than the device's slots",
    PackageStatus.HASH: "its content is not what was signed",
    PackageStatus.CASE: "a self-test case failed on the device",
}


# Refusals of content, which say that what was copied is not what the host took it for.
_OTHER_CONTENT = (
    PackageStatus.HASH,
    BlobStatus.CRC,
    BlobStatus.FORMAT,
    BlobStatus.SIZE,
    BlobStatus.MISMATCH,
)


class PackageError(TargetError):
    """The device refused a package; the model that was in force still is.

    Attributes:
        status: what it answered.
        failed_case: index of the self-test case that failed; None: none has, or the device did not say.
    """

    def __init__(self, status: int, *, where: str = "", failed_case: int | None = None) -> None:
        self.status = PackageStatus(status)
        self.failed_case = failed_case
        what = f"the device refused the package ({self.status.name}): {PACKAGE_STATUS_TEXT[self.status]}"
        if failed_case is not None:
            what += f": case {failed_case} (counted from 0)"
        super().__init__(what, where=where, hint="The model that was in force still is.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInfo:
    """Versions of a device, and a transfer that can go on; sizes in bytes.

    Attributes:
        version: in force.
        image_version: of the parameters in the image.
        room_bytes: largest head and cases together.
        total, received: of the transfer; 0: there is none.
        signature: the first bytes of that of the package under way.
        keys: ids of the trusted keys.
    """

    version: int
    image_version: int
    room_bytes: int
    program_bytes: int
    total: int
    received: int
    signature: bytes
    keys: tuple[bytes, ...]

    @classmethod
    def unpack(cls, body: bytes, where: str) -> PackageInfo:
        """Decode the reply to PACKAGE_INFO and PACKAGE_COMMIT.

        Raises:
            MessageError: it is of another size than it says.
        """
        if len(body) < _INFO.size or len(body) != _INFO.size + body[_INFO.size - 1] * KEY_ID_BYTES:
            raise MessageError("the reply about packages has a wrong size", where=where)
        *fields, _ = _INFO.unpack_from(body)
        keys = range(_INFO.size, len(body), KEY_ID_BYTES)
        names = ("version", "image_version", "room_bytes", "program_bytes", "total", "received", "signature")
        return cls(
            **dict(zip(names, fields, strict=True)), keys=tuple(body[at : at + KEY_ID_BYTES] for at in keys)
        )


class DevicePackages(DeviceParams):
    """Packages for one model of a device, over a session after its ``hello``.

    Every method may raise what a session's methods raise, PackageError, and ParamsError.

    Attributes:
        sent_bytes: bodies of all requests so far, without frames.
    """

    sent_bytes = 0

    REQUESTS: ClassVar[tuple[IntEnum, IntEnum, IntEnum]] = (
        PackageOpcode.PACKAGE_BEGIN,
        PackageOpcode.PACKAGE_WRITE,
        PackageOpcode.PACKAGE_COMMIT,
    )

    def package_info(self) -> PackageInfo:
        """Return versions, trusted keys, and how far a transfer is.

        Raises:
            InputError: the firmware takes no packages.
        """
        try:
            return PackageInfo.unpack(self._call(PackageOpcode.PACKAGE_INFO), self.where)
        except DeviceError as error:
            if error.status not in (Status.OPCODE, Status.MODEL):
                raise
            raise InputError(
                "this firmware takes no packages",
                where=self.where,
                hint="Generate its project with --executor graph --trust KEYS, then build and flash it.",
            ) from error

    def push_package(
        self,
        package: Package,
        progress: Callable[[int, int], None] | None = None,
        bases: Sequence[Base] = (),
    ) -> PackageInfo:
        """Send a package, from where an earlier transfer of it was cut; the device verifies and tries it.

        Args:
            progress: called with the bytes that are written, and all of them.
            bases: versions that the device may have: what is the same there is copied by it.

        Raises:
            InputError: the firmware takes no packages.
            PackageError: the device refused it.
            TargetError: the old model is in force, unless the error says that the new one may be.
        """
        info = self.package_info()
        known = self._known(bases, info)
        goes_on = info.total == len(package.data) and info.signature == package.signature[:KEY_ID_BYTES]
        start = info.received if goes_on and info.received >= HEAD_BYTES else 0
        try:
            if known:
                self._write_difference(package.data, known, info.program_bytes, progress, start)
            else:
                self._write(package.data, info.program_bytes, progress, start=start, stop=HEAD_BYTES)
            after = PackageInfo.unpack(self._commit(), self.where)
        except (PackageError, ParamsError) as error:
            is_other = error.status in _OTHER_CONTENT and (known or start)
            is_smaller = error.status == BlobStatus.RANGE and known
            if not (is_other or is_smaller):
                raise
            return self.push_package(package, progress)  # not what it was thought to have: the rest, or all
        if after.version != package.manifest.version:
            raise TargetError(
                f"the device says version {after.version} after an update to {package.manifest.version}",
                where=self.where,
            )
        return after

    def _known(self, bases: Sequence[Base], info: PackageInfo) -> bytes:
        """Bytes that the device has of the first base that it has at all."""
        crc = self.info().header_crc if bases else 0
        return next(filter(None, (b.known_to(header_crc=crc, version=info.version) for b in bases)), b"")

    def _write_difference(
        self,
        data: bytes,
        known: bytes,
        unit: int,
        progress: Callable[[int, int], None] | None,
        start: int,
    ) -> None:
        """Send the head and what ``known`` does not have; the device copies the rest."""
        if not start:
            self._call(PackageOpcode.PACKAGE_BEGIN, struct.pack("<I", len(data)))
            self._write(data[:HEAD_BYTES], unit, None, start=0, stop=HEAD_BYTES, begins=False)
        for at, size, is_copied in pieces(data[HEAD_BYTES:], known, unit):
            offset, end = HEAD_BYTES + at, HEAD_BYTES + at + size
            if end <= start:
                continue
            first = max(offset, start)
            if is_copied:
                self._call(
                    PackageOpcode.PACKAGE_COPY,
                    struct.pack("<III", first, end - first, first - HEAD_BYTES),
                )
            else:
                self._write(data[:end], unit, None, start=first, begins=False)
            if progress is not None:
                progress(end, len(data))

    def _call(self, opcode: IntEnum, body: bytes = b"", deadline: Deadline | None = None) -> bytes:
        self.sent_bytes += len(self._index) + len(body)
        try:
            return super()._call(opcode, body, deadline)
        except DeviceError as error:
            if error.status in PACKAGE_STATUS_TEXT:
                is_case = error.status == PackageStatus.CASE and len(error.body) == _CASE_BYTES
                failed = int.from_bytes(error.body, "little") if is_case else None
                raise PackageError(error.status, where=self.where, failed_case=failed) from error
            raise
