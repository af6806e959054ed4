# SPDX-License-Identifier: Apache-2.0
"""What doctor says of an archive on a board: each finding, and none where nothing is odd."""

from __future__ import annotations

from pathlib import Path

import pytest

from archives import build, edit_json, write
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Finding
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.process import run_process
from planning import examine

SOURCE = "codegen/host/src/tiny_lib1.c"


def on_board(files: dict[str, bytes], board: str, folder: Path) -> tuple[bool, list[Finding]]:
    """Whether it can be deployed there, and what a board adds to the findings."""
    path = write(files, folder / "odd.tar")
    found = examine(path, board=board)
    assert found.board == board
    common = examine(path).findings
    assert found.findings[: len(common)] == common
    return found.ok, list(found.findings[len(common) :])


@pytest.mark.parametrize("board", ["microbit", "mps2-an386", "mps3-an547", "host"])
def test_nothing_odd(board: str, tmp_path: Path) -> None:
    assert on_board(build(), board, tmp_path) == (True, [])


def test_an_unknown_board(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-such-board"):
        examine(write(build(), tmp_path / "tiny.tar"), board="no-such-board")


def test_dsp_instructions(tmp_path: Path) -> None:
    files = build()
    files[SOURCE] = b"#include <arm_nnsupportfunctions.h>\n" + files[SOURCE]
    ok, (finding,) = on_board(files, "mps2-an385", tmp_path)
    assert not ok
    assert finding.blocks
    assert finding.what == (
        "its kernels use the DSP instructions, which the cortex-m3 of mps2-an385 does not have"
    )
    assert on_board(files, "mps2-an386", tmp_path) == (True, [])


def test_cmsis_nn_without_scratch(tmp_path: Path) -> None:
    files = build()
    context = (
        b"#include <arm_nnfunctions.h>\nstatic int f(void) {\n  cmsis_nn_context context= {NULL,0};\n}\n"
    )
    files[SOURCE] = context + files[SOURCE]
    ok, (finding,) = on_board(files, "mps2-an386", tmp_path)
    assert (ok, finding.blocks) == (False, True)
    assert "no scratch buffers" in finding.what
    assert on_board(files, "mps2-an385", tmp_path) == (True, [])
    files[SOURCE] = files[SOURCE].replace(b"{NULL,0}", b"{buffer,64}")
    assert on_board(files, "mps2-an386", tmp_path) == (True, [])


@pytest.mark.parametrize(
    ("board", "says"),
    [
        ("microbit", "has no FPU"),
        ("mps2-an386", "has an FPU for float only (fpv4-sp-d16)"),
        ("mps2-an500", ""),
        ("mps3-an547", ""),
    ],
)
def test_doubles(board: str, says: str, tmp_path: Path) -> None:
    files = build()
    files[SOURCE] = files[SOURCE].replace(b"float v =", b"double v =")
    ok, found = on_board(files, board, tmp_path)
    assert ok
    assert [o.what for o in found] == ([f"computes in double; {board} {says}"] if says else [])
    assert all(o.where == SOURCE for o in found)


def test_memory_that_is_too_small(tmp_path: Path) -> None:
    files = build()
    files[SOURCE] = files[SOURCE].replace(b"(uint64_t)40", b"(uint64_t)40000")
    ok, (finding,) = on_board(files, "microbit", tmp_path)
    assert not ok
    assert finding.what.startswith("it does not fit: it needs at least")
    assert on_board(files, "mps2-an386", tmp_path) == (True, [])


# ---- objects ----


def with_object(folder: Path, *flags: str) -> dict[str, bytes]:
    """The tiny archive with its kernels as a ready-made object."""
    files = build()
    source, made = folder / "kernels.c", folder / "kernels.o"
    source.write_bytes(files.pop(SOURCE))
    del files["codegen/host/src/tiny_lib0.c"]
    argv = ["arm-none-eabi-gcc", "-mthumb", "-O2", *flags, f"-I{data_dir('crt') / 'include'}"]
    run_process([*argv, "-c", str(source), "-o", str(made)], timeout_s=30)
    return edit_json(
        {**files, "codegen/host/lib/tiny_lib1.o": made.read_bytes()},
        "metadata.json",
        lambda top: top["modules"]["tiny"].update(target=["llvm -device=arm_cpu"]),
    )


@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_arm")
class TestObjects:
    def test_soft_float_arguments_on_a_board_with_hard_floats(self, tmp_path: Path) -> None:
        files = with_object(tmp_path, "-mcpu=cortex-m4", "-mfloat-abi=soft")
        ok, (finding,) = on_board(files, "mps2-an386", tmp_path)
        assert (ok, finding.blocks) == (False, True)
        assert finding.what == "it passes floats in integer registers; the board's float ABI is hard"

    def test_floats_in_software_on_a_board_with_an_fpu(self, tmp_path: Path) -> None:
        files = with_object(tmp_path, "-mcpu=cortex-m3", "-mfloat-abi=soft")
        board = tmp_path / "own.toml"
        row = (data_dir("board_templates") / "boards" / "mps2-an386.toml").read_text()
        row = row.replace('name = "mps2-an386"', 'name = "own"').replace('"hard"', '"soft"')
        board.write_text(row)
        found = examine(write(files, tmp_path / "soft.tar"), board="own", board_file=board)
        assert found.ok
        assert found.findings[-1].what == "computes floats in software; own has an FPU (fpv4-sp-d16)"
        assert on_board(files, "mps2-an385", tmp_path) == (True, [])

    def test_code_for_another_cpu(self, tmp_path: Path) -> None:
        files = with_object(tmp_path, "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
        assert on_board(files, "mps2-an386", tmp_path) == (True, [])
        ok, found = on_board(files, "microbit", tmp_path)
        assert not ok
        assert "which a cortex-m0 does not run" in found[0].what
        assert any("the board has no FPU" in o.what for o in found)
