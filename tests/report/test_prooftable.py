# SPDX-License-Identifier: Apache-2.0
"""The page of a proof: what it says of a bound that is not the whole thread's."""

from __future__ import annotations

import pytest

from mlf_sdk.judge.check import PROVEN
from mlf_sdk.pipeline.cell import Cell
from mlf_sdk.reporting.prooftable import proof_markdown
from mlf_sdk.sweep.proof import Proof


@pytest.mark.parametrize("is_run", [False, True])
def test_a_bound_of_the_run_alone_is_called_so(is_run: bool) -> None:
    """On Zephyr the thread's painted mark is above it, and the page must not say that it is below."""
    cell = Cell(
        archive="a.tar",
        module=None,
        model="a",
        board="zephyr:mps2-an385",
        outcome=PROVEN,
        stack_bound_bytes=740,
        stack_bound_is_run=is_run,
        stack_measured_bytes=1048,
        integers=True,
    )
    page = proof_markdown(Proof(boards=(cell.board,), cells=(cell,)), "make proof")
    assert ("| run: 740 | thread: 1,048 |" in page) is is_run
    assert ("| 740 | 1,048 |" in page) is not is_run
    assert ("the bound is that of the model's run" in page) is is_run
