# SPDX-License-Identifier: Apache-2.0
"""A client of a GDB stub, for tests that stop a machine at its writes and set its memory."""

from __future__ import annotations

import socket
import time

# QEMU's stub takes packets of 4,096 bytes, hexadecimal.
_PIECE_BYTES = 1024
_CONNECT_S = 10.0


class GdbRemote:
    """One connection; the machine is stopped when it begins.

    Args:
        port: of the stub, on this machine.
    """

    def __init__(self, port: int) -> None:
        until = time.monotonic() + _CONNECT_S
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._watched: list[str] = []
        self.ask("QStartNoAckMode")
        self._socket.sendall(b"+")

    def close(self) -> None:
        self._socket.close()

    def _send(self, text: str) -> None:
        self._socket.sendall(b"$%b#%02x" % (text.encode(), sum(text.encode()) & 0xFF))

    def _reply(self) -> str:
        while True:
            start = self._received.find(b"$")
            end = self._received.find(b"#", start)
            if 0 <= start < end and len(self._received) >= end + 3:
                reply, self._received = self._received[start + 1 : end], self._received[end + 3 :]
                return reply.decode()
            more = self._socket.recv(65536)
            if not more:
                raise EOFError("the stub has ended the connection")
            self._received += more

    def ask(self, text: str) -> str:
        """The reply to a packet."""
        self._socket.settimeout(_CONNECT_S)
        self._send(text)
        return self._reply()

    def do(self, text: str) -> None:
        """A packet whose reply must be OK."""
        reply = self.ask(text)
        if reply != "OK":
            raise RuntimeError(f"{text}: the stub says {reply!r}")

    def read(self, address: int, size: int) -> bytes:
        data = b""
        for start in range(0, size, _PIECE_BYTES):
            data += bytes.fromhex(self.ask(f"m{address + start:x},{min(_PIECE_BYTES, size - start):x}"))
        return data

    def write(self, address: int, data: bytes) -> None:
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            self.do(f"M{address + start:x},{len(piece):x}:{piece.hex()}")

    def watch(self, address: int, size: int) -> None:
        """Stop the machine before each write to this range; `step_over` carries it out."""
        self._watched.append(f"2,{address:x},{size:x}")
        self.do(f"Z{self._watched[-1]}")

    def step_over(self) -> None:
        """Carry out the instruction that a watched write has stopped."""
        for text in self._watched:
            self.do(f"z{text}")
        self.ask("s")
        for text in self._watched:
            self.do(f"Z{text}")

    def unwatch(self) -> None:
        """End all watches."""
        for text in self._watched:
            self.do(f"z{text}")
        self._watched.clear()

    def resume(self) -> None:
        self._send("c")

    def stopped(self, timeout_s: float) -> bool:
        """The machine has stopped within this time."""
        self._socket.settimeout(timeout_s)
        try:
            self._reply()
        except TimeoutError:
            return False
        return True

    def interrupt(self) -> None:
        self._socket.settimeout(_CONNECT_S)
        self._socket.sendall(b"\x03")
        self._reply()

    def reset(self) -> None:
        """Reset the machine, which stays stopped."""
        self.ask("qRcmd," + b"system_reset".hex())
