# SPDX-License-Identifier: Apache-2.0
"""A serial port around a target: the board that answers there holds the image already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlf_sdk.codegen.lock import Lock, LockZephyr
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles
from mlf_sdk.targets.cmake import BuildResult
from mlf_sdk.targets.flashers.execute import FlashRun
from mlf_sdk.targets.flashers.row import RunnerRow
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.target import Ability, FlashChoice, Log, Regions, Target, TargetChoice
from mlf_sdk.wire.codes import NoAnswerError
from mlf_sdk.wire.session import Session


class AttachedTarget(Target):
    """A connection to a board that holds an image; the project is built by the target inside.

    Attributes:
        inner: the board on its platform.
    """

    attached = True

    def __init__(self, inner: Target, *, name: str) -> None:
        super().__init__(inner.board, name=name, board_file=inner.board_file)
        self.inner = inner
        self.abilities = inner.abilities & (Ability.BUILD | Ability.FLASH) | Ability.KEEP

    def files(self, options: ProjectOptions, *, store_bytes: int = 0) -> PlatformFiles:
        """See Target."""
        return self.inner.files(options, store_bytes=store_bytes)

    @property
    def toolchain(self) -> str:
        """See Target."""
        return self.inner.toolchain

    @property
    def compilers(self) -> tuple[tuple[str, ...], ...]:
        """See Target."""
        return self.inner.compilers

    def lock_zephyr(self) -> LockZephyr | None:
        """See Target."""
        return self.inner.lock_zephyr()

    def build(
        self, folder: Path, *, timeout_s: float, sign: Path | None = None, log: Log | None = None
    ) -> BuildResult:
        """See Target."""
        return self.inner.build(folder, timeout_s=timeout_s, sign=sign, log=log)

    def check_programs(self, *, build: bool = True, start: bool = False) -> None:
        """See Target; nothing is started here."""
        self.inner.check_programs(build=build)

    def image(self, folder: Path) -> Path:
        """See Target."""
        return self.inner.image(folder)

    def regions(self, folder: Path) -> Regions:
        """See Target."""
        return self.inner.regions(folder)

    def runner(self, folder: Path, job: FlashChoice) -> RunnerRow:
        """See Target."""
        return self.inner.runner(folder, job)

    def flash(self, folder: Path, job: FlashChoice) -> FlashRun:
        """See Target."""
        return self.inner.flash(folder, job)

    def keep_slots(self, lock: Lock, image: Path) -> None:
        """See Target; the board keeps its own."""


class SerialTarget(AttachedTarget):
    """A board on a serial port.

    Attributes:
        choice: names the port and its rates.
    """

    def __init__(self, inner: Target, choice: TargetChoice) -> None:
        super().__init__(inner, name=choice.port or "")
        self.choice = choice

    @contextmanager
    def open(self, image: Path | None, *, timeout_s: float, console: Log | None = None) -> Iterator[Session]:
        """See Target; an answer that never came at all is an error with advice about the line."""
        with port_session(
            self.choice, board=self.board, elf=image, timeout_s=timeout_s, console=console
        ) as session:
            try:
                yield session
            except NoAnswerError as error:
                if not session.has_begun:
                    from mlf_sdk.targets.silence import port_text

                    advice = port_text(self.board, self.choice.baud, image)
                    error.hint = "\n".join(filter(None, [error.hint, advice]))
                raise
