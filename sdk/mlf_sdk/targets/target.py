# SPDX-License-Identifier: Apache-2.0
"""Targets: one protocol for everything that runs an image.

A target is a board on a platform (host, bare metal, Zephyr), or a connection around one: a serial port, a
labgrid place.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from mlf_sdk.errors import InputError, ToolError, command_text
from mlf_sdk.targets.boards.load import OWN_BOARD, own_sources

if TYPE_CHECKING:
    from mlf_sdk.codegen.lock import Lock, LockZephyr
    from mlf_sdk.codegen.options import ProjectOptions
    from mlf_sdk.codegen.render import PlatformFiles
    from mlf_sdk.targets.boards.row import Board
    from mlf_sdk.targets.cmake import BuildResult
    from mlf_sdk.targets.flashers.execute import FlashRun
    from mlf_sdk.targets.flashers.row import RunnerRow
    from mlf_sdk.wire.session import Session

ZEPHYR = "zephyr"
Log = Callable[[str], None]
Regions = tuple[tuple[str, int, int], ...]


class Ability(enum.Flag):
    """Operations that a target supports."""

    BUILD = enum.auto()
    START = enum.auto()
    RESET = enum.auto()
    FLASH = enum.auto()
    KEEP = enum.auto()  # parameters that are pushed outlive a session


class Target(ABC):
    """Something that runs an image.

    Attributes:
        scheme: of a registered class: the part before the colon in ``--board SCHEME:REST``.
        name: for messages: the board's name, or the port.
        board: the board's row.
        board_file: file of the user's own row; None: the row is one of the SDK's.
        abilities: supported operations.
        attached: the board holds an image already; nothing is started here.
        is_host: the image is a program of this machine that computes reference outputs.
        counts_instructions: its emulator can count instructions.
        counts_cycles: a simulator counts the cycles of its core, and instructions.
    """

    scheme: ClassVar[str] = ""
    abilities: Ability = Ability.BUILD
    attached: bool = False
    is_host: bool = False

    def __init__(self, board: Board, *, name: str | None = None, board_file: Path | None = None) -> None:
        self.board = board
        self.name = name or board.name
        self.board_file = board_file

    @classmethod
    def resolve(cls, rest: str, choice: TargetChoice) -> Target:
        """Return the target that ``SCHEME:rest`` names; only called on registered classes.

        Args:
            rest: the part behind the colon.
            choice: all that the person chose.
        """
        raise NotImplementedError

    @property
    def counts_instructions(self) -> bool:
        """Return True when the board is emulated by QEMU, with a time that instructions alone advance."""
        return False

    @property
    def counts_cycles(self) -> bool:
        """Return True when the board's core is simulated cycle by cycle."""
        return False

    def limit_s(self, timeout_s: float) -> float:
        """Return the time to allow for what a board may take ``timeout_s`` seconds for."""
        return timeout_s

    @property
    def emulator_title(self) -> str:
        """Name of the emulator that images are started on here; empty: none."""
        return ""

    # ---- project ----

    @abstractmethod
    def files(self, options: ProjectOptions, *, store_bytes: int = 0) -> PlatformFiles:
        """Return the platform's part of a project.

        Args:
            options: of the project.
            store_bytes: bytes of all slots for parameters (dynamic executor).
        """

    @property
    def toolchain(self) -> str:
        """Return the name of the toolchain that builds use; empty where the platform chooses it."""
        return ""

    @property
    def compilers(self) -> tuple[tuple[str, ...], ...]:
        """Return the programs that compile, each as its possible names; none where the platform chooses."""
        return ()

    @property
    def build_variables(self) -> Mapping[str, str]:
        """Return variables of the environment of builds, of which the project does not know."""
        return {}

    def lock_zephyr(self) -> LockZephyr | None:
        """Return the lock's entry about Zephyr; None on other platforms."""
        return None

    @abstractmethod
    def build(
        self, folder: Path, *, timeout_s: float, sign: Path | None = None, log: Log | None = None
    ) -> BuildResult:
        """Build a generated project.

        Args:
            folder: of the project.
            timeout_s: for all of it, in seconds.
            sign: key to sign the image with for MCUboot (Zephyr only).
            log: called with each line of the build's output.

        Raises:
            InputError: the image does not fit, or it can't be signed.
            ToolError: a tool is missing or failed.
        """

    def cmsis_nn_module(self) -> Path | None:
        """Return the platform's own CMSIS-NN, where it has one here."""
        return None

    def remember(self, folder: Path) -> None:
        """Keep the options of builds on this machine for later commands on the project in ``folder``."""
        del folder

    @abstractmethod
    def image(self, folder: Path) -> Path:
        """Return the path of the linked image of a built project."""

    @abstractmethod
    def regions(self, folder: Path) -> Regions:
        """Return the memories of a built project as (name, origin, size in bytes)."""

    def check_programs(self, *, build: bool = True, start: bool = False) -> None:  # noqa: B027 (optional)
        """Check that the programs that ``build`` and ``start`` an image are installed, before any is used.

        Raises:
            ToolError: one is missing.
        """

    # ---- device ----

    @abstractmethod
    def open(
        self, image: Path | None, *, timeout_s: float, console: Log | None = None
    ) -> AbstractContextManager[Session]:
        """Start the image (or connect to the board that holds it) and yield a session before its hello.

        Args:
            image: the linked image: it is started, and faults are explained by it.
            timeout_s: for a run, in seconds.
            console: called with each piece of text that the target prints.

        Raises:
            InputError: the target can't start an image.
            ToolError: the emulator is missing or failed.
            TargetError: the board can't be reached.
        """

    def reset(self) -> None:
        """Reset the board.

        Raises:
            InputError: the target has no reset.
        """
        raise InputError("the target can't be reset from here", where=self.name)

    def runner(self, folder: Path, job: FlashChoice) -> RunnerRow:
        """Return the runner that :meth:`flash` would use.

        Raises:
            InputError: nothing has to be flashed, the project is not built, or no runner fits.
        """
        raise InputError(
            "it is a program of this machine: nothing has to be flashed",
            where=str(folder),
            hint=f"Run it: {command_text('run', folder)}",
        )

    def flash(self, folder: Path, job: FlashChoice) -> FlashRun:
        """Flash the image of a built project.

        Raises:
            InputError: as :meth:`runner`.
            ToolError: the runner is missing, failed, or was late.
            TargetError: the runner found no probe.
        """
        self.runner(folder, job)
        raise InputError("the target can't be flashed from here", where=self.name)

    def keep_slots(self, lock: Lock, image: Path) -> None:
        """Make the slots for parameters of ``image`` outlive a session (dynamic executor).

        Raises:
            InputError: the project has no slots, or they can't be kept on this target.
        """
        raise InputError("parameters can't be kept on this target", where=self.name)

    def with_emulator(self, arguments: Iterable[str]) -> Target:
        """Return the target with more arguments for its emulator.

        Raises:
            ToolError: the board is not emulated.
        """
        raise ToolError("only an emulated board counts instructions", where=f"board {self.name}")


