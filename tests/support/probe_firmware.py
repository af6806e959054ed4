# SPDX-License-Identifier: Apache-2.0
"""Builds the probe firmware for a board, from the platform's sources and templates alone."""

from __future__ import annotations

from pathlib import Path

import jinja2

from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.load import baremetal_context
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.process import run_process

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wcast-qual", "-Wundef", "-Wshadow"]
STRICT += ["-Wmissing-prototypes", "-Werror"]
PROBE = Path(__file__).parent / "firmware" / "probe.c"


def cpu_flags(board: Board) -> list[str]:
    fpu = [] if board.fpu == "none" else [f"-mfpu={board.fpu}"]
    return [f"-mcpu={board.cpu}", "-mthumb", f"-mfloat-abi={board.float_abi}", *fpu]


def render(board: Board, folder: Path) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("board_templates") / "baremetal"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    context = baremetal_context(board)
    for name in ("linker.ld", "app.ld", "mlf_board.h"):
        (folder / name).write_text(environment.get_template(f"{name}.j2").render(context))


def platform_sources(board: Board) -> list[str]:
    assert board.uart is not None
    names = [
        "startup",
        "vectors",
        "fault",
        "stack",
        "systick",
        "exit",
        f"uart_{board.uart.driver}",
        "uart_rx",
    ]
    own = [str(data_dir("crt") / "baremetal" / f"{name}.c") for name in names]
    return [
        *own,
        *(str(data_dir("crt") / "platform" / f"mlf_{name}.c") for name in ("fault", "fault_cortexm")),
    ]


def compile_flags(board: Board, folder: Path) -> list[str]:
    includes = [f"-I{data_dir('crt') / 'include'}", f"-I{folder}"]
    return [*cpu_flags(board), "-g", "-ffunction-sections", "-fdata-sections", *includes]


def build(board: Board, folder: Path, *flags: str, sources: tuple[Path, ...] = (PROBE,)) -> Path:
    """The linked image; a warning of the compiler or the linker is an error."""
    folder.mkdir(parents=True, exist_ok=True)
    render(board, folder)
    elf = folder / "probe.elf"
    argv = ["arm-none-eabi-gcc", "-O2", *compile_flags(board, folder), *STRICT, *flags]
    argv += [*platform_sources(board), *map(str, sources), "-nostartfiles", "--specs=nano.specs"]
    argv += [
        "-T",
        str(folder / "linker.ld"),
        "-L",
        str(folder),
        "-L",
        str(folder),
        "-Wl,--gc-sections",
        "-Wl,--fatal-warnings",
        "-o",
        str(elf),
    ]
    run_process(argv, timeout_s=60)
    return elf
