# SPDX-License-Identifier: Apache-2.0
"""Models that fit no single memory of a chip, divided between several: run, and proven in each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import mlf_sdk
from emulated import missing_board_tools
from large_models import mcunet_like, movenet_like
from mlf_sdk.errors import DoesNotFitError, InputError
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.targets.boards.load import load_board
from tflite_models import small_network

ROWS = Path(__file__).with_name("rows")
H743, RT1060 = "an547-h743", "an500-rt1060"
BASE = {H743: "mps3-an547", RT1060: "mps2-an500"}

pytestmark = [pytest.mark.toolchain, pytest.mark.qemu, pytest.mark.usefixtures("needs_host")]


def run(tmp_path: Path, make: Callable[[], bytes], board: str, **options: object) -> RunReport:
    if missing := missing_board_tools(BASE[board]):
        pytest.skip(f"not installed: {missing}")
    model = tmp_path / "large.tflite"
    model.write_bytes(make())
    return mlf_sdk.run(model, board=board, board_file=ROWS / f"{board}.toml", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("board", [H743, RT1060])
@pytest.mark.parametrize("make", [mcunet_like, movenet_like])
def test_a_model_that_no_single_memory_holds_runs_and_each_arena_is_proven(
    tmp_path: Path, make: Callable[[], bytes], board: str
) -> None:
    row = load_board(ROWS / f"{board}.toml")
    report = run(tmp_path, make, board, place=["auto"], twin=False)  # TFLM and the reference are compared
    assert report.ok and report.agrees
    fast = [m.size_bytes for m in row.memories if m.kind == "ram" and m.name != "sdram"]
    assert board == RT1060 or report.memory.lower_bound_bytes > max(fast)
    rows = {row.item: row for row in report.check.rows if row.item.startswith("arena ")}
    assert len(rows) > 1
    for one in rows.values():
        assert one.state == "proven" and one.planned == one.measured
    assert report.memory.arena_high_water_bytes == report.memory.arena_bytes


@pytest.mark.parametrize(
    ("board", "pins", "items"),
    [
        (H743, "weights=axi,arena=sram", {"arena sram", "weights axi"}),
        (H743, "code=itcm,weights=flash", {"code itcm", "weights flash"}),
        (RT1060, "code=itcm,arena=ocram", {"code itcm", "arena ocram"}),  # a RAM: start-up copies the kernels
    ],
)
def test_pins_hold_in_the_image(tmp_path: Path, board: str, pins: str, items: set[str]) -> None:
    report = run(tmp_path, small_network, board, place=[pins])
    assert report.ok and report.agrees
    states = {row.item: row.state for row in report.check.rows}
    assert {states[item] for item in items} == {"proven"}


def test_what_a_board_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no memory 'ocram' for weights"):
        run(tmp_path, small_network, H743, place=["weights=ocram"])
    with pytest.raises(InputError, match="has no memory 'dtcm' for code"):
        run(tmp_path, small_network, H743, place=["code=dtcm"])
    with pytest.raises(DoesNotFitError, match=r"bytes of RAM at one time|more than any memory has"):
        run(tmp_path, movenet_like, H743, place=["arena=dtcm"])
    with pytest.raises(InputError, match="memories of host are not known"):
        mlf_sdk.run(tmp_path / "large.tflite", board="host", place=["auto"])
