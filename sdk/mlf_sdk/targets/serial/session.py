# SPDX-License-Identifier: Apache-2.0
"""A session with a board on a port: found, locked, opened, at a rate that both ends can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.serial.ports import resolve_port
from mlf_sdk.targets.serial.stream import DEFAULT_BAUD, open_port
from mlf_sdk.triage.explain import triage
from mlf_sdk.wire.link import DeviceFaultError, Timeouts
from mlf_sdk.wire.session import Session

Console = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortChoice:
    """Which port, and how fast.

    Attributes:
        spec: a path, a URL, ``auto`` or ``usb:VID:PID`` (see ``ports.resolve_port``).
        baud: rate that the device starts with; None: that of the board's row, else 115200.
        max_baud: the rate to raise it to when both ends can; None: that of the board's row; 0: it stays.
    """

    spec: str
    baud: int | None = None
    max_baud: int | None = None

    def start_baud(self, board: Board | None) -> int:
        """Return the rate to open the port with."""
        if self.baud is not None:
            return self.baud
        return board.uart.baud if board is not None and board.uart is not None else DEFAULT_BAUD

    def top_baud(self, board: Board | None) -> int:
        """Return the rate to raise it to; 0: it stays."""
        if self.max_baud is not None:
            return self.max_baud
        return (board.uart.max_baud or 0) if board is not None and board.uart is not None else 0


@contextmanager
def port_session(
    port: PortChoice | str,
    *,
    board: Board | None = None,
    timeout_s: float,
    elf: Path | None = None,
    console: Console | None = None,
) -> Iterator[Session]:
    """A session with the board on a port, before its hello.

    Args:
        port: which.
        board: for ``auto``, and for the rates.
        timeout_s: for a run.
        elf: the image on the board: tells where it faulted.
        console: called with each piece of text that the board prints.

    Raises:
        InputError: the port can't be told from what was given.
        PortError: it is missing, busy, or can't be opened.
    """
    choice = PortChoice(spec=port) if isinstance(port, str) else port
    device = resolve_port(choice.spec, board)
    transport = open_port(device, baud=choice.start_baud(board))
    timeouts = Timeouts(run_s=timeout_s, hello_s=min(timeout_s, Timeouts().hello_s))
    top_baud = choice.top_baud(board)
    with Session(transport, timeouts=timeouts, console=console, max_baud=top_baud) as session:
        try:
            yield session
        except DeviceFaultError as error:
            error.explain(triage(error.fault, elf, step_name=error.found.step_name))
            raise
