# SPDX-License-Identifier: Apache-2.0
"""MCUmgr's SMP as a byte stream (``crt/PROTOCOL.md``, "SMP"): ``smp:PORT``, ``smp:udp:HOST[:PORT]``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, TypeVar

from mlf_sdk.errors import InputError, TargetError, ToolError
from mlf_sdk.targets.serial.lock import lock_port
from mlf_sdk.targets.serial.ports import SMP
from mlf_sdk.targets.serial.stream import DEFAULT_BAUD, open_port
from mlf_sdk.wire.codes import PortMissingError, PortVanishedError
from mlf_sdk.wire.transport import Deadline

try:
    from pydantic import ValidationError
    from smp.exceptions import SMPException
    from smp.header import Header
    from smp.os_management import MCUMgrParametersReadRequest, MCUMgrParametersReadResponse
    from smpclient.transport import SMPTransport, SMPTransportDisconnected
    from smpclient.transport.serial import SMPSerialTransport
    from smpclient.transport.udp import SMPUDPTransport
except ImportError as error:
    raise ToolError(
        "SMP needs the Python package smpclient, which is not installed",
        where="--port smp:...",
        hint="Install it: pip install 'mlf-sdk[smp]'.",
    ) from error

from mlf_sdk.targets.serial.smpmessages import Exchange, response_of

_UDP = "udp:"
_UDP_PORT = 1337
_CONNECT_S = 5.0
_RESPONSE_S = 2.0  # longer than the server of crt/zephyr/smp.c waits for a model
_PARAMETERS_S, _PARAMETERS_TRIES = 0.5, 3
_OVERHEAD_BYTES = 16  # of a request: its header, and the map around the data
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.005, 0.05  # between two questions of what there is

T = TypeVar("T")


def open_smp(
    address: str, *, baud: int = DEFAULT_BAUD, lock: Callable[[str], ExitStack] = lock_port
) -> SmpStream:
    """Connect to an SMP server, whose line is for this process alone.

    Args:
        address: path of a serial device, or ``udp:HOST[:PORT]``.
        baud: bits a second of a line.
        lock: takes the lock of a line.

    Raises:
        InputError: this names no server.
        PortMissingError, PortBusyError, PortError: it can't be reached.
    """
    name = f"{SMP}{address}"
    if address.startswith(_UDP):
        host, colon, port = address.removeprefix(_UDP).rpartition(":")
        host, port = (host, port) if colon else (port, str(_UDP_PORT))
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise InputError("host and port are missing", where=name, hint="Write it as smp:udp:HOST[:PORT].")
        udp = SMPUDPTransport()
        return SmpStream(udp, name, ExitStack(), udp.connect(host, _CONNECT_S, int(port)))
    if "://" in address:
        raise InputError(
            "SMP is carried by serial devices and UDP only",
            where=name,
            hint="Give smp:PATH of a serial device, or smp:udp:HOST[:PORT].",
        )
    open_port(address, baud=baud, lock=lock).close()  # says what is wrong with it
    held = lock(address)
    line = SMPSerialTransport(baudrate=baud, exclusive=True)
    return SmpStream(line, name, held, line.connect(address, _CONNECT_S))


class SmpStream:
    """A stream of bytes that requests of one SMP command carry in both directions.

    A request or a response that is lost takes its bytes with it: who reads must notice, as on a bad line.

    Args:
        smp: the client's side of SMP's transport, which belongs to the stream from now on.
        name: what to call it in messages.
        held: the lock of its line.
        connecting: connects ``smp``.
    """

    def __init__(
        self, smp: SMPTransport, name: str, held: ExitStack, connecting: Coroutine[Any, Any, None]
    ) -> None:
        self.name = name
        self._smp = smp
        self._held = held
        self._received = bytearray()
        self._pause_s = _LEAST_PAUSE_S
        self._loop: asyncio.AbstractEventLoop | None = asyncio.new_event_loop()
        try:
            self._wait(connecting)
            self._wait(self._learn_sizes())
        except (OSError, TimeoutError) as error:
            self.close()
            raise PortMissingError(f"no connection: {error}", where=name) from error
        except BaseException:
            self.close()
            raise

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """See Transport."""
        while not self._received:
            self._exchange(b"", deadline)
            if self._received:
                self._pause_s = _LEAST_PAUSE_S
            elif deadline.expired:
                return b""
            else:
                time.sleep(min(self._pause_s, deadline.remaining()))
                self._pause_s = min(2 * self._pause_s, _MOST_PAUSE_S)
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        return data

    def write(self, data: bytes, deadline: Deadline) -> None:
        """See Transport."""
        most = max(1, self._smp.max_unencoded_size - Header.SIZE - _OVERHEAD_BYTES)
        while data:
            taken = self._exchange(data[:most], deadline)
            if taken == 0 and deadline.expired:
                raise TargetError("the device does not take what is sent to it", where=self.name)
            data = data[taken:]
        self._pause_s = _LEAST_PAUSE_S

    def close(self) -> None:
        """See Transport."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.run_until_complete(self._smp.disconnect())
            except (OSError, AttributeError):
                pass  # it was never connected
            finally:
                loop.close()
                self._held.close()

    def _wait(self, job: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            job.close()
            raise TargetError("the connection was closed here", where=self.name)
        try:
            return self._loop.run_until_complete(job)
        except (SMPTransportDisconnected, ConnectionError) as error:
            raise PortVanishedError(self.name) from error

    def _exchange(self, data: bytes, deadline: Deadline) -> int:
        """Bytes of ``data`` that the device has taken; all of them where its answer is lost."""
        return self._wait(self._ask(data, min(_RESPONSE_S, deadline.remaining())))

    async def _ask(self, data: bytes, most_s: float) -> int:
        request = Exchange(d=data)
        taken = len(data)
        try:
            await asyncio.wait_for(self._smp.send(request.BYTES), _RESPONSE_S)
            end = time.monotonic() + most_s
            while True:
                frame = await asyncio.wait_for(self._smp.receive(), max(0.0, end - time.monotonic()))
                try:
                    response = response_of(frame, self.name)
                except (SMPException, ValidationError, ValueError):
                    continue  # damaged, or an answer to somebody else
                self._received += response.d
                if response.header.sequence == request.header.sequence:
                    taken = response.n
                    break
        except (TimeoutError, asyncio.TimeoutError):
            pass
        if isinstance(self._smp, SMPSerialTransport):  # what the device prints beside it
            self._received += await self._smp.read_serial()
        return taken

    async def _learn_sizes(self) -> None:
        """Ask for the size of the server's buffers; one that does not answer gets short requests."""
        for _ in range(_PARAMETERS_TRIES):  # it may be booting
            request = MCUMgrParametersReadRequest()
            try:
                await asyncio.wait_for(self._smp.send(request.BYTES), _PARAMETERS_S)
                frame = await asyncio.wait_for(self._smp.receive(), _PARAMETERS_S)
                self._smp.initialize(MCUMgrParametersReadResponse.loads(frame).buf_size)
                return
            except (TimeoutError, asyncio.TimeoutError, SMPException, ValidationError, ValueError):
                continue
