# SPDX-License-Identifier: Apache-2.0
"""Registers of a board's CPU through its probe: its GDB server is asked by GDB's remote protocol."""

from __future__ import annotations

import re
import socket
import time
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
_VALUE: Final = re.compile(r"[0-9a-f]{8}")


def probe_registers(board: Board) -> tuple[str, dict[str, int]]:
    """Read the CPU of a board through the probe that its row names; it is halted for that and goes on.

    Returns:
        Title of the probe's server, and registers by their names in fault reports; none: the row names no
        probe, its server is not installed, or it reaches no board.
    """
    row = load_runners().get(board.flasher.runner)
    if row is None or row.server is None:
        return "", {}
    port = free_port()
    try:
        argv = server_argv(row, board.flasher.options, port, board.name)
        with start_process(argv) as process:
            wait_for_server(process, port, _SERVER_S)
            return row.title, read_registers(port, cross_isa(board).monitor)
    except (MlfError, OSError):
        return row.title, {}


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
        registers = {
            name: _word(block[8 * number :][:8] or remote.ask(f"p{number:x}"))
            for name, number in names.numbers.items()
        }
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
