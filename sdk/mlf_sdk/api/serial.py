# SPDX-License-Identifier: Apache-2.0
"""Boards on ports: which there are, what they hold, what they say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.api.project import PathLike, load, project_board
from mlf_sdk.api.run import run
from mlf_sdk.platforms.boards import Board, find_board, load_boards
from mlf_sdk.project.lock import read_lock
from mlf_sdk.project.writer import LOCK_NAME
from mlf_sdk.rpc.deadline import Deadline
from mlf_sdk.rpc.frames import Deframer
from mlf_sdk.rpc.ports import Port, list_serial_ports, resolve_port
from mlf_sdk.rpc.portsession import PortChoice, port_session
from mlf_sdk.rpc.serialport import open_port
from mlf_sdk.rpc.target import DeviceInfo, ModelInfo
from mlf_sdk.verify.check import CheckReport

_LARGEST_PAYLOAD = 16384
_READ_SIZE = 4096
_LISTEN_S = 0.2  # after which text without an end of line is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPort:
    """A port, and the boards whose USB ids it has."""

    port: Port
    boards: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A model that a board should hold."""

    name: str
    archive_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a device holds, against what it should hold.

    Attributes:
        found: for each expected model the device's, in the same order; None: it does not hold it.
        sdk_version: that made the project; None: not compared.
    """

    port: str
    device: DeviceInfo
    expected: tuple[Expected, ...]
    found: tuple[ModelInfo | None, ...]
    sdk_version: str | None

    @property
    def ok(self) -> bool:
        """Whether the device holds all of it, made by the same SDK."""
        return all(self.found) and self.sdk_version in (None, self.device.sdk_version)


def ports(board: str | None = None, board_file: PathLike | None = None) -> list[SeenPort]:
    """List the serial ports of this machine; with a board, only those that it may be at."""
    extra = Path(board_file) if board_file else None
    rows = [find_board(board, extra)] if board else list(load_boards(extra).values())
    seen = []
    for port in list_serial_ports():
        names = tuple(row.name for row in rows if port.usb_id and port.usb_id in row.flasher.usb_ids)
        if names or board is None:
            seen.append(SeenPort(port=port, boards=names))
    return seen


def verify_device(
    target: PathLike,
    port: PortChoice,
    *,
    board: str | None = None,
    module: str | None = None,
    timeout_s: float = 30.0,
) -> Verification:
    """Ask the device on a port whether it holds the model of an archive, or those of a project.

    Raises:
        InputError: bad archive, project or arguments.
        TargetError: the port can't be used, or no device answers.
    """
    path = Path(target)
    row: Board | None = find_board(board) if board else None
    version: str | None = None
    if (path / LOCK_NAME).is_file():
        lock = read_lock(path)
        row = row or project_board(path, lock)
        version = lock.sdk_version
        expected = tuple(Expected(name=m.name, archive_sha256=m.archive_sha256) for m in lock.models)
    else:
        model = load(path, module=module)
        expected = (Expected(name=model.name, archive_sha256=model.archive_sha256),)
    with port_session(port, board=row, timeout_s=timeout_s) as session:
        device = session.hello(Deadline.after(timeout_s))
    found = tuple(
        next((m for m in device.models if m.archive_sha256 == e.archive_sha256), None) for e in expected
    )
    return Verification(port=port.spec, device=device, expected=expected, found=found, sdk_version=version)


def check_device(folder: PathLike, port: PortChoice, *, timeout_s: float = 120.0) -> CheckReport:
    """Compare an image with its promises, with the memory measured on the board that runs it.

    Raises:
        InputError: no project there.
        TargetError: the board does not answer, or runs another image.
    """
    return run(folder, port=port, timeout_s=timeout_s, twin=False).check


def monitor(
    port: PortChoice,
    on_text: Callable[[str], None],
    *,
    board: str | None = None,
    timeout_s: float | None = None,
) -> int:
    """Hand over the text that a device prints; messages of the protocol are passed over.

    Args:
        port: which.
        on_text: called with each piece.
        board: for ``auto``, and for the rate.
        timeout_s: how long; None: until an exception ends it.

    Returns:
        Characters that were handed over.

    Raises:
        TargetError: the port can't be used, or vanishes.
    """
    row = find_board(board) if board else None
    count = 0

    def take(text: str) -> None:
        nonlocal count
        count += len(text)
        on_text(text)

    transport = open_port(resolve_port(port.spec, row), baud=port.start_baud(row))
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
