# SPDX-License-Identifier: Apache-2.0
"""The host as a target, and what it shares with bare metal: projects that CMake builds."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from pathlib import Path

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles
from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.cmake import APP_ELF, BuildResult, build_project
from mlf_sdk.targets.launch import open_session
from mlf_sdk.targets.platforms import platform_files, regions_of
from mlf_sdk.targets.slots import keep_slots
from mlf_sdk.targets.target import Ability, BoardTarget, Log, Regions, Target, TargetChoice
from mlf_sdk.wire.session import Session


class CmakeTarget(BoardTarget):
    """A board whose projects CMake builds."""

    @classmethod
    def of_board(cls, name: str, board_file: Path | None, choice: TargetChoice) -> Target:
        """See BoardTarget."""
        return cls(find_board(name, board_file), board_file=board_file)

    def files(self, options: ProjectOptions, *, store_bytes: int = 0) -> PlatformFiles:
        """See Target."""
        found = platform_files(self.board, options, store_bytes=store_bytes)
        return dataclasses.replace(found, files={**found.files, **self.own_files()})

    def build(
        self, folder: Path, *, timeout_s: float, sign: Path | None = None, log: Log | None = None
    ) -> BuildResult:
        """See Target."""
        if sign is not None:
            raise InputError("only the images of Zephyr projects are signed", where="--sign")
        return build_project(folder, timeout_s=timeout_s, watch=log)

    def image(self, folder: Path) -> Path:
        """See Target."""
        return folder / "build" / APP_ELF

    def regions(self, folder: Path) -> Regions:
        """See Target."""
        return regions_of(self.board)

    def open(
        self, image: Path | None, *, timeout_s: float, console: Log | None = None
    ) -> AbstractContextManager[Session]:
        """See Target."""
        if image is None:
            raise InputError("no image to start was given", where=self.name)
        return open_session(self.board, image, timeout_s=timeout_s, console=console)

    def keep_slots(self, lock: Lock, image: Path) -> None:
        """See Target."""
        keep_slots(lock, self.board, image)


class HostTarget(CmakeTarget):
    """The host: the image is a program of this machine."""

    abilities = Ability.BUILD | Ability.START
    is_host = True
