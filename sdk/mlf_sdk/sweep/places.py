# SPDX-License-Identifier: Apache-2.0
"""Boards that one cell at a time holds: places of labgrid, targets of its environments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mlf_sdk.errors import MlfError
from mlf_sdk.targets.labgrid import PREFIX, CoordinatorLostError
from mlf_sdk.targets.labgridplaces import acquired, marked_places, release, tagged_places
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import Ability, TargetChoice
from mlf_sdk.tools.locks import exclusive

__all__ = ["HOLD_S", "CoordinatorLostError", "board_fault", "held", "release_abandoned", "tagged_places"]

HOLD_S = 600.0  # for another sweep, or another person, to release the board


@contextmanager
def held(place: str, timeout_s: float = HOLD_S) -> Iterator[None]:
    """Hold a board alone as long as the block lasts; released whatever happens.

    Raises:
        ToolError: another process of this user has held it for ``timeout_s``.
        TargetError: it can't be acquired.
        CoordinatorLostError: no coordinator answers.
    """
    with exclusive(f"board {place}", timeout_s), acquired(place, timeout_s):
        yield


def release_abandoned() -> int:
    """Release places whose holders on this machine were killed; returns their number."""
    released = 0
    for name in marked_places():
        with suppress(MlfError), exclusive(f"board {PREFIX}{name}", 0.0):
            release(name)
            released += 1
    return released


def board_fault(place: str) -> str:
    """Switch a board's power off and on; the reason why that fails, empty if it works.

    A board without a power switch is only looked for.

    Raises:
        CoordinatorLostError: no coordinator answers, which says nothing of the board.
    """
    try:
        target = resolve_target(TargetChoice(board=place))
        if Ability.RESET in target.abilities:
            target.reset()
    except CoordinatorLostError:
        raise
    except MlfError as error:
        return error.what.splitlines()[0]
    return ""
