# SPDX-License-Identifier: Apache-2.0
"""The piece that has a device verify a signature may take longer than others."""

from __future__ import annotations

import struct
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, cast

from mlf_sdk.codegen.packagefile import HEAD_BYTES
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.package import DevicePackages, PackageOpcode
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline


class StubSession:
    """Takes every request, and notes the seconds that each piece may take, by its end."""

    def __init__(self, max_payload: int) -> None:
        self.timeouts = Timeouts()
        self.info = SimpleNamespace(max_payload=max_payload)
        self.seconds: dict[int, float] = {}

    def model(self, _: object) -> Any:
        return SimpleNamespace(index=0, label="m")

    def extension(self, opcode: IntEnum, body: bytes, *, where: str, deadline: Deadline) -> bytes:
        if opcode is PackageOpcode.PACKAGE_WRITE:
            (offset,) = struct.unpack_from("<I", body, 1)
            self.seconds[offset + len(body) - 5] = deadline.remaining()
        return b""


def test_the_end_of_a_head_has_the_time_of_a_transfer() -> None:
    for max_payload in (128, 512):
        session = StubSession(max_payload)
        DevicePackages(cast(Session, session), 0)._write(bytes(HEAD_BYTES + 1024), 4, None, stop=HEAD_BYTES)
        ends = session.seconds
        assert max(ends) == HEAD_BYTES + 1024
        assert {end for end, seconds in ends.items() if seconds > 10} == {HEAD_BYTES}
        assert max(seconds for end, seconds in ends.items() if end != HEAD_BYTES) <= 4
