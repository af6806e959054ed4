# SPDX-License-Identifier: Apache-2.0
"""Refusals after which a whole package is sent, and those that end a push: every status that a device may give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mlf_sdk.codegen.packagefile import HEAD_BYTES, Package
from mlf_sdk.wire.codes import DeviceError
from mlf_sdk.wire.difference import Base
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.package import _INFO, DevicePackages, PackageError, PackageOpcode, PackageStatus
from mlf_sdk.wire.params import BlobStatus, ParamsError, ParamsInfo

BODY = bytes(range(256))
CRC = 7
OTHER_CONTENT = {
    PackageStatus.HASH,
    BlobStatus.CRC,
    BlobStatus.FORMAT,
    BlobStatus.SIZE,
    BlobStatus.MISMATCH,
}
ALL = [*PackageStatus, *BlobStatus]


class RefusingSession:
    """A session with a device that refuses the first commit, or the first copy, by a status.

    Attributes:
        seen: opcodes of requests, in order.
    """

    def __init__(self, status: int, refused: PackageOpcode, received: int = 0) -> None:
        self.status, self.refused, self.received = status, refused, received
        self.seen: list[int] = []
        self.info = SimpleNamespace(max_payload=1024)
        self.timeouts = Timeouts()

    def model(self, _key: object) -> SimpleNamespace:
        return SimpleNamespace(index=0, name="m", label="m")

    def extension(self, opcode: PackageOpcode, _body: bytes, **_options: object) -> bytes:
        self.seen.append(opcode)
        if opcode is self.refused and self.seen.count(opcode) == 1:
            raise DeviceError(self.status, cast(Any, opcode))
        received = 0 if PackageOpcode.PACKAGE_COMMIT in self.seen else self.received
        total = HEAD_BYTES + len(BODY) if received else 0
        version = 6 if opcode == PackageOpcode.PACKAGE_COMMIT else 0
        return _INFO.pack(version, 0, 1000, 4, total, received, b"s" * 8, 0)


class Device(DevicePackages):
    """Packages of a device whose parameters are known by their check sum."""

    def info(self) -> ParamsInfo:
        return cast(ParamsInfo, SimpleNamespace(header_crc=CRC))


def push(session: RefusingSession, *, copies: bool) -> None:
    package = Package(
        manifest=cast(Any, SimpleNamespace(version=6)),
        signature=b"s" * 64,
        header=cast(Any, None),
        data=bytes(HEAD_BYTES) + BODY,
    )
    base = Base(version=0, header_crc=CRC, content=BODY, params_bytes=len(BODY))
    Device(cast(Any, session), 0).push_package(package, bases=[base] if copies else [])


@pytest.mark.parametrize("status", ALL, ids=lambda status: status.name)
@pytest.mark.parametrize("way", ["copied", "resumed", "whole"])
def test_a_refused_commit(status: int, way: str) -> None:
    """A whole transfer follows where the device had other bytes than were taken for granted, and only there."""
    received = HEAD_BYTES + 64 if way == "resumed" else 0
    session = RefusingSession(status, PackageOpcode.PACKAGE_COMMIT, received)
    is_sent_again = way != "whole" and (
        status in OTHER_CONTENT or (way == "copied" and status == BlobStatus.RANGE)
    )
    if is_sent_again:
        push(session, copies=way == "copied")
        again = session.seen[session.seen.index(PackageOpcode.PACKAGE_COMMIT) + 1 :]
        assert again[-1] == PackageOpcode.PACKAGE_COMMIT
        assert PackageOpcode.PACKAGE_BEGIN in again
        assert PackageOpcode.PACKAGE_COPY not in again
        return
    kind = PackageError if isinstance(status, PackageStatus) else ParamsError
    with pytest.raises(kind) as error:
        push(session, copies=way == "copied")
    assert cast(Any, error.value).status is status
    assert session.seen.count(PackageOpcode.PACKAGE_COMMIT) == 1


@pytest.mark.parametrize(
    "status", [BlobStatus.FORMAT, BlobStatus.SIZE, BlobStatus.MISMATCH, BlobStatus.RANGE]
)
def test_a_refused_copy(status: BlobStatus) -> None:
    session = RefusingSession(status, PackageOpcode.PACKAGE_COPY)
    push(session, copies=True)
    assert session.seen.count(PackageOpcode.PACKAGE_COPY) == 1
    assert session.seen[-1] == PackageOpcode.PACKAGE_COMMIT
