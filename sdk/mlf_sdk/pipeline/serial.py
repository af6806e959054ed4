# SPDX-License-Identifier: Apache-2.0
"""Boards on serial ports: list, query and monitor them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.arguments import Source
from mlf_sdk.pipeline.options import MonitorOptions
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.triage import FaultWatch, find_firmware
from mlf_sdk.targets.boards.load import find_board, load_boards
from mlf_sdk.targets.choice import TargetChoice
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.serial.ports import Port, list_serial_ports
from mlf_sdk.targets.serial.session import open_chosen_port
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.frames import Deframer

_LARGEST_PAYLOAD = 16384
_READ_SIZE = 4096
_LISTEN_S = 0.2  # after which text without an end of line is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPort:
    """A port, and the boards whose USB ids it has."""

    port: Port
    boards: tuple[str, ...]


def ports(board: str | None = None, board_file: Source | None = None) -> list[SeenPort]:
    """List the serial ports of this machine; with a board, only those that it may be at."""
    extra = Path(board_file) if board_file else None
    rows = [find_board(board, extra)] if board else list(load_boards(extra).values())
    seen = []
    for port in list_serial_ports():
        names = tuple(row.name for row in rows if port.usb_id and port.usb_id in row.flasher.usb_ids)
        if names or board is None:
            seen.append(SeenPort(port=port, boards=names))
    return seen


def monitor(request: Request, own: MonitorOptions, on_text: Callable[[str], None]) -> int:
    """Hand over the text that a device prints; messages of the protocol are passed over.

    Args:
        request: names the port; its board gives the rate.
        own: duration, and the image that explains faults.
        on_text: called with each piece of text.

    Returns:
        Characters that were handed over.

    Raises:
        TargetError: the port can't be used, or vanishes.
    """
    row = resolve_target(stages.target_choice(request.replace(port=None))).board if request.board else None
    watch = FaultWatch(find_firmware(own.elf)) if own.elf is not None else None
    timeout_s, count = own.seconds, 0

    def take(text: str) -> None:
        nonlocal count
        count += len(text)
        on_text(text)
        if watch is not None:
            on_text(watch.feed(text))

    transport = open_chosen_port(TargetChoice(port=request.port, baud=request.baud), row)
    deframer = Deframer(_LARGEST_PAYLOAD, take)
    deadline = Deadline(at=float("inf")) if timeout_s is None else Deadline.after(timeout_s, time.monotonic)
    try:
        while not deadline.expired:
            data = transport.read(_READ_SIZE, deadline.within(_LISTEN_S))
            deframer.feed(data)
            if not data or data.endswith(b"\n"):
                deframer.flush()
    finally:
        deframer.flush()
        transport.close()
    return count
