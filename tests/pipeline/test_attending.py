# SPDX-License-Identifier: Apache-2.0
"""Witnesses beside an open target: in step with it, within their time, and no longer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.judge.witnesses import panel
from mlf_sdk.judge.witnesses.reference import ReferenceSession
from mlf_sdk.judge.witnesses.witness import ModelFile
from mlf_sdk.pipeline.attending import AttendedModel, MeaningError
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.witness import Origin
from small_models import svdf, two_layers

RANDOM = np.random.default_rng(4)


class Device:
    """A target that computes what the reference does, plus ``error``."""

    def __init__(self, file: ModelFile, *, attached: bool = False) -> None:
        self.reference = ReferenceSession(file.graph)
        self.session = SimpleNamespace(runs=0)
        self.project = SimpleNamespace(target=SimpleNamespace(attached=attached))
        self.observer: Any = None
        self.error = 0

    def infer(self, x: np.ndarray[Any, Any], *, is_seen: bool = True) -> None:
        (y,) = self.reference.infer([x])
        self.session.runs += 1
        if is_seen:
            assert y is not None
            self.observer([x], [y + np.int8(self.error)])


@pytest.fixture(autouse=True)
def _reference_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel, "WITNESSES", (panel.Reference(),))


def start(
    path: Path, content: bytes, *, attached: bool = False, **options: Any
) -> tuple[AttendedModel, Device]:
    path.write_bytes(content)
    file = ModelFile(path, compiling_frontend(path), CompileOptions())
    model: Any = SimpleNamespace(name="m", outputs=[SimpleNamespace(name="y")])
    found = AttendedModel(Request().replace(**options), Origin(needed=True, file=file), model)
    device: Any = Device(file, attached=attached)
    found.attach(device)
    return found, device


def draw(count: int, *shape: int) -> Any:
    return RANDOM.integers(-100, 100, (count, *shape)).astype(np.int8)


def test_states_are_in_step_until_the_target_runs_unseen(tmp_path: Path) -> None:
    found, device = start(tmp_path / "m.tflite", svdf(0, 16, 8, 1, 6, 1, "int16"))
    for x in draw(3, 1, 16):
        device.infer(x)
    assert found.result().evidence == "reference" and found.result().wrong == ()
    device.infer(draw(1, 1, 16)[0], is_seen=False)
    device.infer(draw(1, 1, 16)[0])
    result = found.result()
    assert result.evidence == "reference (3 of 4 inferences)" and "something else than infer()" in result.why


def test_a_model_without_states_is_compared_whatever_ran_it(tmp_path: Path) -> None:
    found, device = start(tmp_path / "m.tflite", two_layers(), attached=True)
    device.infer(draw(1, 1, 8)[0], is_seen=False)
    device.infer(draw(1, 1, 8)[0])
    assert found.result().evidence == "reference" and found.result().why == ""


def test_states_of_a_board_that_ran_before_are_not_known(tmp_path: Path) -> None:
    found, device = start(tmp_path / "m.tflite", svdf(0, 16, 8, 1, 6, 1, "int16"), attached=True)
    device.error = 1
    device.infer(draw(1, 1, 16)[0])
    result = found.result()
    assert result.is_lacking and "the board was not started for these inferences" in result.lack


def test_a_difference_is_an_error_and_stays_in_the_result(tmp_path: Path) -> None:
    found, device = start(tmp_path / "m.tflite", two_layers())
    device.infer(draw(1, 1, 8)[0])
    device.error = 1
    with pytest.raises(MeaningError, match=r"model m: .* reference: 'y' differs in [1-8] of 8 elements"):
        device.infer(draw(1, 1, 8)[0])
    device.error = 0
    device.infer(draw(1, 1, 8)[0])
    assert found.result().wrong == ("reference",) and found.inferences == 3


def test_a_witness_whose_time_is_over(tmp_path: Path) -> None:
    """It is asked of one inference, and never again: its states are behind."""
    found, device = start(tmp_path / "m.tflite", two_layers(), witness_s=0.0)
    for x in draw(3, 1, 8):
        device.infer(x)
        device.error = 1
    assert found.result().evidence == "reference (1 of 3 inferences)" and found.result().wrong == ()


def test_a_target_is_not_observed_after_the_end(tmp_path: Path) -> None:
    found, device = start(tmp_path / "m.tflite", two_layers())
    found.close()
    assert device.observer is None
