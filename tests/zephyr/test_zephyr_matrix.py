# SPDX-License-Identifier: Apache-2.0
"""With a Zephyr tree: archives on boards, each run over RPC, equal to the host twin, its memory as planned."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.output import has_option
from zephyr_trees import zephyr_options

pytestmark = [pytest.mark.zephyr, pytest.mark.qemu, pytest.mark.slow, pytest.mark.usefixtures("zephyr_tools")]

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
BOARDS = ("qemu_cortex_m3", "mps2_an385", "mps2/an521/cpu0", "native_sim", "native_sim_64")


@dataclass(frozen=True, kw_only=True)
class Case:
    """An archive, small enough for 64 KiB of RAM. Those of shared/mlf call expf, logf and tanhf."""

    file: str
    module: str | None = None
    inputs: str | None = None


CASES = {
    "digits-graph": Case(file="digits-graph-tvm0.11.1.tar", inputs="test.npz"),
    "digits-aot": Case(file="digits-aotc-tvm0.11.1.tar", inputs="test.npz"),
    "conv1d-graph": Case(file="conv1d-graph-tvm0.11.1.tar"),
    "lstm-aot": Case(file="multi_lstm_conv1d-aotc-tvm0.11.1.tar", module="lstm"),
}


def assert_proven(report: RunReport) -> None:
    """Outputs equal, symbols and the arena's mark as planned, the stack inside its bounds."""
    assert report.ok
    assert report.twin is not None
    assert report.twin.ok
    assert report.check.ok
    assert {row.item for row in report.check.rows} >= {"arena", "functions"}
    assert report.memory.arena_high_water_bytes == report.memory.arena_bytes > 0
    if report.board.zephyr.native:
        assert report.memory.stack_high_water_bytes is None
        return
    assert report.memory.stack_bytes == report.board.stack_bytes
    assert 0 < (report.memory.stack_high_water_bytes or 0) < report.board.stack_bytes
    assert {region.name for region in report.check.regions} >= {"FLASH"}


def need_32_bit(folder: Path) -> None:
    done = subprocess.run(
        ["cc", "-m32", "-x", "c", "-", "-o", folder / "a"], input=b"int main(void){}", capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("the compiler makes no 32-bit programs: install gcc-multilib")


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", CASES)
def test_matrix(
    name: str, board: str, real_setup: ZephyrSetup, tmp_path: Path, request: pytest.FixtureRequest
):
    case = CASES[name]
    if board == "native_sim":
        need_32_bit(tmp_path)
    archive = DIGITS / case.file
    if not archive.is_file():
        archive = request.getfixturevalue("shared_mlf") / case.file
    inputs = DIGITS / case.inputs if case.inputs else None
    report = mlf_sdk.run(
        archive,
        module=case.module,
        board=board,
        inputs=inputs,
        expect=inputs,
        rtol=1e-4,
        twin=True,
        platform="zephyr",
        **zephyr_options(real_setup),
    )
    assert_proven(report)
    if inputs is not None:
        assert report.inferences == 360
        assert (report.accuracy or 0) > 0.96


@pytest.mark.shared
def test_a_large_one(shared_mlf: Path, real_setup: ZephyrSetup):
    archive = shared_mlf / "resnet8_int8-aotc-tvm0.11.1.tar"
    assert_proven(
        mlf_sdk.run(archive, board="mps2_an521", twin=True, platform="zephyr", **zephyr_options(real_setup))
    )


def test_the_fpu_is_on_where_there_is_one(real_setup: ZephyrSetup):
    archive = DIGITS / "digits-graph-tvm0.11.1.tar"
    report = mlf_sdk.run(
        archive, board="mps3-an547", twin=True, platform="zephyr", **zephyr_options(real_setup)
    )
    assert_proven(report)
    assert has_option(report.folder / "build", "FPU")
    assert has_option(report.folder / "build", "FPU_SHARING")


def test_the_fpu_can_be_left_off(real_setup: ZephyrSetup, tmp_path: Path):
    app = tmp_path / "app"
    archive = write(build(Spec()), tmp_path / "tiny.tar")
    mlf_sdk.generate(archive, app, board="mps3-an547", platform="zephyr", **zephyr_options(real_setup))
    with (app / "prj.conf").open("a") as file:
        file.write("CONFIG_FPU=n\n")
    mlf_sdk.build(app, **zephyr_options(real_setup))
    assert not has_option(app / "build", "FPU")
