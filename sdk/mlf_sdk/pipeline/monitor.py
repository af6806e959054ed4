# SPDX-License-Identifier: Apache-2.0
"""Console of a board on a port: its text as it comes, typed lines to it, through resets and unplugging."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.options import MonitorOptions
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.triage import FaultWatch, find_firmware
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.serial.session import open_chosen_port, start_baud
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.checks import console_text
from mlf_sdk.wire.codes import PortError, PortVanishedError
from mlf_sdk.wire.frames import Deframer
from mlf_sdk.wire.transport import Deadline, RatedTransport, Transport

_LARGEST_PAYLOAD = 16384
_READ_SIZE = 4096
_LISTEN_S = 0.05  # between looks at what was typed
_QUIET_S = 0.2  # no frame has a pause that long: what has come is text
_REOPEN_S = 0.2
_WRITE_S = 5.0
_LEAST_BAD = 32  # bytes before a wrong rate is suspected
_MOST_BAD_SHARE = 0.25  # of text with some bytes that are none; at a wrong rate it is more
_RATES = (9600, 19200, 38400, 57600, 115_200, 230_400, 460_800, 921_600, 1_000_000)
_COLOURS = re.compile(rb"(\x1b\[[0-9;]*m)")
_NO_COLOUR = b"\x1b[0m"
_ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}

Show = Callable[[bytes], None]
Note = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Terminal:
    """Output for the text of a board, and input for typed lines.

    Attributes:
        show: called with UTF-8 text of the board, or all of its bytes in the raw view.
        note: called with a message about the line.
        colours: colours of the board are passed on.
        typed: file descriptor of typed lines; None: nothing is typed.
        now: returns the time to put in front of a line.
    """

    show: Show
    note: Note
    colours: bool = False
    typed: int | None = None
    now: Callable[[], str] = field(default=lambda: time.strftime("%H:%M:%S"))


def monitor(request: Request, own: MonitorOptions, terminal: Terminal) -> None:
    """Show what a device prints, and send it what is typed; messages of the protocol are passed over.

    A port that vanishes is waited for, and opened again.

    Args:
        request: names the port; its board gives the rate.
        own: duration, view, and the image that explains faults.
        terminal: the two ends on the person's side.

    Raises:
        TargetError: the port can't be used when it is opened first.
    """
    row = stages.board_of(request) if request.board else None
    watch = FaultWatch(find_firmware(own.elf)) if own.elf is not None else None
    choice = TargetChoice(port=request.port, baud=request.baud)
    deadline = Deadline(at=float("inf")) if own.seconds is None else Deadline.after(own.seconds)
    view = _View(own, terminal, watch)
    transport: Transport | None = open_chosen_port(choice, row)
    try:
        while transport is not None:
            connection = _Connection(transport, view, own, row, start_baud(choice, row))
            if connection.lasts_until(deadline):
                return
            terminal.note(f"{request.port}: the port has vanished; waiting for it")
            transport = _reopened(choice, row, deadline)
            if transport is not None:
                terminal.note(f"{request.port}: the port is back")
    finally:
        if terminal.colours:
            terminal.show(_NO_COLOUR)


def _reopened(choice: TargetChoice, row: Board | None, deadline: Deadline) -> Transport | None:
    """Return the port once it is there again; None: the deadline came first."""
    while not deadline.expired:
        with suppress(PortError):
            return open_chosen_port(choice, row)
        time.sleep(min(_REOPEN_S, deadline.remaining()))
    return None


class _View:
    """Text of a board as it is shown: escaped, with times, colours and explained faults."""

    def __init__(self, own: MonitorOptions, terminal: Terminal, watch: FaultWatch | None) -> None:
        self._own = own
        self.terminal = terminal
        self._watch = watch
        self._at_line_start = True

    def take(self, data: bytes) -> None:
        """Show console output."""
        text = console_text(data)
        shown = _with_colours(data) if self.terminal.colours else text.encode()
        explained = self._watch.feed(text) if self._watch is not None else ""
        self.terminal.show(self._stamped(shown) if self._own.timestamps else shown)
        if explained:
            self.terminal.show(explained.encode())

    def _stamped(self, data: bytes) -> bytes:
        out = b""
        for line in data.splitlines(keepends=True):
            stamp = f"[{self.terminal.now()}] ".encode() if self._at_line_start else b""
            out += stamp + line
            self._at_line_start = line.endswith(b"\n")
        return out


def _with_colours(data: bytes) -> bytes:
    """Return console output escaped but for its colours."""
    parts = _COLOURS.split(data)
    return b"".join(part if at % 2 else console_text(part).encode() for at, part in enumerate(parts))


class _Connection:
    """One opening of the port."""

    def __init__(
        self, transport: Transport, view: _View, own: MonitorOptions, row: Board | None, baud: int
    ) -> None:
        self._transport = transport
        self._view = view
        self._own = own
        self._row = row
        self._baud = baud if isinstance(transport, RatedTransport) else 0
        self._deframer = Deframer(_LARGEST_PAYLOAD, view.take)
        self._suspected = False

    def lasts_until(self, deadline: Deadline) -> bool:
        """Carry text both ways until the deadline; False: the port vanished before."""
        quiet_from = time.monotonic() + _QUIET_S
        try:
            while not deadline.expired:
                data = self._transport.read(_READ_SIZE, deadline.within(_LISTEN_S))
                if data:
                    quiet_from = time.monotonic() + _QUIET_S
                self._hear(data, quiet=time.monotonic() >= quiet_from)
                self._send_typed()
        except PortVanishedError:
            return False
        finally:
            self._deframer.flush(quiet=True)
            self._transport.close()
        return True

    def _hear(self, data: bytes, *, quiet: bool) -> None:
        if self._own.raw:
            self._view.terminal.show(data)
            return
        self._deframer.feed(data)
        if quiet or data.endswith(b"\n"):
            self._deframer.flush(quiet=quiet)
        good, bad = self._deframer.good, self._deframer.bad
        if self._baud and not self._suspected and bad >= _LEAST_BAD and bad > _MOST_BAD_SHARE * (good + bad):
            self._suspected = True
            self._view.terminal.note(self._wrong_rate())

    def _wrong_rate(self) -> str:
        uart = self._row.uart if self._row is not None else None
        known = [uart.baud, uart.max_baud] if uart is not None else []
        rates = [rate for rate in dict.fromkeys([*known, *_RATES]) if rate and rate != self._baud]
        return (
            f"much of what the board sends is no text at {self._baud} baud; if it runs at another rate, try "
            f"--baud {', '.join(map(str, rates))}"
        )

    def _send_typed(self) -> None:
        typed = self._view.terminal.typed
        if typed is None or not select.select([typed], [], [], 0)[0]:
            return
        lines = os.read(typed, _READ_SIZE)
        if not lines:
            self._view.terminal.typed = None
            return
        self._transport.write(lines.replace(b"\n", _ENDS[self._own.line_end]), Deadline.after(_WRITE_S))
