# SPDX-License-Identifier: Apache-2.0
"""The digits example on every board: outputs, accuracy, and the memory that was promised."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from emulated import missing_board_tools, start_qemu
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.targets.boards.load import find_board, load_boards
from mlf_sdk.tools.process import run_process

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples/digits/digits-graph-tvm0.11.1.tar"
AOT = ROOT / "examples/digits/digits-aotc-tvm0.11.1.tar"
OLD = ROOT / "examples/digits/digits-graph-tvm0.8.0.tar"
IMAGES = 12
EMULATED = [
    *("mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps2-an521", "mps3-an547", "microbit"),
    *(
        "qemu-virt-rv32",
        "qemu-virt-rv32imc",
        "qemu-virt-rv32-zve32x",
        "hifive1",
        "netduinoplus2",
        "lm3s6965evb",
    ),
]
TOO_SMALL = {"stm32vldiscovery"}  # 8 kB of RAM: tests/targets has smaller models
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}

pytestmark = [pytest.mark.toolchain, pytest.mark.usefixtures("needs_host")]


def emulated(*values: object) -> object:
    (board,) = [value for value in values if isinstance(value, str)]
    missing = missing_board_tools(board)
    return pytest.param(
        *values,
        marks=[pytest.mark.qemu, pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")],
    )


@cache
def images() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The first test images, and what must come out: PyTorch's outputs and the classes."""
    with np.load(ROOT / "examples/digits/test.npz") as file:
        arrays = {name: file[name][:IMAGES] for name in file.files}
    inputs = {name: value for name, value in arrays.items() if name not in ("label", "output", "0")}
    assert list(inputs) == ["image"]
    return inputs, {name: value for name, value in arrays.items() if name not in inputs}


def run(archive: Path, board: str, **more: object) -> RunReport:
    inputs, expected = images()
    return mlf_sdk.run(archive, board=board, inputs=inputs, expect=expected, **TOLERANCE, **more)  # type: ignore[arg-type]


@cache
def host_outputs() -> np.ndarray:
    """Outputs of the same images on this machine."""
    (outputs,) = mlf_sdk.run(DIGITS, board="host", inputs=images()[0]).outputs.values()
    return outputs


def check_outputs(report: RunReport) -> np.ndarray:
    """Everything that must hold of any run; returns the outputs."""
    assert report.ok
    assert report.inferences == IMAGES
    assert report.compare is not None
    assert sum(output.elements for output in report.compare.outputs) == IMAGES * 10
    assert report.compare.mismatches == 0
    assert 0 < report.compare.max_abs < 1e-3
    assert report.accuracy == 1.0
    (outputs,) = report.outputs.values()
    assert outputs.shape in ((IMAGES, 1, 10), (IMAGES, 10))  # the C interface knows sizes, not shapes
    assert len(np.unique(outputs, axis=0)) == IMAGES
    return outputs


def test_every_board_of_the_sdk_is_covered() -> None:
    assert set(load_boards()) >= {*EMULATED, "host"}
    assert {row.name for row in load_boards().values() if row.qemu is not None} == {*EMULATED, *TOO_SMALL}


def used_by_the_linker(project: Path) -> dict[str, int]:
    """Bytes of each memory as the linker prints them (--print-memory-usage), of a second link."""
    (project / "build/app.elf").unlink()
    said = run_process(["cmake", "--build", str(project / "build")], timeout_s=120).stdout
    units = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
    rows = re.findall(r"^ *(\w+): +(\d+) (B|KB|MB|GB) +\d+ (?:B|KB|MB|GB) +[\d.]+%", said, re.MULTILINE)
    return {name: int(count) * units[unit] for name, count, unit in rows}


@pytest.mark.parametrize("board", [*map(emulated, EMULATED), "host"])
def test_digits(board: str) -> None:
    report = run(DIGITS, board)
    outputs = check_outputs(report)
    memory = report.memory
    assert memory.arena_high_water_bytes == memory.arena_bytes == memory.lower_bound_bytes
    assert memory.params_bytes == 16_872
    assert report.board.name == board
    if board == "host":
        assert report.instructions is None
        return
    assert memory.stack_bytes is not None
    assert memory.stack_high_water_bytes is not None
    assert 100 < memory.stack_high_water_bytes < memory.stack_bytes
    bound = report.check.stack
    assert bound is not None and bound.is_complete
    assert memory.stack_high_water_bytes <= bound.bytes <= 1.25 * memory.stack_high_water_bytes
    assert report.check.allocators == ()
    assert report.instructions is not None
    assert 100_000 < report.instructions < 100_000_000
    flash = next(region for region in report.check.regions if region.name == "flash")
    assert 16_872 < flash.used_bytes < 100_000
    assert {r.name: r.used_bytes for r in report.check.regions} == used_by_the_linker(report.folder)
    np.testing.assert_array_equal(outputs, host_outputs())


