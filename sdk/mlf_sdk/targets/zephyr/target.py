# SPDX-License-Identifier: Apache-2.0
"""Zephyr as a platform: any board that Zephyr knows; started here where it is emulated or native."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.codegen.lock import Lock, LockZephyr, read_lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles
from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.load import with_arguments
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.cmake import BuildResult
from mlf_sdk.targets.flashers.execute import FlashRun
from mlf_sdk.targets.flashers.row import RunnerRow
from mlf_sdk.targets.target import Ability, BoardTarget, FlashChoice, Log, Regions, Target, TargetChoice
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_zephyr, find_module
from mlf_sdk.targets.zephyr.buildfolder import find_build, image_in, remember_options
from mlf_sdk.targets.zephyr.files import ZephyrNaming, map_regions, zephyr_board, zephyr_files, zephyr_naming
from mlf_sdk.targets.zephyr.flash import flash_zephyr, sign_zephyr, zephyr_runner
from mlf_sdk.targets.zephyr.sign import check_key

if TYPE_CHECKING:
    from mlf_sdk.wire.session import Session


class ZephyrTarget(BoardTarget):
    """A board on Zephyr.

    Attributes:
        setup: the Zephyr tree, modules, and west.
    """

    def __init__(
        self, board: Board, setup: ZephyrSetup, *, name: str | None = None, board_file: Path | None = None
    ) -> None:
        super().__init__(board, name=name, board_file=board_file)
        self.setup = setup
        starts = Ability.START if board.zephyr.native or board.qemu else Ability(0)
        self.abilities = Ability.BUILD | starts | (Ability(0) if board.zephyr.native else Ability.FLASH)

    @classmethod
    def of_board(cls, name: str, board_file: Path | None, choice: TargetChoice) -> Target:
        """See BoardTarget."""
        return cls(zephyr_board(name, board_file), setup_of(choice), board_file=board_file)

    @property
    def counts_instructions(self) -> bool:
        """See Target."""
        return self.board.qemu is not None

    @cached_property
    def naming(self) -> ZephyrNaming:
        """The tree's version and its name of the board.

        Raises:
            ToolError: there is no Zephyr tree.
        """
        return zephyr_naming(self.board, self.setup.tree())

    def files(self, options: ProjectOptions, *, store_bytes: int = 0) -> PlatformFiles:
        """See Target."""
        result = zephyr_files(self.board, options, self.naming)
        return dataclasses.replace(result, files={**result.files, **self.own_files()})

    def lock_zephyr(self) -> LockZephyr | None:
        """See Target."""
        return LockZephyr(series=self.naming.profile.series, board=self.naming.board)

    def build(
        self, folder: Path, *, timeout_s: float, sign: Path | None = None, log: Log | None = None
    ) -> BuildResult:
        """See Target."""
        if sign is not None:
            check_key(sign)
        setup = self.setup.recalled(folder)
        remember_options(folder, setup.options.below(folder))
        built = build_zephyr(
            folder,
            self.naming.board,
            setup,
            extra_modules=self.naming.profile.extra_modules,
            is_native=self.board.zephyr.native,
            timeout_s=timeout_s,
            watch=log,
        )
        if sign is not None:
            signed = sign_zephyr(folder, self._build_of(folder), sign, setup, timeout_s=timeout_s)
            built = dataclasses.replace(built, signed=tuple(signed))
        return built

    def image(self, folder: Path) -> Path:
        """See Target."""
        return image_in(self._build_of(folder), folder)

    def cmsis_nn_module(self) -> Path | None:
        """See Target."""
        tree = self.setup.tree().base
        dsp = find_module("cmsis-dsp", tree, self.setup)  # Zephyr's selects it
        return find_module("cmsis-nn", tree, self.setup) if dsp else None

    def remember(self, folder: Path) -> None:
        """See Target."""
        remember_options(folder, self.setup.recalled(folder).options.below(folder))

    def _build_of(self, folder: Path) -> Path:
        """Return the build folder of a project."""
        given = self.setup.recalled(folder).build_dir
        return find_build(folder, given, self.setup.here, _board_of(folder)).path

    def regions(self, folder: Path) -> Regions:
        """See Target."""
        return map_regions(self._build_of(folder) / "zephyr" / "zephyr.map")

    def open(
        self, image: Path | None, *, timeout_s: float, console: Log | None = None
    ) -> AbstractContextManager[Session]:
        """See Target."""
        from mlf_sdk.targets.launch import (  # sessions and numpy take time to load
            open_emulated,
            open_program,
            with_slots,
        )

        elf = self.image_to_start(image)
        if self.board.zephyr.native:
            return open_program(elf, timeout_s=timeout_s, console=console)
        return open_emulated(with_slots(self.board, elf), elf, timeout_s=timeout_s, console=console)

    def keep_slots(self, lock: Lock, image: Path) -> None:
        """See Target."""
        from mlf_sdk.targets.launch import keep_emulated_slots

        keep_emulated_slots(lock, self.board, image)

    def with_emulator(self, arguments: Iterable[str]) -> Target:
        """See Target."""
        return ZephyrTarget(
            with_arguments(self.board, arguments), self.setup, name=self.name, board_file=self.board_file
        )

    def runner(self, folder: Path, job: FlashChoice) -> RunnerRow:
        """See Target."""
        if job.runner_file is not None:
            raise InputError(
                "Zephyr has runners of its own", where="--runner-file", hint="Choose one: --runner NAME."
            )
        return zephyr_runner(folder, self._build_of(folder), self.board, _board_of(folder), job.runner)

    def flash(self, folder: Path, job: FlashChoice) -> FlashRun:
        """See Target."""
        runner, setup = self.runner(folder, job).name, self.setup.recalled(folder)
        return flash_zephyr(folder, self._build_of(folder), _board_of(folder), runner, job, setup)


def _board_of(folder: Path) -> str:
    """Return Zephyr's name of a project's board."""
    zephyr = read_lock(folder).zephyr
    return zephyr.board if zephyr else ""


def setup_of(choice: TargetChoice) -> ZephyrSetup:
    """Return the Zephyr set-up that a choice states."""
    own = (f"-DMLF_CMSIS_NN={Path(choice.cmsis_nn).resolve()}",) if choice.cmsis_nn else ()
    return ZephyrSetup(
        base=Path(choice.zephyr_base) if choice.zephyr_base else None,
        modules=tuple(map(Path, choice.zephyr_modules)),
        use_west=choice.west,
        build_dir=Path(choice.build_dir) if choice.build_dir else None,
        cmake_args=(*own, *choice.cmake_args),
    )
