# SPDX-License-Identifier: Apache-2.0
"""Archives of legal C that a plan could break, and of kernels that reach too far: run right, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysed import load_model
from archives import write
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.planner.layout import lay_out
from model_cases import PREAMBLE, Net
from plan_attacks import COPY, COUNT, IN_PLACE, REFUSED, RIGHT, chain, kernel
from planrun import PlanRun


def inputs_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    model = load_model(path)
    return {
        model.tensors[i].name: np.arange(model.tensors[i].elements, dtype=model.tensors[i].dtype.name) % 97
        for i in model.inputs
    }


def run_right(path: Path, inputs: dict[str, np.ndarray[Any, Any]], folder: Path) -> list[Any]:
    """Run in the plan's memory and with nothing shared; return the outputs of the first of three runs."""
    model = load_model(path)
    own, planned = PlanRun(model, folder / "own"), PlanRun(model, folder / "plan", lay_out(model))
    first = []
    for _ in range(3):
        want, got = own.run(inputs), planned.run(inputs)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_array_equal(a, b)
        first = first or got
    return first


@pytest.mark.parametrize("name", RIGHT)
def test_what_runs_right(name: str, tmp_path: Path) -> None:
    path = write(RIGHT[name], tmp_path / "a.tar")
    run_right(path, inputs_of(path), tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    files, reason = REFUSED[name]
    with pytest.raises(ArchiveError, match=reason):
        load_model(write(files, tmp_path / "a.tar"))


def test_parameters_and_inputs_that_are_kept_are_not_written(tmp_path: Path) -> None:
    path = write(chain(COPY, first=COPY + IN_PLACE.replace("2048", "256")), tmp_path / "a.tar")
    model = load_model(path)
    assert model.steps[0].writes == (0,)
    with pytest.raises(InputError, match="writes to its input 'x'"):
        lay_out(model, keep_inputs=True)
    net = Net("a")
    weights = net.constant("w", np.arange(COUNT, dtype=np.int32))
    out = net.call("k", [weights], shape=(COUNT,), define=False)
    text = PREAMBLE + kernel("tvmgen_a_k", 1, COPY + IN_PLACE.replace("2048", "256"))
    files = {**net.files(out), "codegen/host/src/a_lib1.c": text.encode()}
    with pytest.raises(InputError, match="writes to the constant 'w'"):
        load_model(write(files, tmp_path / "w.tar"))


ATTACKS = Path(__file__).resolve().parents[3] / "shared" / "attacks"
LEGAL = ("opt_header", "decoy_static", "globptr", "inplace", "stateful", "ext_addr")
BROKEN = ("half_arr", "desig", "bigger_kernel", "overrun1", "byte4")


@pytest.mark.skipif(not ATTACKS.is_dir(), reason="the shared archives are not here")
@pytest.mark.parametrize("name", LEGAL)
def test_shared_archives_run_right(name: str, tmp_path: Path) -> None:
    folder = ATTACKS / name
    got = run_right(folder / f"{name}.tar", dict(np.load(folder / "in.npz")), tmp_path)
    for expected, found in zip(np.load(folder / "out.npz").values(), got, strict=True):
        np.testing.assert_array_equal(expected.ravel(), found)


@pytest.mark.skipif(not ATTACKS.is_dir(), reason="the shared archives are not here")
@pytest.mark.parametrize("name", BROKEN)
def test_shared_archives_are_refused(name: str) -> None:
    with pytest.raises(ArchiveError, match=r"reaches|workspace of"):
        load_model(ATTACKS / name / f"{name}.tar")
