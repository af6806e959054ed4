# SPDX-License-Identifier: Apache-2.0
"""Serial ports of this machine, with the boards that they may be."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.pipeline.arguments import Source
from mlf_sdk.targets.boards.load import find_board, load_boards
from mlf_sdk.targets.serial.ports import Port, list_serial_ports


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPort:
    """A port, and the boards whose USB ids it has."""

    port: Port
    boards: tuple[str, ...]


def ports(board: str | None = None, board_file: Source | None = None) -> list[SeenPort]:
    """List the serial ports of this machine; with a board, only those that it may be at."""
    rows = [find_board(board, board_file)] if board else list(load_boards(board_file).values())
    seen = []
    for port in list_serial_ports():
        names = tuple(row.name for row in rows if port.usb_id and port.usb_id in row.flasher.usb_ids)
        if names or board is None:
            seen.append(SeenPort(port=port, boards=names))
    return seen
