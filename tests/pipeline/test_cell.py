# SPDX-License-Identifier: Apache-2.0
"""Outcomes of cells that do not run: known to be impossible, or an error, which says nothing of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlf_sdk.judge.check import FAILED
from mlf_sdk.pipeline.cell import NOT_HERE, Cell, CellJob, run_cell
from mlf_sdk.pipeline.request import Request
from model_cases import Net


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an archive of two tensors of 32 kB, which the 16 kB of the microbit can't hold."""
    net = Net("doubling")
    y = net.call("double", [net.input("x", (1, 8192))], "2.0f * in0[i]")
    return net.write(tmp_path_factory.mktemp("cell") / "doubling.tar", y)


def cell(archive: Path, **options: Any) -> Cell:
    return run_cell(CellJob(request=Request(**{"source": (str(archive),), **options})))


def test_a_model_that_is_too_large_for_a_board_is_not_here(doubling: Path) -> None:
    found = cell(doubling, board="microbit")
    assert found.outcome == NOT_HERE
    assert found.why.startswith("it does not fit: it needs at least")


def test_an_archive_that_is_broken_is_not_here(tmp_path: Path) -> None:
    archive = tmp_path / "broken"
    archive.mkdir()
    (archive / "metadata.json").write_text("{")
    found = cell(archive, board="microbit")
    assert found.outcome == NOT_HERE
    assert found.why.startswith("refused: metadata.json: ")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"board": "no-board"}, "there is no board 'no-board'"),
        ({"board": "mps2-an386", "cflags": "-o other"}, "invalid compiler flag"),
        ({"board": "mps2-an386", "inputs": "none.npz"}, "can't read the arrays"),
        ({"board": "mps2-an386", "source": ("none.tar",)}, "cannot be read"),
    ],
)
def test_an_error_is_not_taken_for_impossible(doubling: Path, options: dict[str, Any], why: str) -> None:
    found = cell(doubling, **options)
    assert found.outcome == FAILED
    assert why in found.why
