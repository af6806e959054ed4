# SPDX-License-Identifier: Apache-2.0
"""Registry of targets: classes by scheme and platform.

A new kind of connection is one class with a ``scheme``: :func:`register_target`, or an entry point of the
group ``mlf_sdk.targets``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.resources import imported
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.load import OWN_BOARD, find_board, load_board, load_boards, rows_of
from mlf_sdk.targets.target import ZEPHYR, BoardTarget, Target, TargetChoice

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from mlf_sdk.codegen.lock import Lock
    from mlf_sdk.targets.boards.row import Board

ENTRY_POINTS = "mlf_sdk.targets"

_PLATFORMS = {
    "baremetal": "targets.baremetal:BaremetalTarget",
    "host": "targets.host:HostTarget",
    "rtl": "targets.rtl.target:RtlTarget",
    ZEPHYR: "targets.zephyr.target:ZephyrTarget",
}
_SCHEMES: dict[str, type[Target] | str] = {"labgrid": "targets.labgrid:LabgridTarget"}
_SERIAL = "targets.serial.target:SerialTarget"

TargetClass = TypeVar("TargetClass", bound=type[Target])


def register_target(cls: TargetClass) -> TargetClass:
    """Register a class of targets under its ``scheme``; usable as a decorator."""
    if not cls.scheme:
        raise InputError("the class states no scheme", where=cls.__name__)
    _SCHEMES[cls.scheme] = cls
    return cls


def registered_targets() -> tuple[type[Target], ...]:
    """Classes that are registered in this process, for processes that are started from it."""
    return tuple(result for result in _SCHEMES.values() if not isinstance(result, str))


def target_schemes() -> tuple[str, ...]:
    """Return the schemes of all registered targets."""
    return tuple(sorted({*_SCHEMES, *(point.name for point in _entry_points())}))


def resolve_target(choice: TargetChoice) -> Target:
    """Return the target for a user's choice.

    Raises:
        InputError: unknown board, scheme, or platform, or a damaged board row.
    """
    file = Path(choice.board_file) if choice.board_file else None
    name = choice.board or (load_board(file).name if file else DEFAULT_BOARD)
    scheme, colon, rest = name.partition(":")
    if colon and scheme != ZEPHYR:
        return _registered(scheme).resolve(rest, choice)
    if colon:
        name, choice = rest, dataclasses.replace(choice, board=rest, platform=ZEPHYR)
    if choice.platform is None and file is None and _is_zephyrs_alone(name, choice):
        choice = dataclasses.replace(choice, board=name, platform=ZEPHYR)
    if choice.platform == ZEPHYR:
        target = _platform(ZEPHYR).of_board(name, file, choice)
    else:
        row = _board_row(name, file, choice)
        if choice.platform not in (None, row.platform):
            raise InputError(
                f"the board {name} is for the platform {row.platform}",
                where="--platform",
                hint=f"Leave it out, or choose {row.platform} or {ZEPHYR}.",
            )
        kind = row.platform if row.rtl is None else "rtl"
        target = _platform(kind).of_board(name, file, choice)
    if choice.port is None:
        return target
    return cast("Target", imported(_SERIAL)(target, choice))


def _board_row(name: str, file: Path | None, choice: TargetChoice) -> Board:
    """Return the row of a board.

    Raises:
        InputError: there is none; of a board that Zephyr knows, the hint says how to get its tree.
    """
    try:
        return find_board(name, file)
    except InputError as error:
        if _zephyr_chips(name):
            base = _zephyr_tree(choice)
            lacks = (
                f"the tree {base} has none of this name"
                if base
                else "there is no Zephyr tree on this machine"
            )
            error.what = f"'{name}' is a board of Zephyr, and {lacks}"
            error.hint = _NO_TREE.format(rows=rows_of(name, load_boards(file)))
        raise


_NO_TREE = (
    "Get one: west init ~/zephyrproject && cd ~/zephyrproject && west update (docs/howto-zephyr.md).\n"
    "On bare metal: {rows}--board-file FILE with a row of your own (docs/howto-board.md)."
)


def _zephyr_tree(choice: TargetChoice) -> Path | None:
    """Folder of the Zephyr tree of this machine; None: there is none that can be used."""
    from mlf_sdk.targets.zephyr.target import setup_of

    try:
        return setup_of(choice).tree().base
    except MlfError:
        return None


def _is_zephyrs_alone(name: str, choice: TargetChoice) -> bool:
    """Return True where no row has the name, and the Zephyr tree of this machine has a board of it."""
    if name in load_boards():
        return False
    from mlf_sdk.targets.zephyr.files import zephyr_has
    from mlf_sdk.targets.zephyr.target import setup_of

    return zephyr_has(name, setup_of(choice))


def _zephyr_chips(name: str) -> bool:
    """Return True where a chip's row names a board of Zephyr so."""
    from mlf_sdk.targets.chips.load import load_chips

    wanted = name.lower().partition("/")[0]
    boards = (board for chip in load_chips().values() for board in chip.zephyr_boards)
    return any(wanted == board.partition("/")[0] for board in boards)


def project_target(folder: Path, lock: Lock, choice: TargetChoice) -> Target:
    """Return the target of an existing project: its own board, on the port or place that was chosen.

    Args:
        folder: of the project; its own copy of a user's board row is used.
        lock: the project's.
        choice: the person's; its board file and platform do not count.

    Raises:
        InputError: the project is for another board.
    """
    own = folder / OWN_BOARD
    choice = dataclasses.replace(
        choice,
        board_file=str(own) if own.is_file() else None,
        platform=lock.platform,
        toolchain=lock.options.toolchain,
    )
    named = choice.board
    if named is not None and named.startswith(f"{ZEPHYR}:"):
        named = named.partition(":")[2]
    if named is None or ":" not in named:
        choice = dataclasses.replace(choice, board=lock.board)
    target = resolve_target(choice)
    wanted = named if named is not None and ":" not in named else target.board.name
    if not _is_board_of(lock, wanted, choice):
        raise InputError(
            f"the project is for the board {lock.board}",
            where=str(folder),
            hint=f"Generate it for {wanted} in another folder, or give the archive itself.",
        )
    return target


def _is_board_of(lock: Lock, name: str, choice: TargetChoice) -> bool:
    """Return True when ``name`` is a name of the project's board, Zephyr's own included."""
    if name == lock.board or lock.platform != ZEPHYR:
        return name == lock.board
    file = Path(choice.board_file) if choice.board_file else None
    return _platform(ZEPHYR).of_board(name, file, choice).board.name == lock.board


def _registered(scheme: str) -> type[Target]:
    result = _SCHEMES.get(scheme)
    if result is None:
        point = next((p for p in _entry_points() if p.name == scheme), None)
        if point is None:
            raise InputError(
                f"no kind of target is named '{scheme}'",
                where="--board",
                hint=f"Known: {', '.join(target_schemes())}; for boards see: mlf-sdk boards.",
            )
        result = _SCHEMES[scheme] = cast("type[Target]", point.load())
    if isinstance(result, str):
        result = _SCHEMES[scheme] = cast("type[Target]", imported(result))
    return result


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)


def _platform(name: str) -> type[BoardTarget]:
    return cast("type[BoardTarget]", imported(_PLATFORMS[name]))
