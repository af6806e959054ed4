# SPDX-License-Identifier: Apache-2.0
"""Models survive pickle and JSON: those of every kind of archive, and real ones."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest

from archives import build, write
from mlf_sdk import frontends
from mlf_sdk.ir.model import Finding, Model, Overlap, Quantisation
from mlf_sdk.tools import serial
from toy_format import ToyFrontend, write_toy

REAL = sorted((Path(__file__).resolve().parents[2] / "examples").rglob("*.tar"))


def check(model: Model) -> None:
    assert pickle.loads(pickle.dumps(model)) == model
    data = serial.encode(model)
    assert serial.decode(data, Model) == model
    assert serial.encode(serial.decode(data, Model)) == data


@pytest.mark.parametrize("kind", ["graph", "aot-c", "aot-packed", "operator"])
def test_generated(tmp_path: Path, kind: str) -> None:
    check(frontends.load(write(build(kind=kind), tmp_path / "a.tar")))


def test_everything_that_a_model_can_say(tmp_path: Path) -> None:
    model = ToyFrontend().load(write_toy(tmp_path / "scale.toy"))
    known = Quantisation(scale=(0.1,), zero_point=(-128,))
    tensors = (
        *model.tensors[:1],
        dataclasses.replace(model.tensors[1], quantisation=known),
        *model.tensors[2:],
    )
    overlaps = (Overlap(input=1, output=0, distance_bytes=4),)
    steps = (dataclasses.replace(model.steps[0], overlaps=overlaps),)
    check(dataclasses.replace(model, tensors=tensors, steps=steps))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real(path: Path) -> None:
    check(frontends.load(path))


def test_examination(tmp_path: Path) -> None:
    found = frontends.examine(write(build(), tmp_path / "a.tar"))
    assert found.findings
    assert pickle.loads(pickle.dumps(found)) == found
    data = serial.encode(found.findings)
    assert serial.decode(data, tuple[Finding, ...]) == found.findings
