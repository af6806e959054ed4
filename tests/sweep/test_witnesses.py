# SPDX-License-Identifier: Apache-2.0
"""Cells of a proof and a sweep rest on what the model file means; the file beside an archive travels with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.compiler import build
from mlf_sdk.judge.check import FAILED, PROVEN, UNPROVEN
from mlf_sdk.judge.evidence import HOST_SANITIZED
from mlf_sdk.pipeline.cell import Cell
from mlf_sdk.pipeline.request import Request
from mlf_sdk.reporting.prooftable import proof_markdown
from mlf_sdk.sweep import expand as expanding
from mlf_sdk.sweep.expand import expand
from mlf_sdk.sweep.job import Job, run_job
from mlf_sdk.sweep.plan import BOARD, MODEL, Plan
from mlf_sdk.sweep.proof import Proof
from small_models import two_layers


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "two.tflite"
    path.write_bytes(two_layers())
    return path


def cell_of(source: Path, base: Request | None = None) -> Cell:
    """The only cell of a proof of one model on the host, as a worker runs it."""
    found = expand(Plan(name="proof", axes={MODEL: [str(source)], BOARD: ["host"]}), base or Request())
    (cell,) = found.cells
    reference = run_job(Job(spec=found.references[cell.spec.reference])).reference
    result = run_job(Job(spec=cell.spec, reference=reference))
    assert result.cell is not None, result.log
    return result.cell


def test_a_cell_has_its_witnesses(model: Path, needs_cc: str) -> None:
    cell = cell_of(model)
    assert cell.outcome == PROVEN, cell.why
    assert cell.witnesses.endswith("reference") and cell.evidence == f"{cell.witnesses} + {HOST_SANITIZED}"
    table = proof_markdown(Proof(boards=("host",), cells=(cell,)), "mlf-sdk proof")
    assert "| outputs | model file | evidence |" in table
    assert f"| = host | {cell.witnesses} | {HOST_SANITIZED} |" in table


def test_a_wrong_compiler_fails_a_cell(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    right = build.improve

    def worse(graph: build.Graph) -> build.Graph:
        graph = right(graph)
        *others, last = graph.operators
        return dataclasses.replace(graph, operators=(*others, dataclasses.replace(last, clamp=(-128, 3))))  # type: ignore[call-arg]

    monkeypatch.setattr(build, "improve", worse)
    cell = cell_of(model)
    assert cell.outcome == FAILED and "outputs differ from what the model means: reference" in cell.why


def test_the_model_beside_an_archive_travels_with_it(model: Path, tmp_path: Path) -> None:
    archive = tmp_path / "two.tar"
    mlf_sdk.compile(model, archive)
    assert cell_of(archive).outcome == PROVEN
    (spec,) = (c.spec for c in expand(Plan(name="p", axes={MODEL: [str(archive)]}), Request()).cells)
    assert spec.fields["model_file"] == str(model) and str(model) in spec.files
    model.unlink()
    cell = cell_of(archive)
    assert cell.outcome == UNPROVEN
    assert cell.why == (
        "its kernels were only compared with themselves: "
        "--model FILE names the file that it was made from (two.tflite)"
    )


def test_a_witness_that_comes_later_makes_another_cell(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(name="proof", axes={MODEL: [str(model)], BOARD: ["host"]})
    before = expand(plan, Request()).cells[0].spec.name
    monkeypatch.setattr(expanding, "installed_titles", lambda: ("another",))
    assert expand(plan, Request()).cells[0].spec.name != before
