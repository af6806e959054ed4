# SPDX-License-Identifier: Apache-2.0
"""Examinations: of this machine's tools, and of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.build import build_model, choose_module
from mlf_sdk.frontends.mlf.findings import find_oddities
from mlf_sdk.frontends.mlf.reader import load_mlf
from mlf_sdk.ir.finding import Oddity
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.project import plan_project
from mlf_sdk.targets.boards.findings import board_oddities
from mlf_sdk.targets.boards.load import Board, find_board
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.doctor import ZephyrExamination, examine_zephyr
from mlf_sdk.tools.discovery import ToolStatus, find_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineExamination:
    """The tools of this machine, and what of Zephyr is here (only its users need it)."""

    tools: tuple[ToolStatus, ...]
    zephyr: ZephyrExamination

    @property
    def ok(self) -> bool:
        """Whether all tools are here that emulated boards need."""
        return all(status.ok for status in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveExamination:
    """What is odd in one module of an archive that can be deployed."""

    model: Model
    oddities: tuple[Oddity, ...]
    board: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it can be deployed (on the board, where one was named)."""
        return not any(oddity.blocks for oddity in self.oddities)


def examine_machine(zephyr: ZephyrSetup | None = None) -> MachineExamination:
    """Look for every tool that the SDK runs, and for Zephyr."""
    found = examine_zephyr(zephyr or ZephyrSetup(), here=Path.cwd())
    return MachineExamination(tools=find_tools(), zephyr=found)


def examine_archive(
    path: Path, module: str | None = None, *, board: str | None = None, board_file: Path | None = None
) -> ArchiveExamination:
    """Read an archive and say what is odd in it, and on a board.

    Raises:
        ArchiveError: it is broken; all of its faults at once.
        InputError: there is no such board.
    """
    row = find_board(board, board_file) if board else None
    archive = load_mlf(path)
    model = build_model(archive, module=module)
    raw = choose_module(archive, module)
    oddities = find_oddities(archive, raw, model)
    if row is not None:
        oddities += board_oddities(model, row)
        oddities += _misfit(model, row, board_file) if not any(o.blocks for o in oddities) else ()
    return ArchiveExamination(model=model, oddities=oddities, board=board)


def _misfit(model: Model, board: Board, board_file: Path | None) -> tuple[Oddity, ...]:
    """Whether the board's memories are too small; a header that is yet to be given does not matter here."""
    if board.platform == "zephyr" or model.external_headers:
        return ()
    try:
        plan_project([model], board=board.name, board_file=board_file)
    except InputError as error:
        return (Oddity(where=f"board {board.name}", what=error.what, handled=error.hint, blocks=True),)
    return ()
