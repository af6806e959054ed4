# SPDX-License-Identifier: Apache-2.0
"""A plan that is wrong, and kernels that leave their tensors: the twin, which shares nothing with the plan, and
the guard bytes on the target contradict them."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.errors import CodeError, DoesNotFitError, InputError, NotPossibleError, TargetError, ToolError
from mlf_sdk.judge.check import FAILED, PROVEN, UNPROVEN
from mlf_sdk.judge.evidence import BOARD_APART, HOST_SANITIZED, NO_EVIDENCE
from mlf_sdk.pipeline.cell import CellJob, Reference, run_cell, run_reference
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.twin import Twin
from mlf_sdk.planner import MemoryPlan, PlanProblem, layout, plan_memory
from model_cases import Net

BOARD = "mps2-an386"
X = np.arange(1, 9, dtype=np.float32).reshape(1, 8)

pytestmark = [pytest.mark.toolchain, pytest.mark.qemu, pytest.mark.usefixtures("needs_qemu", "needs_host")]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the archive of a = 2 x, b = a + 3, c = a b: while b is made, a must live on."""
    net = Net("chain")
    a = net.call("double", [net.input("x")], "2.0f * in0[i]")
    b = net.call("add", [a], "in0[i] + 3.0f")
    c = net.call("multiply", [a, b], "in0[i] * in1[i]")
    return net.write(tmp_path_factory.mktemp("chain") / "chain.tar", c)


