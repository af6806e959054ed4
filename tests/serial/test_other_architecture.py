# SPDX-License-Identifier: Apache-2.0
"""An image of another architecture behind a port: it is never reported as the board that was named."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import mlf_sdk
from archives import Spec, build, write
from emulated import need_board_tools
from mlf_sdk.errors import MlfError
from mlf_sdk.reporting.proof import run_parts
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.ptyboard import start_pty_board
from mlf_sdk.targets.qemu import QemuOptions

pytestmark = [pytest.mark.toolchain, pytest.mark.qemu, pytest.mark.usefixtures("needs_qemu")]

NAMED, ANSWERS = "mps2-an386", "qemu-virt-rv32"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_board_tools(ANSWERS)
    return write(build(Spec()), tmp_path_factory.mktemp("port") / "tiny.tar")


@pytest.fixture(scope="module")
def port(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The pty of a RISC-V core that serves the model."""
    project = tmp_path_factory.mktemp("port") / "riscv"
    mlf_sdk.generate(archive, project, board=ANSWERS)
    image = mlf_sdk.build(project).elf
    with start_pty_board(find_board(ANSWERS), image, QemuOptions(icount_shift=0)) as pty:
        yield pty


def test_an_archive_is_run_and_no_board_is_named(archive: Path, port: str) -> None:
    inputs = {"x": np.ones((1, 8), np.float32)}
    report = mlf_sdk.run(archive, board=NAMED, port=port, inputs=inputs)
    assert report.outputs
    assert report.other_image
    out = io.StringIO()
    Console(file=out, width=150).print(*run_parts(report), sep="\n")
    said = out.getvalue()
    (board,) = [line for line in said.splitlines() if line.startswith("board")]
    assert board.split()[1:] == ["on", f"{port},", "not", "known"]
    assert not any(line.startswith("build") for line in said.splitlines())  # flash and RAM of an image
    assert not said.rstrip().endswith("PASS")


def test_a_project_of_the_named_board_is_refused(archive: Path, port: str, tmp_path: Path) -> None:
    mlf_sdk.generate(archive, tmp_path / "arm", board=NAMED)
    mlf_sdk.build(tmp_path / "arm")
    with pytest.raises(MlfError, match="the board runs another image of the same model"):
        mlf_sdk.run(tmp_path / "arm", port=port)


def test_the_image_that_runs_is_told(archive: Path, port: str, tmp_path: Path) -> None:
    mlf_sdk.generate(archive, tmp_path / "riscv", board=ANSWERS)
    mlf_sdk.build(tmp_path / "riscv")
    report = mlf_sdk.run(tmp_path / "riscv", port=port, inputs={"x": np.ones((1, 8), np.float32)})
    assert (report.board.name, report.other_image) == (ANSWERS, "")
