# SPDX-License-Identifier: Apache-2.0
"""Bare metal: a board without an operating system, emulated by QEMU if its row describes a machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles
from mlf_sdk.codegen.templates import template_text
from mlf_sdk.errors import InputError, NotBuiltError
from mlf_sdk.targets.boards.isa import board_toolchain, counter_source, cross_isa
from mlf_sdk.targets.boards.load import baremetal_context, with_arguments
from mlf_sdk.targets.boards.requirements import store_sources, store_values
from mlf_sdk.targets.boards.row import Board, Memory
from mlf_sdk.targets.compilers import cmsis_nn_includes
from mlf_sdk.targets.host import CmakeTarget, crt_folders
from mlf_sdk.targets.launch import keep_emulated_slots, with_slots
from mlf_sdk.targets.target import Ability, FlashChoice, Log, Target
from mlf_sdk.tools.isas import Isa, load_isas
from mlf_sdk.tools.toolchains import choose_toolchain

if TYPE_CHECKING:
    from mlf_sdk.targets.flashers.execute import FlashRun
    from mlf_sdk.targets.flashers.row import RunnerRow
    from mlf_sdk.wire.session import Session


class BaremetalTarget(CmakeTarget):
    """A board without an operating system."""

    def __init__(
        self,
        board: Board,
        *,
        name: str | None = None,
        board_file: Path | None = None,
        toolchain: str | None = None,
    ) -> None:
        super().__init__(board, name=name, board_file=board_file, toolchain=toolchain)
        self.abilities = (
            Ability.BUILD | Ability.FLASH | (Ability.START | Ability.KEEP if board.qemu else Ability(0))
        )

    @property
    def compilers(self) -> tuple[tuple[str, ...], ...]:
        """See CmakeTarget."""
        toolchain = board_toolchain(self.board, self.toolchain)
        return toolchain.programs, *((name,) for name in toolchain.needed)

    @property
    def toolchain(self) -> str:
        """See Target."""
        return choose_toolchain(cross_isa(self.board), self.wanted)

    def _platform(self, options: ProjectOptions, store_bytes: int) -> PlatformFiles:
        board = self.board
        in_flash = store_bytes if board.flash_controller is not None else 0
        context = baremetal_context(board, _code_memory(board, options), slots_bytes=in_flash)
        isa = cross_isa(board)
        context["stack_bytes"] = options.stack_of(board.stack_bytes)
        toolchain = board_toolchain(board, options.toolchain)
        tools = {"tools": isa.tools, "processor": isa.zephyr, "toolchain": toolchain}
        uart, cpu = board.uart, isa.cpu(board.cpu)
        if uart is None:
            raise InputError(
                "the board row has no [uart]", where=f"board {board.name}", hint="Add one to the row."
            )
        sources = ["startup", "stack", "exit"]
        sources += [f"uart_{uart.driver}", "uart_rx"] if uart.driver != "own" else []
        if options.session_keys and board.entropy is not None and board.entropy.driver != "own":
            sources += [f"entropy_{board.entropy.driver}"]
        own_memory = "baremetal/memory.c" in isa.sources
        sources += ["memory"] if options.app == "standalone" and not own_memory else []
        own = ("crt/libc/math.c", "crt/libc/string.c") if toolchain.own_libm else ()
        return PlatformFiles(
            board=board.name,
            title=board.title,
            is_host=False,
            files={
                "board/linker.ld": template_text("baremetal/linker.ld.j2", context),
                "board/mlf_board.h": template_text("baremetal/mlf_board.h.j2", context),
                "app.ld": template_text("baremetal/app.ld.j2", context),
                "board/toolchain.cmake": template_text("baremetal/toolchain.cmake.j2", tools),
            },
            runtime_sources=(
                *(f"crt/platform/mlf_{name}.c" for name in ("build_id", "fault")),
                *own,
                *(f"crt/{name}" for name in (*isa.sources, counter_source(board))),
                *(f"crt/baremetal/{name}.c" for name in sources),
                *store_sources(board, store_bytes),
                *(f"board/{name}" for name in board.sources if not name.endswith(".h")),
            ),
            crt_folders=(
                *crt_folders(options),
                "platform",
                "baremetal",
                *(("libc",) if toolchain.own_headers else ()),
            ),
            crt_without=_of_others(isa, ["baremetal/memory.c", *isa.sources]),
            definitions=_server_limits(board) if options.app == "rpc" else (),
            toolchain="board/toolchain.cmake",
            cmsis_nn_includes=cmsis_nn_includes(options),
            values={
                **store_values(board, store_bytes),
                "stack_bytes": context["stack_bytes"],
                "has_baud": uart.max_baud is not None,
                "has_window": board.rpc.window_bytes > 0,
                "has_caches": cpu is not None and cpu.caches,
                "caches": board.caches,
                "link_flags": toolchain.link_flags,
                "own_headers": toolchain.own_headers,
                "own_libm": toolchain.own_libm,
                "links_alone": not toolchain.is_gnu and not toolchain.linker,
                "runtime_includes": ("crt/baremetal", f"crt/baremetal/{isa.name}"),
            },
        )

    @property
    def emulator_title(self) -> str:
        """See Target."""
        from mlf_sdk.targets.unicorn.launch import emulator_title

        return emulator_title(self.board) if self.board.qemu is not None else ""

    def check_emulator(self) -> None:
        """See CmakeTarget."""
        from mlf_sdk.targets.unicorn.launch import check_emulator

        check_emulator(self.board)

    def open(
        self, image: Path | None, *, timeout_s: float, console: Log | None = None
    ) -> AbstractContextManager[Session]:
        """See Target."""
        from mlf_sdk.targets.launch import open_emulated  # sessions and numpy take time to load

        elf = self.image_to_start(image)
        return open_emulated(with_slots(self.board, elf), elf, timeout_s=timeout_s, console=console)

    def keep_slots(self, lock: Lock, image: Path) -> None:
        """See Target."""
        keep_emulated_slots(lock, self.board, image)

    @property
    def counts_instructions(self) -> bool:
        """See Target."""
        return self.board.qemu is not None

    def with_emulator(self, arguments: Iterable[str]) -> Target:
        """See Target."""
        return BaremetalTarget(
            with_arguments(self.board, arguments), board_file=self.board_file, toolchain=self.wanted
        )

    def runner(self, folder: Path, job: FlashChoice) -> RunnerRow:
        """See Target."""
        from mlf_sdk.targets.flashers.load import find_runner  # few commands flash

        if job.sign is not None:
            raise InputError("only the images of Zephyr projects are signed", where="--sign")
        runner = find_runner(job.runner, self.board, job.runner_file)
        if not self.image(folder).is_file():
            raise NotBuiltError(folder)
        return runner

    def flash(self, folder: Path, job: FlashChoice) -> FlashRun:
        """See Target."""
        from mlf_sdk.targets.flashers.execute import FlashJob, run_runner

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


def _code_memory(board: Board, options: ProjectOptions) -> Memory | None:
    if not options.place:
        return None
    from mlf_sdk.targets.boards.banks import code_memory  # few projects use several memories

    return code_memory(board, options.place)


def _server_limits(board: Board) -> tuple[str, ...]:
    window = (f"MLF_UART_RX_BYTES={board.rpc.window_bytes}",) if board.rpc.window_bytes else ()
    return (f"MLF_RPC_MAX_PAYLOAD={board.rpc.max_payload}", *window)


def _of_others(isa: Isa, needed: Collection[str]) -> tuple[str, ...]:
    """Files and folders of the runtime of other architectures alone, without those ``needed`` by all."""
    others = [one for one in load_isas().values() if one.name != isa.name]
    paths = [path for one in others for path in (f"baremetal/{one.name}", *one.sources)]
    return tuple(path for path in paths if path not in needed)
