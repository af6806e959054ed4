# SPDX-License-Identifier: Apache-2.0
"""Devices behind ptys, and lines with two rates."""

from __future__ import annotations

import os
import pty
import select
import socket
import threading
import tty
from collections.abc import Callable

from mlf_sdk.testing.fake import FakeDevice
from mlf_sdk.wire.transport import Deadline, LoopbackTransport
from rpc_models import fake_device


class PtyDevice:
    """A device behind a pty: ``path`` is a serial port to everybody else.

    Args:
        feed: takes what the host sends, returns what the device answers; None: a fake device.
    """

    def __init__(self, feed: Callable[[bytes], bytes] | None = None) -> None:
        self.device = fake_device()
        self._feed = feed or self.device.feed
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        self.path = os.ttyname(slave)
        self._slave: int | None = slave  # held open: the master sees no hang-up between two hosts
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> PtyDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def say(self, data: bytes) -> None:
        """Have the device send something of its own."""
        os.write(self._master, data)

    def unplug(self) -> None:
        """The port is gone, as when a cable is pulled."""
        self._end()
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        self._end()
        for fd in (self._master, self._stop_read, self._stop_write):
            if fd >= 0:
                os.close(fd)

    def _end(self) -> None:
        if self._thread.is_alive():
            os.write(self._stop_write, b"x")
            self._thread.join(5)
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None

    def _serve(self) -> None:
        while True:
            ready = select.select([self._master, self._stop_read], [], [])[0]
            if self._stop_read in ready:
                return
            reply = self._feed(os.read(self._master, 4096))
            while reply:
                reply = reply[os.write(self._master, reply) :]


def heard(data: bytes, sent_baud: int, heard_baud: int) -> bytes:
    """Bytes on a line as a receiver takes them that samples each bit in its middle, at its own rate."""
    if sent_baud == heard_baud:
        return data
    levels = [1]
    for byte in data:
        levels += [0, *(byte >> bit & 1 for bit in range(8)), 1]
    levels += [1] * 12
    step = sent_baud / heard_baud
    out, at = bytearray(), 0.0
    while True:
        while at < len(levels) and levels[int(at)]:  # idle
            at += step / 16
        if at + 9.5 * step >= len(levels):
            return bytes(out)
        out.append(sum(levels[int(at + (bit + 1.5) * step)] << bit for bit in range(8)))
        at += 9.5 * step
        while at < len(levels) and not levels[int(at)]:  # no stop bit: the line must rise first
            at += step / 16


class TwoRates(LoopbackTransport):
    """A line whose ends each have a rate, and hear the other at it.

    Attributes:
        device_baud: what the device runs at; best: rates above give garbage even when they agree.
    """

    def __init__(self, clock: Callable[[float], None], *, best: int = 1_000_000_000, **options: int) -> None:
        self.device_baud = self.first = 115_200
        self._host_baud = 115_200
        self.best = best
        self.lose_next_reply = False
        self.device: FakeDevice = fake_device(baud=self._device_baud, **options)
        super().__init__(self._carry, idle=clock)

    @property
    def baud(self) -> int:
        return self._host_baud

    def set_baud(self, baud: int) -> None:
        self._host_baud = baud

    def write(self, data: bytes, deadline: Deadline) -> None:
        super().write(data, deadline)

    def reset(self) -> None:
        """Reset the device: it boots at its first rate."""
        self.device.reset()
        self.device.boot_nonce += 1
        self.device_baud = self.first

    def _device_baud(self, baud: int, change: bool) -> bool:
        if change:
            self.device_baud = baud or self.first
        return baud <= 3_000_000

    def _carry(self, data: bytes) -> bytes:
        before = self.device_baud
        sent = self.device.feed(self._through(data, self._host_baud, before))
        if self.lose_next_reply:
            self.lose_next_reply = False
            return b""
        return self._through(sent, before, self._host_baud)

    def _through(self, data: bytes, sent_baud: int, heard_baud: int) -> bytes:
        out = heard(data, sent_baud, heard_baud)
        return out if sent_baud <= self.best else bytes(byte & 0x5A for byte in out)


class SocketBridge:
    """Bytes between a connected socket and a pty: an emulator's console becomes a serial port."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        self._connection = connection
        self._pty = PtyDevice(self._send)
        self.path = self._pty.path
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; the socket is the caller's."""
        self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._pty.close()

    def _send(self, data: bytes) -> bytes:
        try:
            self._connection.sendall(data)
        except OSError:
            return b""
        return b""

    def _receive(self) -> None:
        while True:
            try:
                data = self._connection.recv(4096)
            except OSError:
                return
            if not data:
                return
            while data:
                data = data[os.write(self._pty._master, data) :]
