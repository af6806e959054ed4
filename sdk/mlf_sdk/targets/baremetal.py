# SPDX-License-Identifier: Apache-2.0
"""Bare metal: a board without an operating system, emulated by QEMU if its row describes a machine."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles
from mlf_sdk.codegen.templates import template_text
from mlf_sdk.errors import InputError, NotBuiltError
from mlf_sdk.targets.boards.check import CPUS_WITH_CACHES
from mlf_sdk.targets.boards.load import baremetal_context
from mlf_sdk.targets.boards.row import Board, with_arguments
from mlf_sdk.targets.boards.store import store_values
from mlf_sdk.targets.compilers import board_flags, cmsis_nn_includes
from mlf_sdk.targets.host import CmakeTarget, crt_folders
from mlf_sdk.targets.qemu import QEMU
from mlf_sdk.targets.slots import keep_emulated_slots, with_slots
from mlf_sdk.targets.target import Ability, FlashChoice, Log, Target

if TYPE_CHECKING:
    from mlf_sdk.targets.flashers.execute import FlashRun
    from mlf_sdk.targets.flashers.row import RunnerRow
    from mlf_sdk.wire.session import Session


class BaremetalTarget(CmakeTarget):
    """A board without an operating system."""

    def __init__(self, board: Board, *, name: str | None = None, board_file: Path | None = None) -> None:
        super().__init__(board, name=name, board_file=board_file)
        self.abilities = (
            Ability.BUILD | Ability.FLASH | (Ability.START | Ability.KEEP if board.qemu else Ability(0))
        )
        self.emulator = QEMU if board.qemu else None

    @property
    def compilers(self) -> tuple[tuple[str, ...], ...]:
        """See CmakeTarget."""
        return ("arm-none-eabi-gcc",), ("arm-none-eabi-objcopy",)

    def _platform(self, options: ProjectOptions, store_bytes: int) -> PlatformFiles:
        board = self.board
        context, flags = baremetal_context(board), {"flags": board_flags(board)}
        uart = board.uart
        if uart is None:
            raise InputError(
                "the board row has no [uart]", where=f"board {board.name}", hint="Add one to the row."
            )
        sources = ["startup", "vectors", "fault", "stack", "systick", "exit"]
        sources += [f"uart_{uart.driver}", "uart_rx"] if uart.driver != "own" else []
        sources += ["memory"] if options.app == "standalone" else []
        return PlatformFiles(
            board=board.name,
            title=board.title,
            is_host=False,
            files={
                "board/linker.ld": template_text("baremetal/linker.ld.j2", context),
                "board/mlf_board.h": template_text("baremetal/mlf_board.h.j2", context),
                "app.ld": template_text("baremetal/app.ld.j2", context),
                "board/toolchain.cmake": template_text("baremetal/toolchain.cmake.j2", flags),
            },
            runtime_sources=(
                *(f"crt/platform/mlf_{name}.c" for name in ("build_id", "fault", "fault_cortexm")),
                *(f"crt/baremetal/{name}.c" for name in sources),
                *(f"board/{name}" for name in board.sources if not name.endswith(".h")),
            ),
            crt_folders=(*crt_folders(options), "platform", "baremetal"),
            definitions=_server_limits(board) if options.app == "rpc" else (),
            toolchain="board/toolchain.cmake",
            cmsis_nn_includes=cmsis_nn_includes(options),
            values={
                **store_values(board, store_bytes),
                "stack_bytes": board.stack_bytes,
                "has_baud": uart.max_baud is not None,
                "has_window": board.rpc.window_bytes > 0,
                "has_caches": board.cpu.split("+")[0] in CPUS_WITH_CACHES,
                "caches": board.caches,
            },
        )

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
        return BaremetalTarget(with_arguments(self.board, arguments), board_file=self.board_file)

    def runner(self, folder: Path, job: FlashChoice) -> RunnerRow:
        """See Target."""
        from mlf_sdk.targets.flashers.load import find_runner  # few commands flash

        if job.sign is not None:
            raise InputError("only the images of Zephyr projects are signed", where="--sign")
        found = find_runner(job.runner, self.board, job.runner_file)
        if not self.image(folder).is_file():
            raise NotBuiltError(folder)
        return found

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


def _server_limits(board: Board) -> tuple[str, ...]:
    window = (f"MLF_UART_RX_BYTES={board.rpc.window_bytes}",) if board.rpc.window_bytes else ()
    return (f"MLF_RPC_MAX_PAYLOAD={board.rpc.max_payload}", *window)
