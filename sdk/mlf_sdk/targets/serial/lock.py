# SPDX-License-Identifier: Apache-2.0
"""Exclusive lock of a serial port: one process of the machine at a time, identified to the others.

A lock is a name in the kernel's table of abstract Unix sockets: users share it without a folder that all of
them may write to, and the kernel removes it with its process.
"""

from __future__ import annotations

import errno
import hashlib
import ipaddress
import os
import shlex
import socket
import stat
import struct
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

from mlf_sdk.errors import ToolError
from mlf_sdk.tools.checks import printable
from mlf_sdk.wire.codes import PortBusyError

_LOCAL = "this machine"
_CREDENTIALS = struct.Struct("iII")  # process, user, group
_MOST_QUESTIONS = 4096  # connections of processes that asked who holds the lock; none is ever accepted


def lock_port(name: str) -> ExitStack:
    """Lock a port for this session, against other processes of any user of the machine.

    The lock is held until the stack is closed, or the process ends.

    Args:
        name: path or URL of the port; all spellings of one device or address are the same port.

    Raises:
        PortBusyError: another process, or another session of this one, has the port.
        ToolError: the lock can't be made.
    """
    with ExitStack() as held:
        for key in sorted(port_keys(name)):
            held.enter_context(_hold(key, name))
        return held.pop_all()


def port_keys(name: str) -> set[str]:
    """Return what identifies a port: its device number, or each address and TCP port that its URL names."""
    if "://" in name:
        return _address_keys(name)
    real = Path(os.path.realpath(name))
    with suppress(OSError):
        status = real.stat()
        if stat.S_ISCHR(status.st_mode):
            return {f"device {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"}
    return {f"path {real}"}


def _address_keys(url: str) -> set[str]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    try:
        result = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # opening it will name the fault
        return {f"tcp {host.lower()} {port}"}
    return {f"tcp {_machine(family, address)} {port}" for family, _, _, _, address in result}


def _machine(family: int, address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> str:
    """Return the address of a machine; all addresses of this one are the same."""
    ip = ipaddress.ip_address(str(address[0]).partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_loopback or ip.is_unspecified:
        return _LOCAL
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.bind((address[0], 0, *address[2:]))  # only an address of this machine can be bound
        return _LOCAL
    return str(ip)


def _hold(key: str, port: str) -> socket.socket:
    name = b"\0mlf-sdk/port/" + hashlib.sha256(key.encode()).hexdigest().encode()
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        held.bind(name)
        held.listen(_MOST_QUESTIONS)
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusyError(port, _holder(name)) from None
        raise ToolError(f"the port can't be locked: {error.strerror}", where=port) from error
    return held


def _holder(name: bytes) -> str:
    """Describe the process that holds a lock."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(name)
            result = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid = _CREDENTIALS.unpack(result)[0]
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:  # it has just ended
            return "another process"
    command = shlex.join(word.decode(errors="replace") for word in words)
    return f"process {pid} ({printable(command)})"
