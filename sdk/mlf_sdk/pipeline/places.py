# SPDX-License-Identifier: Apache-2.0
"""What ``--board`` and ``--port`` mean together: a place of labgrid is a board and its port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlf_sdk.errors import InputError
from mlf_sdk.targets.labgrid import is_place, open_place
from mlf_sdk.targets.serial.session import PortChoice

__all__ = ["is_place", "located"]


@contextmanager
def located(board: str | None, port: PortChoice | None) -> Iterator[tuple[str | None, PortChoice | None]]:
    """The board's name and port; ``labgrid:PLACE`` is held, and restarted where its power can be switched.

    Raises:
        InputError: a place and a port were given, or the place lacks something.
        TargetError: the place can't be used.
    """
    if board is None or not is_place(board):
        yield board, port
        return
    if port is not None:
        raise InputError("a place of labgrid has its port", where="--port", hint="Leave out --port.")
    with open_place(board) as place:
        if place.cycle_power is not None:
            place.cycle_power()
        yield place.board, PortChoice(spec=place.port, baud=place.baud)
