# SPDX-License-Identifier: Apache-2.0
"""Byte streams to a device, and deadlines: a transport moves bytes until one, and knows nothing of frames."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from mlf_sdk.errors import TargetError

_MAX_POLL_S = 3600.0


class Transport(Protocol):
    """A byte stream in both directions."""

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """Return 1 to ``max_bytes`` bytes as soon as there are any, or none when the deadline comes.

        Raises:
            TargetError: the other end closed the stream.
        """

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send all of ``data``.

        Raises:
            TargetError: the deadline came first, or the other end closed the stream.
        """

    def close(self) -> None:
        """Give the stream back; closing twice is harmless."""


@runtime_checkable
class RatedTransport(Transport, Protocol):
    """A transport that runs at a rate, which can be changed."""

    @property
    def baud(self) -> int:
        """Bits a second; a byte takes ten."""

    def set_baud(self, baud: int) -> None:
        """Send the buffered data, then run at ``baud``.

        Raises:
            TargetError: the port can't.
        """


def _wait(fd: int, event: int, deadline: Deadline) -> bool:
    """Wait until a file descriptor is ready; return False when the deadline comes first."""
    poller = select.poll()
    poller.register(fd, event)
    while True:
        if poller.poll(min(deadline.remaining(), _MAX_POLL_S) * 1000.0):
            return True
        if deadline.expired:
            return False


class PipeTransport:
    """Two file descriptors, such as the standard output and input of a process.

    Args:
        read_fd: what the device sends arrives here.
        write_fd: what is written here goes to the device; may equal ``read_fd`` (a pty).
        name: what to call it in messages.

    The descriptors become non-blocking, and belong to the transport: ``close`` closes them.
    """

    def __init__(self, read_fd: int, write_fd: int, *, name: str = "pipe") -> None:
        self.name = name
        self._fds: tuple[int, int] | None = (read_fd, write_fd)
        for fd in {read_fd, write_fd}:
            os.set_blocking(fd, False)

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """See Transport."""
        fd = self._open()[0]
        while _wait(fd, select.POLLIN, deadline):
            try:
                data = os.read(fd, max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._gone() from error
            if not data:
                raise self._gone()
            return data
        return b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        """See Transport."""
        fd = self._open()[1]
        left = memoryview(data)
        while left:
            if not _wait(fd, select.POLLOUT, deadline):
                raise TargetError("the device does not take what is sent to it", where=self.name)
            try:
                left = left[os.write(fd, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._gone() from error

    def close(self) -> None:
        """See Transport."""
        fds, self._fds = self._fds, None
        for fd in set(fds or ()):
            os.close(fd)

    def _open(self) -> tuple[int, int]:
        if self._fds is None:
            raise TargetError("the connection was closed here", where=self.name)
        return self._fds

    def _gone(self) -> TargetError:
        return TargetError("the other end closed the connection", where=self.name)


class SocketTransport(PipeTransport):
    """A connected Unix or TCP socket, which the transport owns from now on."""

    def __init__(self, connection: socket.socket, *, name: str = "socket") -> None:
        fd = connection.detach()
        super().__init__(fd, fd, name=name)


class LoopbackTransport:
    """A device in this process.

    Args:
        device: takes what is sent and returns what the device answers at once.
        idle: called with the seconds until the deadline when there is nothing to read, since
            nothing can arrive then; tests give one that moves a clock instead of sleeping.
    """

    def __init__(
        self, device: Callable[[bytes], bytes], *, idle: Callable[[float], None] = time.sleep
    ) -> None:
        self._device = device
        self._idle = idle
        self._incoming = bytearray()
        self._closed = False

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """See Transport."""
        self._check()
        if not self._incoming:
            self._idle(deadline.remaining())
        data = bytes(self._incoming[:max_bytes])
        del self._incoming[:max_bytes]
        return data

    def write(self, data: bytes, deadline: Deadline) -> None:
        """See Transport."""
        self._check()
        if deadline.expired:
            raise TargetError("the deadline came before the request was sent", where="loopback")
        self._incoming += self._device(data)

    def close(self) -> None:
        """See Transport."""
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise TargetError("the connection was closed here", where="loopback")


Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment on a monotonic clock.

    Attributes:
        at: the moment, in seconds of ``clock``.
        clock: returns the seconds now.
    """

    at: float
    clock: Clock = field(default=time.monotonic, repr=False, compare=False)

    @classmethod
    def after(cls, seconds: float, clock: Clock = time.monotonic) -> Deadline:
        """Return the deadline ``seconds`` from now."""
        return cls(at=clock() + seconds, clock=clock)

    def remaining(self) -> float:
        """Return the seconds left, never below 0."""
        return max(0.0, self.at - self.clock())

    @property
    def expired(self) -> bool:
        """Return True when the moment has come."""
        return self.clock() >= self.at

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and the one ``seconds`` from now."""
        return Deadline(at=min(self.at, self.clock() + seconds), clock=self.clock)
