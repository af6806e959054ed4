# SPDX-License-Identifier: Apache-2.0
"""Ports as byte streams: serial devices and ptys, ``socket://host:port``, ``rfc2217://host:port``."""

from __future__ import annotations

import errno
import math
import os
import socket
import stat
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import serial

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.targets.serial.lock import lock_port
from mlf_sdk.wire.codes import PortBusyError, PortError, PortMissingError, PortVanishedError
from mlf_sdk.wire.transport import Deadline, PipeTransport, Transport

DEFAULT_BAUD = 115_200
CONNECT_TIMEOUT_S = 10.0
_MOST_BAUD = 100_000_000
_POLL_S = 0.05  # how often a port without a file descriptor is looked at
_SEE = "mlf-sdk ports lists what is there."
_GONE = (OSError, serial.SerialException, TypeError)  # TypeError: pyserial, of a port closed under it


def open_port(
    spec: str,
    *,
    baud: int = DEFAULT_BAUD,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    lock: Callable[[str], ExitStack] = lock_port,
) -> Transport:
    """Open a port for this process alone; closing the transport gives it back.

    Args:
        spec: path of a serial device or a pty, ``socket://host:port``, ``rfc2217://host:port``.
        baud: bits a second, 8 data bits, no parity, one stop bit; a socket has no rate.
        connect_timeout_s: for a connection over the network.
        lock: takes the lock of a port.

    Raises:
        InputError: this names no port.
        PortMissingError, PortBusyError, PortError: it can't be opened.
    """
    if not 1 <= baud <= _MOST_BAUD:
        raise InputError(f"{baud} is no rate of a line", where="--baud", hint="The usual one is 115200.")
    scheme = spec.split("://", 1)[0].lower() if "://" in spec else ""
    if scheme not in ("", "socket", "rfc2217"):
        raise InputError(
            f"'{scheme}://' is no kind of port",
            where=spec,
            hint="Give the path of a serial device, socket://HOST:PORT or rfc2217://HOST:PORT.",
        )
    if scheme:
        _host_and_port(spec)
    elif not spec:
        raise InputError("no port was given", where="--port", hint=_SEE)
    elif not Path(spec).exists():
        raise PortMissingError("there is no such port", where=spec, hint=_SEE)
    held = lock(spec)
    try:
        if scheme == "socket":
            return _LockedSocket(_connect(spec, connect_timeout_s), spec, held)
        if scheme == "rfc2217":
            return NetworkSerialTransport(_open_network(spec, baud, connect_timeout_s), spec, held)
        return SerialTransport(_open_device(spec, baud), spec, held)
    except BaseException:
        held.close()
        raise


# ---- opening ----


def _host_and_port(spec: str) -> tuple[str, int]:
    try:
        parts = urlsplit(spec)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InputError("host and port are missing", where=spec, hint="Write it as socket://HOST:PORT.")
    return host, port


def _connect(spec: str, timeout_s: float) -> socket.socket:
    try:
        connection = socket.create_connection(_host_and_port(spec), timeout=timeout_s)
    except OSError as error:
        said = error.strerror or str(error)
        raise PortMissingError(f"no connection: {said}", where=spec, hint="Is its server running?") from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _open_network(spec: str, baud: int, timeout_s: float) -> Any:  # noqa: ANN401 (pyserial has no types)
    separator = "&" if "?" in spec else "?"
    url = f"{spec}{separator}timeout={max(1, math.ceil(timeout_s))}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pyserial's own, of its threads
            return serial.serial_for_url(url, baudrate=baud)
    except (serial.SerialException, OSError, ValueError) as error:
        if "Could not open port" in str(error):
            raise PortMissingError(
                f"no connection: {error}", where=spec, hint="Is its server running?"
            ) from error
        raise PortError(f"the server of the port refuses: {error}", where=spec) from error


def _open_device(spec: str, baud: int) -> Any:  # noqa: ANN401
    try:
        if not stat.S_ISCHR(Path(spec).stat().st_mode):
            raise InputError("this is no serial port", where=spec, hint=_SEE)
        return serial.Serial(spec, baud, timeout=0, exclusive=True)
    except serial.SerialException as error:
        raise _refused(spec, error) from error
    except (OSError, ValueError, OverflowError) as error:
        raise PortError(f"the port can't be opened: {error}", where=spec) from error


