# SPDX-License-Identifier: Apache-2.0
"""Random graphs of random kernels: what the SDK plans computes what an executor of our own computes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from attack_cases import FORMS, Case, Node, Tensor, archive_of, expected, make_case
from attack_run import attack, attack_board, difference, smallest
from mlf_sdk.planner.storage import Buffer, StorageGraph, lifetimes

pytestmark = pytest.mark.toolchain
CHUNK = 60
SEEDS = 300  # drawn; the first ones are run, and more by `make attack`
RUN = 120


@pytest.mark.usefixtures("needs_cc")
@pytest.mark.parametrize("first", range(0, RUN, CHUNK))
def test_random_archives(first: int, tmp_path: Path) -> None:
    """Every seed is right or refused; what is wrong: make attack SEED=n COUNT=1."""
    found = attack(range(first, first + CHUNK), tmp_path)
    assert found.wrong == {}
    assert found.equal + sum(found.refused.values()) == CHUNK
    assert found.equal >= 0.9 * CHUNK, found.refused


@pytest.mark.qemu
@pytest.mark.usefixtures("needs_qemu")
def test_random_archive_on_a_board(tmp_path: Path) -> None:
    assert attack_board(7, tmp_path, "mps2-an386") == ""


def test_seeds_are_reproducible_and_varied() -> None:
    assert archive_of(make_case(5)) == archive_of(make_case(5))
    cases = [make_case(seed) for seed in range(SEEDS)]
    seen = Counter[str]()
    for case in cases:
        text = "".join(case.code)
        seen["state"] += text.count("static uint32_t shared_") and "shared_" in text.partition("TVM_DLL")[2]
        seen["kept"] += "static void* kept_" in text
        seen["twice"] += any(len({*n.inputs}) < len(n.inputs) for n in case.nodes)
        seen["several outputs"] += any(len(n.outputs) > 1 for n in case.nodes)
        seen["reshape"] += any(n.compute is None for n in case.nodes)
        used = {t for n in case.nodes for t in n.inputs} | {*case.outputs}
        seen["dead"] += any(t not in used for n in case.nodes for t in n.outputs)
        seen["parameters"] += bool(case.params)
    assert all(seen[what] > 15 for what in seen) and len(seen) == 7, seen
    assert len(FORMS) >= 20


def test_executor_of_a_graph_by_hand() -> None:
    """Two nodes: the second sees what the first wrote into the input, and a reshape shares memory."""

    def double(inputs: list[np.ndarray], outputs: list[np.ndarray], state: dict[str, object]) -> None:
        outputs[0][:] = inputs[0] * 2
        inputs[0][:] = 1

    def add(inputs: list[np.ndarray], outputs: list[np.ndarray], state: dict[str, object]) -> None:
        outputs[0][:] = inputs[0] + inputs[1]

    case = Case(0, "hand")
    case.tensors = [Tensor("x", "int32", 2), Tensor("a", "int32", 2), Tensor("n", "int32", 2, alias=1)]
    case.tensors.append(Tensor("y", "int32", 2))
    case.inputs, case.outputs = [0], [3]
    case.nodes = [Node("k0", [0], [1], double), Node("__nop", [1], [2]), Node("k1", [0, 2], [3], add)]
    right = [2 * values[0] + 1 for values in case.values()]
    assert [run[0].tolist() for run in expected(case)] == [r.tolist() for r in right]
    assert difference(case, expected(case)) == ""
    assert "[0] is 0, not" in difference(case, [[np.zeros(2, np.int32)]] * 2)


@pytest.mark.usefixtures("needs_cc")
def test_wrong_lifetimes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack sees a planner that takes tensors for dead too early; its report has the smallest graph."""

    def too_short(graph: StorageGraph, order: Sequence[int]) -> list[Buffer]:
        found = lifetimes(graph, order)
        return [dataclasses.replace(b, last=b.first) for b in found]

    monkeypatch.setattr("mlf_sdk.planner.plan.lifetimes", too_short)
    found = attack(range(12), tmp_path / "all")
    assert len(found.wrong) >= 3
    seed = min(found.wrong)
    nodes, why = smallest(seed, tmp_path / "one")
    assert 1 <= nodes <= len(make_case(seed).nodes) and why
