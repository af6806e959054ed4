# SPDX-License-Identifier: Apache-2.0
"""Registers of a board's CPU through its probe: its GDB server is asked by GDB's remote protocol."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from mlf_sdk.errors import MlfError
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.debugserver import free_port, server_argv, wait_for_server
from mlf_sdk.targets.flashers.load import load_runners
from mlf_sdk.tools.isas import IsaMonitor
from mlf_sdk.tools.process import start_process

_SERVER_S: Final = 10.0
_REPLY_S: Final = 5.0
_PACKET: Final = re.compile(rb"\$(?![ST])([^#]*)#[0-9a-fA-F]{2}")
_INCLUDE: Final = re.compile(r'<xi:include\s+href="([^"]+)"')
_REGISTER: Final = re.compile(r"<reg\s([^>]*)>")
_FIELD: Final = re.compile(r'(\w+)="([^"]*)"')
_MOST_FILES: Final = 16
_MOST_DESCRIPTION: Final = 1 << 20
_VALUE: Final = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class ProbeReading:
    """Registers of a board's CPU, as its probe read them.

    Attributes:
        title: of the probe's server; empty: the board's row names no probe that has one.
        registers: by their names in fault reports.
        fault: why there are none; empty: there are, or there is no server.
    """

    title: str = ""
    registers: Mapping[str, int] = field(default_factory=dict)
    fault: str = ""


def probe_registers(board: Board) -> ProbeReading:
    """Read the CPU of a board through the probe that its row names; it is halted for that and goes on."""
    row = load_runners().get(board.flasher.runner)
    if row is None or row.server is None:
        return ProbeReading()
    port = free_port()
    try:
        argv = server_argv(row, board.flasher.options, port, board.name)
        with start_process(argv) as process:
            wait_for_server(process, port, _SERVER_S)
            registers = read_registers(port, cross_isa(board).monitor)
    except MlfError as error:
        return ProbeReading(title=row.title, fault=error.what)
    except OSError as error:
        return ProbeReading(title=row.title, fault=str(error))
    return ProbeReading(row.title, registers, "" if registers else "its server knows no register of the CPU")


def read_registers(port: int, names: IsaMonitor) -> dict[str, int]:
    """Registers of the target of a GDB server on this machine; those that it does not know are left out.

    Args:
        port: TCP port of the server, which halts its target when a debugger connects.
        names: numbers of registers, and addresses of registers of the system.

    Raises:
        OSError: the server does not answer.
    """
    with GdbRemote(port) as remote:
        block = remote.ask("g")  # all general registers, 8 digits each
        registers = {name: _word(block[8 * number :][:8]) for name, number in names.numbers.items()}
        for name in [name for name, value in registers.items() if value is None]:
            registers[name] = _word(remote.ask(f"p{names.numbers[name]:x}"))
        if lacking := [name for name, value in registers.items() if value is None]:
            described = remote.register_numbers()
            for name in set(lacking) & described.keys():
                registers[name] = _word(remote.ask(f"p{described[name]:x}"))
        words = {name: _word(remote.ask(f"m{address:x},4")) for name, address in names.words.items()}
        remote.ask("D")
    return {name: value for name, value in (registers | words).items() if value is not None}


def _word(reply: str) -> int | None:
    """Number of 32 bits, least significant byte first; None: it could not be read."""
    return int.from_bytes(bytes.fromhex(reply), "little") if _VALUE.fullmatch(reply) else None


class GdbRemote:
    """Connection to a GDB server: a packet is ``$data#sum``, acknowledged with ``+``."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_REPLY_S)
        self._received = b""

    def __enter__(self) -> GdbRemote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, data: str) -> str:
        """Reply to a packet; empty: the server does not know it. Reports of stops before it are skipped.

        Raises:
            OSError: no reply in time, or the connection ended.
        """
        self._socket.sendall(f"${data}#{sum(data.encode()) % 256:02x}".encode())
        end = time.monotonic() + _REPLY_S
        while (packet := _PACKET.search(self._received)) is None:
            piece = self._socket.recv(4096)
            if not piece or time.monotonic() > end:
                raise TimeoutError("the GDB server does not answer")
            self._received += piece
        self._received = self._received[packet.end() :]
        self._socket.sendall(b"+")
        return packet[1].decode("ascii", "replace")

    def register_numbers(self) -> dict[str, int]:
        """Numbers of registers by name, from the server's description of its target; empty: it has none.

        Raises:
            OSError: as of `ask`.
        """
        result: dict[str, int] = {}
        files, number = ["target.xml"], 0
        for file in files:
            text = self._description(file)
            files += [name for name in _INCLUDE.findall(text) if len(files) < _MOST_FILES]
            for register in _REGISTER.findall(text):
                fields = dict(_FIELD.findall(register))
                number = int(stated) if (stated := fields.get("regnum", "")).isdecimal() else number
                result.setdefault(fields.get("name", ""), number)
                number += 1
        return result

    def _description(self, file: str) -> str:
        text = ""
        while len(text) < _MOST_DESCRIPTION:
            reply = self.ask(f"qXfer:features:read:{file}:{len(text):x},7c0")
            text += reply[1:] if reply[:1] in ("m", "l") else ""
            if reply[:1] != "m" or len(reply) == 1:
                break
        return text