def _refused(spec: str, error: serial.SerialException) -> Exception:
    number = error.errno
    if number is None and error.__context__ is not None and error.__context__.args:
        number = error.__context__.args[0]  # of termios
    if number in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        return PortMissingError("there is no such port", where=spec, hint=_SEE)
    if number in (errno.EBUSY, errno.EWOULDBLOCK) or "exclusively lock" in str(error):
        return PortBusyError(spec, "another program")
    if number in (errno.EACCES, errno.EPERM):
        return PortError(
            "you may not use the port",
            where=spec,
            hint="Join its group (sudo usermod -aG dialout $USER) and log in again.",
        )
    if number in (errno.ENOTTY, errno.EINVAL):
        return InputError("this is no serial port", where=spec, hint=_SEE)
    return PortError(f"the port can't be opened: {error}", where=spec)


# ---- transports ----


class SerialTransport(PipeTransport):
    """A serial device or a pty of this machine."""

    def __init__(self, port: Any, name: str, lock: ExitStack) -> None:  # noqa: ANN401
        self._port = port
        self._lock = lock
        super().__init__(port.fileno(), port.fileno(), name=name)

    @property
    def baud(self) -> int:
        """See RatedTransport."""
        return int(self._port.baudrate)

    def set_baud(self, baud: int) -> None:
        """See RatedTransport."""
        self._open()
        try:
            self._port.flush()
            self._port.baudrate = baud
        except (ValueError, OverflowError) as error:
            raise PortError(f"the port can't run at {baud} baud", where=self.name) from error
        except _GONE as error:
            raise self._gone() from error

    def close(self) -> None:
        """See Transport."""
        self._fds = None  # the port closes its own
        with suppress(*_GONE):
            self._port.close()
        self._lock.close()

    def _gone(self) -> TargetError:
        return PortVanishedError(self.name)


class NetworkSerialTransport:
    """A serial port of another machine, over RFC 2217."""

    def __init__(self, port: Any, name: str, lock: ExitStack) -> None:  # noqa: ANN401
        self.name = name
        self._port = port
        self._lock = lock
        self._closed = False

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """See Transport."""
        while True:
            port = self._open()
            try:
                port.timeout = min(deadline.remaining(), _POLL_S)
                data = port.read(1)
                if data:
                    data += port.read(min(port.in_waiting, max_bytes - 1))
                    return bytes(data)
            except _GONE as error:
                raise PortVanishedError(self.name) from error
            if deadline.expired:
                return b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        """See Transport."""
        port = self._open()
        if deadline.expired:
            raise TargetError("the device does not take what is sent to it", where=self.name)
        try:
            port.write(data)
        except _GONE as error:
            raise PortVanishedError(self.name) from error

    @property
    def baud(self) -> int:
        """See RatedTransport."""
        return int(self._port.baudrate)

    def set_baud(self, baud: int) -> None:
        """See RatedTransport."""
        port = self._open()
        try:
            port.baudrate = baud
        except ValueError as error:
            raise PortError(f"the port can't run at {baud} baud", where=self.name) from error
        except _GONE as error:
            raise PortVanishedError(self.name) from error

    def close(self) -> None:
        """See Transport."""
        if not self._closed:
            self._closed = True
            with suppress(*_GONE):
                self._port.close()
            self._lock.close()

    def _open(self) -> Any:  # noqa: ANN401
        if self._closed:
            raise TargetError("the connection was closed here", where=self.name)
        return self._port


class _LockedSocket(PipeTransport):
    """A connection to a port's server, which gives the lock back when it is closed."""

    def __init__(self, connection: socket.socket, name: str, lock: ExitStack) -> None:
        fd = os.dup(connection.fileno())
        self._connection = connection
        self._lock = lock
        super().__init__(fd, fd, name=name)

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """See Transport."""
        # A server that sends a byte at a time holds the next one back until the last is acknowledged
        # (RFC 896), which Linux delays by 40 ms unless it is asked anew before each wait.
        if hasattr(socket, "TCP_QUICKACK"):
            with suppress(OSError):  # closed: read says so
                self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return super().read(max_bytes, deadline)

    def close(self) -> None:
        """See Transport."""
        super().close()
        self._connection.close()
        self._lock.close()

    def _gone(self) -> TargetError:
        return PortVanishedError(self.name)
