# SPDX-License-Identifier: Apache-2.0
"""Projects: decided (`ProjectPlan`), on disk (`TargetProject`), and built (`BuiltProject`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.codegen.link import Linkage
from mlf_sdk.codegen.lock import Lock, LockModel
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import render_project
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.targets.boards.requirements import store_bytes_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.registry import project_target, resolve_target
from mlf_sdk.targets.target import Target, TargetChoice

if TYPE_CHECKING:
    from mlf_sdk.codegen.samples import SampleOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlan:
    """A project, decided but not written.

    Attributes:
        choice: the target that it is for.
        layouts: memory of each model.
        linkages: symbols of each model in the image.
        lock: promises of the project.
        options: options of the project.
    """

    choice: TargetChoice
    layouts: tuple[ModelLayout, ...]
    linkages: tuple[Linkage, ...]
    lock: Lock
    options: ProjectOptions

    @property
    def board(self) -> Board:
        """The target's board."""
        return resolve_target(self.choice).board

    @property
    def compilers(self) -> tuple[tuple[str, ...], ...]:
        """Programs that compile the project, each as its possible names; none: the platform chooses."""
        return resolve_target(self.choice).compilers

    @property
    def build_variables(self) -> Mapping[str, str]:
        """Variables of the environment of its builds."""
        return resolve_target(self.choice).build_variables

    def files(self, expected: Sequence[Sequence[SampleOutput]] = ()) -> dict[str, bytes]:
        """Render all files of the project, by relative path.

        Args:
            expected: outputs of each model for the sample of the standalone application; none: not known.
        """
        dynamic = self.options.executor == "graph"
        store_bytes = (
            sum(store_bytes_of(one, self.board, sealed=bool(self.options.trust)) for one in self.layouts)
            if dynamic
            else 0
        )
        target = resolve_target(self.choice)
        platform = target.files(self.options, store_bytes=store_bytes)
        return render_project(
            self.layouts, self.linkages, platform, self.options, self.lock, expected=expected
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetProject:
    """A project on disk, and the one of its models that a command is about.

    Attributes:
        folder: of the project.
        choice: the target as it was asked for; the project has decided board and platform.
        is_given: the folder was named by the user; else it lies in the cache and was made from an archive.
    """

    folder: Path
    lock: Lock
    model: LockModel
    choice: TargetChoice
    is_given: bool

    @property
    def target(self) -> Target:
        """Target that the project is built for, or the board on the port that was named."""
        return project_target(self.folder, self.lock, self.choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltProject:
    """A project whose image is linked.

    Attributes:
        elf: the linked image.
        seconds: duration of the build; 0 when nothing had to be done.
        signed: images signed for a bootloader.
    """

    project: TargetProject
    elf: Path
    seconds: float
    log: str = ""
    signed: tuple[Path, ...] = ()
