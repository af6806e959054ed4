# SPDX-License-Identifier: Apache-2.0
"""Bare metal: a board without an operating system, emulated by QEMU where its row says how."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.row import Board, with_arguments
from mlf_sdk.targets.flashers.execute import FlashJob, FlashRun, run_runner
from mlf_sdk.targets.flashers.load import find_runner
from mlf_sdk.targets.flashers.row import RunnerRow
from mlf_sdk.targets.host import CmakeTarget
from mlf_sdk.targets.target import Ability, FlashOptions, Target


class BaremetalTarget(CmakeTarget):
    """A board without an operating system."""

    def __init__(self, board: Board, *, name: str | None = None, board_file: Path | None = None) -> None:
        super().__init__(board, name=name, board_file=board_file)
        self.abilities = Ability.BUILD | Ability.FLASH | (Ability.START if board.qemu else Ability(0))

    @property
    def counts_instructions(self) -> bool:
        """See Target."""
        return self.board.qemu is not None

    def with_emulator(self, arguments: Iterable[str]) -> Target:
        """See Target."""
        return BaremetalTarget(with_arguments(self.board, arguments), board_file=self.board_file)

    def runner(self, folder: Path, job: FlashOptions) -> RunnerRow:
        """See Target."""
        found = find_runner(job.runner, self.board, job.runner_file)
        if not self.image(folder).is_file():
            raise InputError(
                "the project is not built", where=str(folder), hint=f"Build it: mlf-sdk build {folder}"
            )
        return found

    def flash(self, folder: Path, job: FlashOptions) -> FlashRun:
        """See Target."""
        if job.sign is not None:
            raise InputError("only the images of Zephyr projects are signed", where="--sign")
        return run_runner(
            self.runner(folder, job),
            FlashJob(
                elf=self.image(folder),
                board=self.board.name,
                options=self.board.flasher.options,
                port=job.port,
                extra=job.extra,
                timeout_s=job.timeout_s,
            ),
            watch=job.watch,
        )
