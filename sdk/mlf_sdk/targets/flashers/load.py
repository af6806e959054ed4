# SPDX-License-Identifier: Apache-2.0
"""Runners as data: one TOML row each, in ``board_templates/runners``; a user may add one of his own."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.flashers.errors import NoRunnerError
from mlf_sdk.targets.flashers.row import RunnerRow, row_faults
from mlf_sdk.tools.checks import name_hint
from mlf_sdk.tools.rowfile import read_row


def load_runners(extra_file: Path | None = None) -> dict[str, RunnerRow]:
    """All runners by name, sorted; a user's file may replace one of the SDK's.

    Raises:
        InputError: a row is not as it must be.
    """
    folder = data_dir("board_templates") / "runners"
    rows = {row.name: row for row in map(load_runner, sorted(folder.glob("*.toml")))}
    if extra_file is not None:
        own = load_runner(extra_file)
        rows[own.name] = own
    return dict(sorted(rows.items()))


def load_runner(path: Path) -> RunnerRow:
    """One row from a file.

    Raises:
        InputError: it can't be read, or is not as it must be; all that is wrong with it.
    """
    row = read_row(path, RunnerRow)
    faults = row_faults(row)
    if faults:
        raise InputError(
            "the runner's row is not as it must be:\n  " + "\n  ".join(faults),
            where=str(path),
            hint="Compare it with a row in board_templates/runners.",
        )
    return row


def find_runner(name: str | None, board: Board, extra_file: Path | None = None) -> RunnerRow:
    """The runner that was chosen, else the one of the user's file, else the board's own.

    Raises:
        NoRunnerError: there is none for this board, or none of that name.
    """
    rows = load_runners(extra_file)
    if name is None and extra_file is not None:
        return rows[load_runner(extra_file).name]
    wanted = name or board.flasher.runner
    if not wanted:
        what = (
            "the board is emulated: nothing has to be flashed"
            if board.is_emulated
            else "the board has no runner"
        )
        run = "Run the project on it: mlf-sdk run DIR. For QEMU's -gdb: " if board.qemu else "Choose: "
        raise NoRunnerError(
            what, where=f"board {board.name}", hint=f"{run}--runner NAME, one of {', '.join(rows)}."
        )
    if wanted not in rows:
        where, hint = f"board {board.name}", name_hint(wanted, rows)
        raise NoRunnerError(f"there is no runner '{wanted}'", where=where, hint=hint)
    return rows[wanted]
