# SPDX-License-Identifier: Apache-2.0
"""A board without an operating system whose core is simulated cycle by cycle."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.targets.baremetal import BaremetalTarget
from mlf_sdk.targets.rtl.build import check_tools
from mlf_sdk.targets.rtl.launch import SIMULATOR_TITLE
from mlf_sdk.targets.target import Ability, Log, Target
from mlf_sdk.tools.rtlmodels import RtlModel, find_model

if TYPE_CHECKING:
    from mlf_sdk.targets.boards.row import Board
    from mlf_sdk.wire.session import Session

_SLOWER = 10  # than a board: a limit of time is meant for one


class RtlTarget(BaremetalTarget):
    """A board of bare metal on a simulated core: its clock counts cycles."""

    def __init__(
        self,
        board: Board,
        *,
        name: str | None = None,
        board_file: Path | None = None,
        toolchain: str | None = None,
    ) -> None:
        super().__init__(board, name=name, board_file=board_file, toolchain=toolchain)
        self.abilities |= Ability.START

    def _model(self) -> RtlModel:
        row = self.board.rtl
        if row is None:
            raise InputError("the board is not simulated", where=f"board {self.board.name}")
        return find_model(row.model)

    @property
    def emulator_title(self) -> str:
        """See Target."""
        return SIMULATOR_TITLE

    def check_emulator(self) -> None:
        """See CmakeTarget."""
        check_tools(self._model())

    def open(
        self, image: Path | None, *, timeout_s: float, console: Log | None = None
    ) -> AbstractContextManager[Session]:
        """See Target."""
        from mlf_sdk.targets.launch import open_emulated  # sessions and numpy take time to load

        elf = self.image_to_start(image)
        return open_emulated(self.board, elf, timeout_s=self.limit_s(timeout_s), console=console)

    def limit_s(self, timeout_s: float) -> float:
        """See Target."""
        return timeout_s * _SLOWER

    @property
    def counts_cycles(self) -> bool:
        """See Target."""
        return True

    @property
    def counts_instructions(self) -> bool:
        """See Target; a clock of cycles is better than a count of instructions."""
        return False

    def with_emulator(self, arguments: Iterable[str]) -> Target:
        """See Target."""
        row = self.board.rtl
        if row is None:
            return super().with_emulator(arguments)
        more = msgspec.structs.replace(row, args=(*row.args, *arguments))
        board = msgspec.structs.replace(self.board, rtl=more)
        return RtlTarget(board, board_file=self.board_file, toolchain=self.wanted)
