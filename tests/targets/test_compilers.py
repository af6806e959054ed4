# SPDX-License-Identifier: Apache-2.0
"""Compilers of a build: one that leaves out a core's instructions is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli_helpers import Caller
from tflite_models import small_network

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(small_network())
    return path


@pytest.mark.parametrize(
    ("board", "flags", "says"),
    [
        (
            "mps2-an386",
            "-O2 -mcpu=cortex-m3",
            "makes no DSP instructions for the cortex-m4 (__ARM_FEATURE_DSP not",
        ),
        ("mps3-an547", "-O2 -mcpu=cortex-m55+nomve", "makes no MVE instructions for the cortex-m55"),
        ("mps2-an386", "-O2", ""),
    ],
)
def test_instructions_that_are_left_out(
    board: str, flags: str, says: str, network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("generate", network, "-o", tmp_path / "project", "--board", board, f"--cflags={flags}")
    result = Caller(capsys)(*given)
    assert (result.code == 0) is not bool(says)
    assert says in " ".join(result.err.split())
    if says:
        assert f"({flags})" in " ".join(result.err.split())
        assert Caller(capsys)(*given, "--asm", "no").code == 0


def test_kernels_of_another_core_may_be_plain_c(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--board", "mps2-an385", "--core", "cortex-m4")
    assert Caller(capsys)("generate", network, "-o", tmp_path / "project", *given).code == 0
