# SPDX-License-Identifier: Apache-2.0
"""The host as a target, and its common base with bare metal: projects that CMake builds."""

from __future__ import annotations

import dataclasses
import shlex
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles
from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.boards.requirements import store_sources, store_values
from mlf_sdk.targets.cmake import APP_ELF, BuildResult, build_project
from mlf_sdk.targets.compilers import cmsis_nn_includes, native_compiler, native_names, native_toolchain
from mlf_sdk.targets.launch import host_slots, keep_host_slots
from mlf_sdk.targets.target import Ability, BoardTarget, Log, Regions, Target, TargetChoice
from mlf_sdk.tools.programs import require_programs

if TYPE_CHECKING:
    from mlf_sdk.targets.boards.row import Board
    from mlf_sdk.wire.session import Session


class CmakeTarget(BoardTarget):
    """A board whose projects CMake builds.

    Attributes:
        wanted: name of the toolchain that was asked for; None: the first that is installed.
    """

    def __init__(
        self,
        board: Board,
        *,
        name: str | None = None,
        board_file: Path | None = None,
        toolchain: str | None = None,
    ) -> None:
        super().__init__(board, name=name, board_file=board_file)
        self.wanted = toolchain

    @classmethod
    def of_board(cls, name: str, board_file: Path | None, choice: TargetChoice) -> Target:
        """See BoardTarget."""
        return cls(find_board(name, board_file), board_file=board_file, toolchain=choice.toolchain)

    def files(self, options: ProjectOptions, *, store_bytes: int = 0) -> PlatformFiles:
        """See Target."""
        files = self._library(options) if options.app == "library" else self._platform(options, store_bytes)
        return dataclasses.replace(files, files={**files.files, **self.own_files()})

    @abstractmethod
    def _platform(self, options: ProjectOptions, store_bytes: int) -> PlatformFiles:
        """Return the platform's part of an application."""

    def _library(self, options: ProjectOptions) -> PlatformFiles:
        """Return runtime and models for a CMake application that exists."""
        if options.executor == "graph":
            raise InputError(
                "a library has the static executor",
                where="--executor",
                hint="Leave out --library or --executor.",
            )
        return PlatformFiles(
            board=self.board.name,
            title=self.board.title,
            is_host=self.is_host,
            files={},
            runtime_sources=(),
            crt_folders=("include", "src", *(("cmsis", "acle") if options.cmsis_nn is not None else ())),
            cmsis_nn_includes=cmsis_nn_includes(options),
            templates={
                "CMakeLists.txt": "common/library_CMakeLists.txt.j2",
                "README.md": "common/library_README.md.j2",
                "mlf_gdb.py": "common/mlf_gdb.py.j2",
            },
        )

    @property
    @abstractmethod
    def compilers(self) -> tuple[tuple[str, ...], ...]:
        """Programs that compile, each as its possible names."""

    def check_programs(self, *, build: bool = True, start: bool = False) -> None:
        """See Target."""
        programs = [("cmake",), ("ninja", "ninja-build", "samu"), *self.compilers] if build else []
        require_programs(programs, f"building for {self.board.name}")
        if start:
            self.check_emulator()

    def check_emulator(self) -> None:
        """Refuse to start an image without an emulator.

        Raises:
            MissingToolError: it is not installed.
        """

    def build(
        self, folder: Path, *, timeout_s: float, sign: Path | None = None, log: Log | None = None
    ) -> BuildResult:
        """See Target."""
        if sign is not None:
            raise InputError("only the images of Zephyr projects are signed", where="--sign")
        return build_project(folder, timeout_s=timeout_s, watch=log, variables=self.build_variables)

    def image(self, folder: Path) -> Path:
        """See Target."""
        return folder / "build" / APP_ELF

    def regions(self, folder: Path) -> Regions:
        """See Target."""
        return self.board.regions


class HostTarget(CmakeTarget):
    """The host: the image is a program of this machine."""

    abilities = Ability.BUILD | Ability.START | Ability.KEEP
    is_host = True

    @property
    def toolchain(self) -> str:
        """See Target; gcc stands for the compilers that CMake looks for."""
        return native_toolchain(self.wanted)

    @property
    def build_variables(self) -> Mapping[str, str]:
        """Variables by which CMake takes the toolchain."""
        argv = native_compiler(self.toolchain)
        return {"CC": shlex.join(argv), "ASM": shlex.join(argv)} if argv else {}

    @property
    def compilers(self) -> tuple[tuple[str, ...], ...]:
        """See CmakeTarget."""
        argv = native_compiler(self.toolchain)
        return (argv[:1] if argv else native_names(),)

    def _platform(self, options: ProjectOptions, store_bytes: int) -> PlatformFiles:
        return PlatformFiles(
            board=self.board.name,
            title=self.board.title,
            is_host=True,
            files={},
            runtime_sources=(
                "crt/platform/mlf_fault.c",
                "crt/host/build_id.c",
                "crt/host/platform.c",
                *(("crt/host/workspace.c",) if options.plan == "none" else ()),
                *(("crt/host/entropy.c",) if options.session_keys else ()),
                *store_sources(self.board, store_bytes),
            ),
            crt_folders=(*dict.fromkeys((*crt_folders(options), "platform", "host", "acle")),),
            definitions=("MLF_RPC_MAX_PAYLOAD=4096",) if options.app == "rpc" else (),
            values={
                **store_values(self.board, store_bytes),
                "has_baud": False,
                "has_window": False,
                "has_caches": False,
                "runtime_includes": (),
                "own_headers": False,
                "own_libm": False,
            },
        )

    def open(
        self, image: Path | None, *, timeout_s: float, console: Log | None = None
    ) -> AbstractContextManager[Session]:
        """See Target."""
        from mlf_sdk.targets.launch import open_program  # sessions and numpy take time to load

        elf = self.image_to_start(image)
        return open_program(elf, timeout_s=timeout_s, console=console, variables=host_slots(elf))

    def keep_slots(self, lock: Lock, image: Path) -> None:
        """See Target."""
        keep_host_slots(lock, image)


def crt_folders(options: ProjectOptions) -> tuple[str, ...]:
    """Return the folders of the runtime that an application of these options needs on any platform."""
    return (
        "include",
        "src",
        *((options.app,) if options.app in ("rpc", "mlperf") else ()),
        *(("cmsis", "acle") if options.cmsis_nn is not None else ()),
        *(("graph", "params") if options.executor == "graph" else ()),
        *(("package",) if options.trust or options.session_keys else ()),
        *(("secure",) if options.session_keys else ()),
    )
