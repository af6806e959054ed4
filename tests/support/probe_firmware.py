# SPDX-License-Identifier: Apache-2.0
"""Builds the probe firmware for a board, from the platform's sources and templates alone."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.codegen.templates import template_text
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import board_flags, counter_source, cross_isa
from mlf_sdk.targets.boards.load import baremetal_context
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.process import run_process

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wcast-qual", "-Wundef", "-Wshadow"]
STRICT += ["-Wmissing-prototypes", "-Werror"]
PROBE = Path(__file__).parent / "firmware" / "probe.c"


def render(board: Board, folder: Path) -> None:
    context = baremetal_context(board)
    for name in ("linker.ld", "app.ld", "mlf_board.h"):
        (folder / name).write_bytes(template_text(f"baremetal/{name}.j2", context))


def platform_sources(board: Board) -> list[str]:
    assert board.uart is not None
    crt, isa = data_dir("crt"), cross_isa(board)
    names = ["startup", "stack", "exit", f"uart_{board.uart.driver}", "uart_rx"]
    common = [*(f"baremetal/{name}.c" for name in names), "platform/mlf_fault.c"]
    return [str(crt / name) for name in (*common, *isa.sources, counter_source(board))]


def compile_flags(board: Board, folder: Path) -> list[str]:
    crt = data_dir("crt")
    folders = (crt / "include", crt / "baremetal", crt / "baremetal" / cross_isa(board).name, folder)
    includes = [f"-I{path}" for path in folders]
    return [*board_flags(board), "-g", "-ffunction-sections", "-fdata-sections", "-fno-builtin", *includes]


def build(board: Board, folder: Path, *flags: str, sources: tuple[Path, ...] = (PROBE,)) -> Path:
    """The linked image; a warning of the compiler or the linker is an error."""
    folder.mkdir(parents=True, exist_ok=True)
    render(board, folder)
    elf = folder / "probe.elf"
    argv = [cross_isa(board).tools.c, "-O2", *compile_flags(board, folder), *STRICT, *flags]
    argv += [
        *platform_sources(board),
        *map(str, sources),
        "-nostartfiles",
        *cross_isa(board).linker_flags(board.cpu),
    ]
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
