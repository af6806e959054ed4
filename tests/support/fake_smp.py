# SPDX-License-Identifier: Apache-2.0
"""An SMP server in this process: messages decoded by hand and cbor2, lines by the package smp."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable

import cbor2
from smp import packet

HEADER = struct.Struct(">BBHHBB")  # operation and version, flags, length, group, sequence, command
OS_GROUP, PARAMETERS = 0, 6
GROUP, EXCHANGE = 19788, 0
WRITE = 2


class FakeSmp:
    """A server whose group carries the bytes of a device.

    Args:
        feed: takes what the host sends, returns what the device answers.
        takes, gives: the most bytes that a request may bring, and a response take along.
        lost: numbers of the responses that do not arrive, counted from 0.
        answers_late: responses without data before those with it.
        rc: it refuses every request of the group with this.
        knows_sizes: it answers the question about its buffers.
    """

    BUFFER_BYTES = 256

    def __init__(
        self,
        feed: Callable[[bytes], bytes],
        *,
        takes: int = 1 << 16,
        gives: int = 1 << 16,
        lost: Iterable[int] = (),
        answers_late: int = 0,
        rc: int = 0,
        knows_sizes: bool = True,
    ) -> None:
        self._feed = feed
        self._takes, self._gives = takes, gives
        self._lost = frozenset(lost)
        self._late = self._left = answers_late
        self._rc = rc
        self._knows_sizes = knows_sizes
        self._replies = b""
        self._line = b""
        self._decoder = packet.decode()
        next(self._decoder)
        self.requests: list[int] = []  # sizes of messages of the group

    def message(self, frame: bytes) -> bytes:
        """The response to a request; empty: there is none."""
        kind, _, length, group, sequence, command = HEADER.unpack_from(frame)
        body = cbor2.loads(frame[HEADER.size :])
        assert length == len(frame) - HEADER.size
        if (group, command) == (OS_GROUP, PARAMETERS):
            known = {"buf_size": self.BUFFER_BYTES, "buf_count": 4}
            return self._response(kind, group, sequence, command, known) if self._knows_sizes else b""
        assert (group, command, kind & 7) == (GROUP, EXCHANGE, WRITE)
        assert set(body) == {"d"}
        self.requests.append(len(frame))
        if self._rc:
            return self._response(kind, group, sequence, command, {"rc": self._rc})
        taken = body["d"][: self._takes]
        if taken:
            self._left = self._late
            self._replies += self._feed(taken)
        else:
            self._left = max(0, self._left - 1)
        size = 0 if self._left else self._gives
        data, self._replies = self._replies[:size], self._replies[size:]
        response = self._response(kind, group, sequence, command, {"n": len(taken), "d": data})
        return b"" if len(self.requests) - 1 in self._lost else response

    def line(self, data: bytes) -> bytes:
        """What a serial line brings back for what it brings."""
        *lines, self._line = (self._line + data).split(b"\n")
        answer = b""
        for one in lines:
            try:
                self._decoder.send(one + b"\n")
            except StopIteration as whole:
                response = self.message(whole.value)
                answer += b"".join(packet.encode(response, 128)) if response else b""
                self._decoder = packet.decode()
                next(self._decoder)
        return answer

    @staticmethod
    def _response(kind: int, group: int, sequence: int, command: int, body: dict[str, object]) -> bytes:
        data = cbor2.dumps(body)
        return HEADER.pack(kind + 1, 0, len(data), group, sequence, command) + data


class UdpServer:
    """The server behind a UDP port of this machine, ``port``."""

    def __init__(self, server: FakeSmp) -> None:
        self._server = server
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> UdpServer:
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            data, host = self._socket.recvfrom(4096)
            if not data:
                return
            response = self._server.message(data)
            if response:
                self._socket.sendto(response, host)
