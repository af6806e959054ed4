# SPDX-License-Identifier: Apache-2.0
"""What each platform adds to a project: files, sources, flags."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.codegen.dynamic import DYNAMIC_FOLDERS
from mlf_sdk.codegen.lock import Lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles, template_text
from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.check import CPUS_WITH_CACHES
from mlf_sdk.targets.boards.load import Board, baremetal_context
from mlf_sdk.targets.boards.store import store_values
from mlf_sdk.targets.cmake import APP_ELF
from mlf_sdk.targets.zephyr.build import built_image
from mlf_sdk.targets.zephyr.files import ZephyrNaming, zephyr_files

_BAREMETAL = "crt/baremetal"


def platform_files(
    board: Board, options: ProjectOptions, zephyr: ZephyrNaming | None = None, *, store_bytes: int = 0
) -> PlatformFiles:
    """The platform's part of a project for ``board``.

    Args:
        zephyr: on Zephyr, for which version of it.
        store_bytes: bytes of all slots for parameters (dynamic executor).
    """
    if zephyr is not None:
        return zephyr_files(board, options, zephyr, cmsis_nn_includes=_cmsis_includes(options))
    if options.app == "library":
        return _library(board, options)
    folders = (
        "include",
        "src",
        *(("rpc",) if options.app == "rpc" else ()),
        *(("cmsis",) if options.cmsis_nn is not None else ()),
        *(DYNAMIC_FOLDERS if options.executor == "graph" else ()),
    )
    if board.platform == "host":
        return PlatformFiles(
            board=board.name,
            title=board.title,
            is_host=True,
            files={},
            runtime_sources=("crt/platform/mlf_fault.c", "crt/host/build_id.c", "crt/host/platform.c"),
            crt_folders=(*folders, "platform", "host"),
            definitions=("MLF_RPC_MAX_PAYLOAD=4096",) if options.app == "rpc" else (),
            values={
                **store_values(board, store_bytes),
                "has_baud": False,
                "has_window": False,
                "has_caches": False,
            },
        )
    context = baremetal_context(board)
    if board.uart is None:
        raise InputError(
            "the board row has no [uart]", where=f"board {board.name}", hint="Add one to the row."
        )
    sources = ["startup", "vectors", "fault", "stack", "systick", "exit"]
    own = [f"board/{name}" for name in board.sources if not name.endswith(".h")]
    if board.uart.driver != "own":
        sources += [f"uart_{board.uart.driver}", "uart_rx"]
    return PlatformFiles(
        board=board.name,
        title=board.title,
        is_host=False,
        files={
            "board/linker.ld": template_text("baremetal/linker.ld.j2", context),
            "board/mlf_board.h": template_text("baremetal/mlf_board.h.j2", context),
            "app.ld": template_text("baremetal/app.ld.j2", context),
            "board/toolchain.cmake": template_text("baremetal/toolchain.cmake.j2", _toolchain(board)),
        },
        runtime_sources=(
            *(f"crt/platform/mlf_{name}.c" for name in ("build_id", "fault", "fault_cortexm")),
            *(f"{_BAREMETAL}/{name}.c" for name in sources),
            *own,
        ),
        crt_folders=(*folders, "platform", "baremetal"),
        definitions=_server_limits(board) if options.app == "rpc" else (),
        toolchain="board/toolchain.cmake",
        cmsis_nn_includes=_cmsis_includes(options),
        values={
            **store_values(board, store_bytes),
            "stack_bytes": board.stack_bytes,
            "has_baud": board.uart.max_baud is not None,
            "has_window": board.rpc.window_bytes > 0,
            "has_caches": board.cpu.split("+")[0] in CPUS_WITH_CACHES,
            "caches": board.caches,
        },
    )


def _library(board: Board, options: ProjectOptions) -> PlatformFiles:
    """Runtime and models for a CMake application that exists: nothing of the board but its name."""
    if options.executor == "graph":
        raise InputError(
            "a library has the static executor", where="--executor", hint="Leave out --library or --executor."
        )
    return PlatformFiles(
        board=board.name,
        title=board.title,
        is_host=board.platform == "host",
        files={},
        runtime_sources=(),
        crt_folders=("include", "src", *(("cmsis",) if options.cmsis_nn is not None else ())),
        cmsis_nn_includes=_cmsis_includes(options),
        templates={
            "CMakeLists.txt": "common/library_CMakeLists.txt.j2",
            "README.md": "common/library_README.md.j2",
        },
    )


def _server_limits(board: Board) -> tuple[str, ...]:
    window = (f"MLF_UART_RX_BYTES={board.rpc.window_bytes}",) if board.rpc.window_bytes else ()
    return (f"MLF_RPC_MAX_PAYLOAD={board.rpc.max_payload}", *window)


def image_path(folder: Path, lock: Lock) -> Path:
    """Path of the linked image of the project in ``folder``, built or not.

    Raises:
        InputError: the project was built with sysbuild.
    """
    return built_image(folder) if lock.zephyr is not None else folder / "build" / APP_ELF


def regions_of(board: Board) -> tuple[tuple[str, int, int], ...]:
    """The board's memories as (name, origin, size in bytes)."""
    return tuple((m.name, m.origin, m.size_bytes) for m in board.memories)


def _toolchain(board: Board) -> dict[str, object]:
    flags = [f"-mcpu={board.cpu}", "-mthumb", f"-mfloat-abi={board.float_abi}"]
    if board.fpu != "none":
        flags.append(f"-mfpu={board.fpu}")
    return {"flags": flags}


def _cmsis_includes(options: ProjectOptions) -> tuple[str, ...]:
    if options.cmsis_nn is None:
        return ()
    include = options.cmsis_nn / "Include"
    folders = sorted({p.parent for p in include.rglob("*.h")})
    return (*(p.as_posix() for p in folders), "crt/cmsis")