@pytest.fixture(scope="module")
def stray(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the archive of a kernel that writes where its input says, in elements from its output."""
    net = Net("stray")
    y = net.call("scale", [net.input("x")], "in0[i]; ((float*)out0)[(int32_t)((float*)in0)[0]] = 7.0f")
    return net.write(tmp_path_factory.mktemp("stray") / "stray.tar", y)


def two_at_one_place(plan: MemoryPlan) -> MemoryPlan:
    """Return the plan with the tensors of a and b at the same address."""
    a, b = sorted(plan.tensor_offsets)[1:3]
    return dataclasses.replace(plan, tensor_offsets={**plan.tensor_offsets, b: plan.tensor_offsets[a]})


def wrong_order(plan: MemoryPlan) -> MemoryPlan:
    """Return the plan with the first two steps exchanged."""
    return dataclasses.replace(plan, order=(plan.order[1], plan.order[0], *plan.order[2:]))


def corrupt(patch: pytest.MonkeyPatch, change: Callable[[MemoryPlan], MemoryPlan]) -> None:
    def planned(problem: PlanProblem) -> MemoryPlan:
        return change(plan_memory(problem))

    patch.setattr(layout, "plan_memory", planned)


def without_host_code(patch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Request:
        raise NotPossibleError("there is no host twin")

    patch.setattr(Pipeline, "twin_request", refused)


@pytest.mark.parametrize("change", [two_at_one_place, wrong_order])
def test_a_wrong_plan_differs_from_the_host_twin(
    chain: Path, change: Callable[[MemoryPlan], MemoryPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = mlf_sdk.run(chain, board=BOARD, inputs={"x": X})
    assert right.ok and right.evidence == HOST_SANITIZED
    np.testing.assert_array_equal(next(iter(right.outputs.values()))[0], 2 * X * (2 * X + 3))
    corrupt(monkeypatch, change)
    wrong = mlf_sdk.run(chain, board=BOARD, inputs={"x": X})
    assert wrong.twin is not None and wrong.twin.mismatches == 8
    assert not wrong.ok
    request = Request(source=(str(chain),), board=BOARD, inputs={"x": X})
    reference = run_reference(request)
    assert reference.outputs is not None and reference.evidence == HOST_SANITIZED
    cell = run_cell(CellJob(request=request, twin=Twin(reference.outputs, reference.evidence)))
    assert cell.outcome == FAILED and "outputs differ in 8 elements" in cell.why
    assert cell.evidence == HOST_SANITIZED


@pytest.mark.parametrize("change", [two_at_one_place, wrong_order])
def test_without_host_code_an_unshared_image_on_the_board_is_the_twin(
    chain: Path, change: Callable[[MemoryPlan], MemoryPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_host_code(monkeypatch)
    job = CellJob(request=Request(source=(str(chain),), board=BOARD, inputs={"x": X}, twin=True))
    right = run_cell(job)
    assert (right.outcome, right.evidence) == (PROVEN, BOARD_APART), right.why
    corrupt(monkeypatch, change)
    wrong = run_cell(job)
    assert (wrong.outcome, wrong.evidence) == (FAILED, BOARD_APART)
    assert "outputs differ in 8 elements" in wrong.why


def test_a_file_that_is_missing_is_not_a_twin_that_is_not_possible(
    chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error says nothing of the model: no run without evidence, no board's twin in place of the host's."""

    def gone(*_: Any) -> Request:
        raise InputError("there is no such file")

    monkeypatch.setattr(Pipeline, "twin_request", gone)
    request = Request(source=(str(chain),), board=BOARD, inputs={"x": X})
    for work in (run_reference, Pipeline().twin, Pipeline().host_twin):
        with pytest.raises(InputError, match="no such file"):
            work(request)
    cell = run_cell(CellJob(request=request.replace(twin=True)))
    assert (cell.outcome, cell.why) == (FAILED, "there is no such file")


@pytest.mark.parametrize("error", [ToolError, CodeError])
def test_a_twin_that_was_interrupted_is_not_a_twin_that_cannot_be_built(
    chain: Path, error: type[ToolError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: Any) -> None:
        raise error("the build failed")

    monkeypatch.setattr(Pipeline, "build", failed)
    request = Request(source=(str(chain),), board=BOARD, inputs={"x": X})
    if error is CodeError:
        assert run_reference(request) == Reference()
        return
    with pytest.raises(ToolError, match="the build failed"):
        run_reference(request)


def test_without_any_evidence_nothing_is_proven(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_host_code(monkeypatch)

    def too_large(*_: Any) -> None:
        raise DoesNotFitError("it does not fit")

    job = CellJob(request=Request(source=(str(chain),), board=BOARD, inputs={"x": X}, twin=True))
    monkeypatch.setattr("mlf_sdk.pipeline.twin.without_memory_sharing", too_large)
    cell = run_cell(job)
    assert (cell.outcome, cell.evidence) == (UNPROVEN, NO_EVIDENCE)
    assert "there is no host twin. On the board: it does not fit" in cell.why


# ---- kernels that leave their tensors ----


def at(index: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs with which the stray kernel writes element ``index`` of its output as well."""
    return {"x": np.concatenate([np.float32([[index]]), X[:, 1:]], axis=1)}


@pytest.mark.parametrize("side", ["before", "behind"])
def test_guards_on_the_target(stray: Path, side: str) -> None:
    planned = Pipeline().plan(Request(source=(str(stray),), board=BOARD)).layouts[0]
    start = planned.offset(planned.model.outputs[0])
    index = -start // 4 - 1 if side == "before" else (planned.arena_reserved_bytes - start) // 4
    report = mlf_sdk.run(stray, board=BOARD, inputs=at(index), twin=False)
    row = next(row for row in report.check.rows if row.item == "guards")
    assert (row.planned, row.measured, row.state) == (2, 2, FAILED)
    assert row.note == f"the model wrote {side} the arena"
    assert not report.ok
    assert mlf_sdk.run(stray, board=BOARD, inputs=at(3), twin=False).ok


@pytest.mark.parametrize("index", [-1, 8])
def test_the_host_twin_faults(stray: Path, index: int) -> None:
    with pytest.raises(TargetError, match="the host twin, in which each buffer has memory of its own"):
        mlf_sdk.run(stray, board=BOARD, inputs=at(index))
    reference = run_reference(Request(source=(str(stray),), board=BOARD, inputs=at(index)))
    assert reference.outputs is None and reference.fault
    cell = run_cell(
        CellJob(request=Request(source=(str(stray),), board=BOARD, inputs=at(index)), fault=reference.fault)
    )
    assert cell.outcome == FAILED and cell.why == reference.fault


def test_guards_of_every_buffer(stray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_host_code(monkeypatch)
    request = Request(source=(str(stray),), board=BOARD, inputs=at(8), twin=True)
    cell = run_cell(CellJob(request=request))
    assert cell.outcome == FAILED
    assert "the image that shares no memory: the model wrote behind tensor" in cell.why


def test_guards_where_there_is_no_sanitizer(stray: Path, tmp_path: Path) -> None:
    folder = mlf_sdk.generate(stray, tmp_path / "twin", board="host", plan="none").folder
    command = ["cmake", "--preset", "default", "-DMLF_SANITIZE=OFF"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    report = mlf_sdk.run(folder, inputs=at(8))
    row = next(row for row in report.check.rows if row.item == "guards")
    assert (row.planned, row.measured, row.state) == (4, 4, FAILED)
    assert row.note.startswith("the model wrote behind tensor")
    assert mlf_sdk.run(folder, inputs=at(3)).ok
