# SPDX-License-Identifier: Apache-2.0
"""A board with sources of its own: they are checked, travel into the project, and stay inside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError
from mlf_sdk.targets.baremetal import BaremetalTarget
from mlf_sdk.targets.boards.check import row_faults
from mlf_sdk.targets.boards.load import load_board, own_sources

ROW = """
name = "mine"
title = "My board"
cpu = "cortex-m3"
clock_hz = 64_000_000
sources = ["uart_mine.c", "clock.S", "mine.h"]

[[memories]]
name = "flash"
kind = "flash"
origin = 0
size_bytes = 0x0010_0000

[[memories]]
name = "ram"
kind = "ram"
origin = 0x2000_0000
size_bytes = 0x0004_0000

[uart]
driver = "own"

[counter]
hz = 64_000_000
"""


def write(folder: Path, row: str = ROW) -> Path:
    for name in ("uart_mine.c", "clock.S", "mine.h"):
        (folder / name).write_text(f"/* {name} */\n")
    path = folder / "mine.toml"
    path.write_text(row)
    return path


def test_sources_travel_into_the_project_and_are_compiled(tmp_path: Path) -> None:
    path = write(tmp_path)
    row = load_board(path)
    files = own_sources(row, path)
    assert files["board/uart_mine.c"] == b"/* uart_mine.c */\n"
    assert sorted(files) == ["board/clock.S", "board/mine.h", "board/uart_mine.c"]
    platform = BaremetalTarget(row).files(ProjectOptions())
    assert platform.runtime_sources[-2:] == ("board/uart_mine.c", "board/clock.S")
    assert not any("uart_cmsdk" in source for source in platform.runtime_sources)
    assert b"MLF_UART_BASE" not in platform.files["board/mlf_board.h"]


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "clock.S").unlink()
    with pytest.raises(InputError, match="a source of the board can't be read") as caught:
        own_sources(load_board(path), path)
    assert caught.value.where == str(tmp_path / "clock.S")


def test_a_source_of_absurd_size_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    with (tmp_path / "mine.h").open("wb") as stream:
        stream.truncate((1 << 20) + 1)
    with pytest.raises(InputError, match="longer than"):
        own_sources(load_board(path), path)


@pytest.mark.parametrize("name", ["../uart.c", "/etc/passwd", "a/b.c", "uart", "-o.c", "a b.c", "x;.c", ".c"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, ROW.replace("uart_mine.c", name))
    with pytest.raises(InputError, match="sources"):
        load_board(path)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            '["uart_mine.c", "clock.S", "mine.h"]',
            '["mine.h"]',
            "sources: the UART's driver is the board's own",
        ),
        ('driver = "own"', 'driver = "cmsdk"', "uart.base: it is missing"),
    ],
)
def test_an_own_driver_needs_a_source_and_ours_an_address(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    path = write(tmp_path, ROW.replace(old, new))
    with pytest.raises(InputError, match=fault):
        load_board(path)


def test_the_uart_of_an_emulated_board_is_its_owners_business(tmp_path: Path) -> None:
    row = load_board(write(tmp_path, ROW + '\n[qemu]\nmachine = "netduino2"\n'))
    assert row_faults(row, None) == []
