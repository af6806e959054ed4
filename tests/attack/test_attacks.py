# SPDX-License-Identifier: Apache-2.0
"""Archives that attack the plan, through the proof: right or refused or failed, never proven and wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import ILLEGAL, LEGAL, Attack
from mlf_sdk.errors import MlfError
from mlf_sdk.judge.check import FAILED, PROVEN
from mlf_sdk.pipeline.cell import NOT_HERE, Cell, CellJob, Reference, run_cell, run_reference
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.twin import Twin

SHARED = Path(__file__).parents[3] / "shared" / "attacks"
NAMES = ("inplace", "decoy_static", "byte4", "fp_arith")  # one of each kind; `attacks` makes all but the last

pytestmark = [pytest.mark.toolchain, pytest.mark.qemu, pytest.mark.usefixtures("needs_qemu", "needs_host")]


def proven(archive: Path, inputs: dict[str, np.ndarray[Any, Any]]) -> tuple[Cell | None, Reference]:
    """Return the cell of an archive as ``proof`` makes it, None where it is refused, and its reference."""
    request = Request(source=(str(archive),), board="mps2-an386", inputs=inputs)
    try:
        reference = run_reference(request)
        twin = None if reference.outputs is None else Twin(reference.outputs, reference.evidence)
        cell = run_cell(CellJob(request=request, twin=twin, fault=reference.fault))
    except MlfError:
        return None, Reference()
    return cell, reference


@pytest.mark.parametrize("attack", LEGAL, ids=lambda attack: attack.name)
def test_legal_code_is_right_or_not_proven(attack: Attack, tmp_path: Path) -> None:
    inputs = attack.inputs()
    cell, reference = proven(attack.write(tmp_path), inputs)
    if cell is not None and cell.outcome != NOT_HERE:
        assert reference.outputs is not None, reference.fault  # the twin runs it whatever the plan is
        np.testing.assert_array_equal(next(iter(reference.outputs.values()))[0], attack.expected(inputs["x"]))
        assert cell.outcome in (PROVEN, FAILED)


@pytest.mark.parametrize("attack", ILLEGAL, ids=lambda attack: attack.name)
def test_code_that_leaves_its_tensors_is_refused_or_found(attack: Attack, tmp_path: Path) -> None:
    cell, _ = proven(attack.write(tmp_path), attack.inputs())
    assert cell is None or cell.outcome in (NOT_HERE, FAILED), cell
    assert cell is None or cell.why


@pytest.mark.shared
@pytest.mark.parametrize("name", NAMES)
def test_shared_attacks(name: str) -> None:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"no attack archives: {folder} is missing")
    with np.load(folder / "in.npz") as inputs, np.load(folder / "out.npz") as outputs:
        given, expected = dict(inputs), dict(outputs)
    cell, reference = proven(folder / f"{name}.tar", given)
    if name in {attack.name for attack in ILLEGAL} or name == "fp_arith":
        assert cell is None or cell.outcome != PROVEN
    elif cell is not None and cell.outcome == PROVEN:
        assert reference.outputs is not None
        np.testing.assert_array_equal(next(iter(reference.outputs.values()))[0], expected["0"])
