# SPDX-License-Identifier: Apache-2.0
"""A model with states on a port: a board that ran it before has others than a witness that starts now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.evidence import NOT_COMPARED
from mlf_sdk.judge.witnesses import panel
from mlf_sdk.judge.witnesses.panel import WitnessStatement
from mlf_sdk.pipeline.witness import RESET, Origin, WitnessedCases
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.qemu import start_qemu
from serial_helpers import SocketBridge
from small_models import svdf

pytestmark = pytest.mark.qemu
BOARD = "mps2-an386"
X = np.random.default_rng(4).integers(-128, 128, (3, 1, 8)).astype(np.int8)


@dataclass(frozen=True)
class Place:
    """A board on a port that runs the image of a project."""

    model: Path
    folder: Path
    port: str

    def run(self, **options: Any) -> Any:
        return mlf_sdk.run(
            self.folder,
            port=self.port,
            model_file=str(self.model),
            inputs={"x": X},
            timeout_s=30.0,
            **options,
        )


@pytest.fixture
def place(tmp_path: Path, needs_qemu: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(panel, "WITNESSES", (panel.Reference(),))
    model = tmp_path / "svdf.tflite"
    model.write_bytes(svdf(1, 8, 4, 1, 5, 1, "int8"))
    folder = tmp_path / "app"
    mlf_sdk.generate(model, folder, board=BOARD)
    mlf_sdk.build(folder)
    with start_qemu(find_board(BOARD), folder / "build" / "app.elf") as machine:
        bridge = SocketBridge(machine.socket)
        try:
            yield Place(model, folder, bridge.path)
        finally:
            bridge.close()


def test_a_board_that_ran_the_model_before_is_not_wrong(place: Place) -> None:
    """From a fresh start it agrees; behind that its states are other ones, which no comparison proves wrong."""
    fresh = place.run()
    assert fresh.verdict == "PASS" and fresh.witnessed.evidence == "reference"
    again = place.run()
    assert again.verdict == NOT_COMPARED
    assert not again.witnessed.wrong and again.witnessed.lack == f"reference: {RESET}"
    assert not np.array_equal(next(iter(fresh.outputs.values())), next(iter(again.outputs.values())))
    twin = place.run(twin=True, archive=str(place.model))
    assert twin.twin is None and twin.twin_note == RESET and twin.verdict == NOT_COMPARED


def test_cases_of_a_board_that_ran_the_model_before() -> None:
    """No case is wrong by a witness that starts with other states."""
    got = {"y": np.ones((1, 2), np.int8)}
    said = WitnessStatement(
        witness="reference", outputs={"y": got["y"] + np.int8(1)}, tolerances={"y": Tolerance()}, inferences=1,
        asked=1,
    )  # fmt: skip
    for reason, wrong in (("", "reference"), (RESET, "")):
        cases = WitnessedCases(Origin(needed=True, out_of_step=reason), [said])
        assert cases.judge(0, got) == wrong
        found = cases.result()
        assert found.is_lacking is bool(reason) and found.wrong == (() if reason else ("reference",))