class BoardTarget(Target):
    """A board on a platform: the image is built and, where possible, started here."""

    @classmethod
    @abstractmethod
    def of_board(cls, name: str, board_file: Path | None, choice: TargetChoice) -> Target:
        """Return the target of the board ``name``, whose row may be in ``board_file``."""

    def image_to_start(self, image: Path | None) -> Path:
        """Return the image to start on this machine.

        Raises:
            InputError: there is none.
        """
        if image is None:
            raise InputError("no image to start was given", where=self.name)
        return image

    def own_files(self) -> dict[str, bytes]:
        """Return the copies of the user's own board row and its sources, by path in a project."""
        if self.board_file is None:
            return {}
        return {OWN_BOARD: self.board_file.read_bytes(), **own_sources(self.board, self.board_file)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """Target as the user names it; can be pickled and encoded as JSON.

    Attributes:
        board: name of a board, ``zephyr:NAME`` for one on Zephyr, or ``SCHEME:REST`` of a registered target
            such as ``labgrid:PLACE``.
        board_file: TOML file with a board row.
        platform: ``baremetal``, ``host`` or ``zephyr``; None: the platform of the board's row.
        toolchain: what compiles for the board; None: the first that is installed.
        port: serial port where the board answers: a path, a URL, ``auto`` or ``usb:VID:PID``.
        baud: rate in bits/s to open the port with; None: that of the board's row.
        max_baud: rate to raise the port to when both ends support it; None: that of the row; 0: never.
        zephyr_base: the Zephyr tree; None: ``$ZEPHYR_BASE``, the workspace's, or ``~/zephyrproject/zephyr``.
        zephyr_modules: folders of Zephyr modules beside those of a west workspace.
        west: build with west; None: when the tree or the project lies in a west workspace.
        build_dir: build folder of a Zephyr project; None: ``build``, or where west's default put it.
        cmake_args: more arguments for CMake in Zephyr builds.
        cmsis_nn: CMSIS-NN checkout, in place of the module of a Zephyr workspace.
    """

    board: str | None = None
    board_file: str | None = None
    platform: str | None = None
    toolchain: str | None = None
    port: str | None = None
    baud: int | None = None
    max_baud: int | None = None
    zephyr_base: str | None = None
    zephyr_modules: tuple[str, ...] = ()
    west: bool | None = None
    build_dir: str | None = None
    cmake_args: tuple[str, ...] = ()
    cmsis_nn: str | None = None


class FlashChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Flasher and runner that the user states.

    Attributes:
        runner: name of the runner (on Zephyr: west's); None: that of ``runner_file``, else the board's.
        runner_file: TOML file with a runner's row.
        port: device that the runner works on: serial port, debug server, or folder of a volume.
        extra: more arguments for the runner.
        sign: key to sign the image with first.
        timeout_s: for all of it, in seconds.
        watch: called with each line of the runner's output as it comes.
    """

    runner: str | None = None
    runner_file: Path | None = None
    port: str = ""
    extra: tuple[str, ...] = ()
    sign: Path | None = None
    timeout_s: float = 120.0
    watch: Callable[[str], None] | None = None
