# SPDX-License-Identifier: Apache-2.0
"""A session with a board on a port: found, locked, opened, at a rate that both ends support."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.serial.ports import SMP, resolve_port
from mlf_sdk.targets.serial.stream import DEFAULT_BAUD, open_port
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.triage.explain import triage
from mlf_sdk.wire.codes import DeviceFaultError
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Transport

Console = Callable[[str], None]


def start_baud(choice: TargetChoice, board: Board | None) -> int:
    """Return the rate in bits/s to open a port with: chosen, that of the board's row, or 115200."""
    if choice.baud is not None:
        return choice.baud
    return board.uart.baud if board is not None and board.uart is not None else DEFAULT_BAUD


def top_baud(choice: TargetChoice, board: Board | None) -> int:
    """Return the rate in bits/s to raise a port to; 0: unchanged."""
    if choice.max_baud is not None:
        return choice.max_baud
    return (board.uart.max_baud or 0) if board is not None and board.uart is not None else 0


def open_chosen_port(choice: TargetChoice, board: Board | None = None) -> Transport:
    """Find, lock and open the port of a choice.

    Args:
        choice: its port and rate count.
        board: for ``auto``, and for the rate.

    Raises:
        InputError: no port was chosen, or it can't be found from what was given.
        PortError: it is missing, busy, or can't be opened.
    """
    if choice.port is None:
        raise InputError("no port was given", where="--port", hint="Name the board's port: --port PORT.")
    baud = start_baud(choice, board)
    if choice.port.startswith(SMP):
        from mlf_sdk.targets.serial.smp import open_smp  # needs smpclient

        return open_smp(resolve_port(choice.port.removeprefix(SMP), board), baud=baud)
    return open_port(resolve_port(choice.port, board), baud=baud)


@contextmanager
def port_session(
    choice: TargetChoice,
    *,
    board: Board | None = None,
    timeout_s: float,
    elf: Path | None = None,
    console: Console | None = None,
) -> Iterator[Session]:
    """Yield a session with the board on a port, before its hello.

    Args:
        choice: its port and rates count.
        board: for ``auto``, and for the rates.
        timeout_s: for a run, in seconds.
        elf: the image on the board: faults are explained by it.
        console: called with each piece of text that the board prints.

    Raises:
        InputError, PortError: see :func:`open_chosen_port`.
    """
    transport = open_chosen_port(choice, board)
    rate = top_baud(choice, board)
    with line_session(transport, timeout_s=timeout_s, elf=elf, console=console, max_baud=rate) as session:
        yield session


@contextmanager
def line_session(
    transport: Transport,
    *,
    timeout_s: float,
    elf: Path | None = None,
    console: Console | None = None,
    max_baud: int = 0,
) -> Iterator[Session]:
    """Yield a session over a line that is open, before its hello; arguments as in :func:`port_session`."""
    timeouts = Timeouts(run_s=timeout_s, hello_s=min(timeout_s, Timeouts().hello_s))
    with Session(transport, timeouts=timeouts, console=console, max_baud=max_baud) as session:
        try:
            yield session
        except DeviceFaultError as error:
            error.explain(triage(error.fault, elf, step_name=error.found.step_name))
            raise