@pytest.mark.parametrize(
    ("archive", "board"),
    [emulated(AOT, "mps2-an386"), emulated(AOT, "microbit"), emulated(OLD, "mps3-an547")],
)
def test_other_exports_of_the_same_model(archive: Path, board: str) -> None:
    report = run(archive, board)
    check_outputs(report)
    assert report.memory.arena_high_water_bytes == report.memory.arena_bytes


# ---- a user's own board ----


def own_row(folder: Path, **changes: str) -> Path:
    text = (ROOT / "board_templates/boards/mps2-an386.toml").read_text()
    for old, new in {'name = "mps2-an386"': 'name = "my-board"', "Arm MPS2+ AN386": "Mine"}.items():
        assert old in text
        text = text.replace(old, new, 1)
    for key, value in changes.items():
        text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
        assert count == 1
    path = folder / "my-board.toml"
    path.write_text(text)
    return path


@pytest.mark.qemu
@pytest.mark.usefixtures("needs_qemu")
def test_a_board_of_the_users_own(tmp_path: Path) -> None:
    """Its stack is what its row says, and a project of it remembers the row."""
    row = own_row(tmp_path, stack_bytes="3072")
    report = run(DIGITS, "my-board", board_file=row)
    check_outputs(report)
    assert (report.board.name, report.board.title) == ("my-board", "Mine: Cortex-M4F")
    assert report.memory.stack_bytes == 3072
    project = mlf_sdk.generate(DIGITS, tmp_path / "app", board="my-board", board_file=row)
    row.unlink()
    mlf_sdk.build(project.folder)
    again = mlf_sdk.run(project.folder, inputs=images()[0], expect=images()[1])
    check_outputs(again)
    assert again.memory.stack_bytes == 3072


def test_a_board_of_the_users_own_that_is_wrong(tmp_path: Path) -> None:
    row = own_row(tmp_path, cpu='"cortex-m0"', clock_hz="-1")
    with pytest.raises(InputError) as caught:
        mlf_sdk.generate(DIGITS, tmp_path / "app", board="my-board", board_file=row)
    assert str(row) in str(caught.value)
    assert "clock_hz" in str(caught.value)
    assert not (tmp_path / "app").exists()


# ---- standalone ----


def printed_outputs(console: str) -> list[np.ndarray]:
    lines = re.findall(r"^mlf: output (\d+) ([0-9a-f]+)\r?$", console, re.MULTILINE)
    assert [int(index) for index, _ in lines] == list(range(len(lines)))
    return [np.frombuffer(bytes.fromhex(data), np.float32) for _, data in lines]


@pytest.mark.parametrize("board", [emulated("mps2-an386"), emulated("microbit"), "host"])
def test_standalone(board: str, tmp_path: Path) -> None:
    """It prints, for the sample in it, the outputs that the served model gives for the same pattern."""
    options: dict[str, Any] = {"app": "standalone"}
    project = mlf_sdk.generate(DIGITS, tmp_path / "app", board=board, **options)
    built = mlf_sdk.build(project.folder)
    assert mlf_sdk.check(project.folder).ok
    if board == "host":
        console = run_process([str(built.elf)], timeout_s=30).stdout
    else:
        with start_qemu(find_board(board), built.elf, timeout_s=30) as machine:
            console = machine.read_until(b"mlf: done ").decode()
            console += machine.read_until(b"\n").decode()
    assert console.splitlines()[-1] == "mlf: done 0"
    assert re.match(r"mlf: model digits ok, ticks \d+\r?\n", console)
    served = mlf_sdk.run(DIGITS, board=board, twin=False)
    outputs = printed_outputs(console)
    assert len(outputs) == len(served.outputs) == 1
    np.testing.assert_array_equal(outputs[0], next(iter(served.outputs.values())).reshape(-1))
    assert np.unique(outputs[0]).size == 10
