# SPDX-License-Identifier: Apache-2.0
"""The search for an order of steps: what needs no search, what the budgets allow, and what is found with little."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from memory_cases import bound_of, is_legal, legal_orders, problems, scratch, tensors, touch
from mlf_sdk.planner import PlanProblem, PlanStep
from mlf_sdk.planner.order import find_order
from mlf_sdk.planner.space import ExecutionState, Move, OrderSpace
from mlf_sdk.planner.storage import build_graph

order_module = importlib.import_module("mlf_sdk.planner.order")


def wide(count: int) -> PlanProblem:
    """So many branches, each of a large tensor that becomes a small one; the archive makes all large ones first."""
    grow = [PlanStep(phases=1, reads=(touch(0),), writes=(touch(1 + i),)) for i in range(count)]
    shrink = [PlanStep(phases=1, reads=(touch(1 + i),), writes=(touch(1 + count + i),)) for i in range(count)]
    small = range(1 + count, 1 + 2 * count)
    join = PlanStep(phases=1, reads=tuple(map(touch, small)), writes=(touch(1 + 2 * count),))
    sizes = [16, *[1600 + 16 * i for i in range(count)], *[16] * count, 16]
    return PlanProblem(
        tensors=tensors(*sizes), inputs=(0,), outputs=(1 + 2 * count,), steps=(*grow, *shrink, join)
    )


class Work:
    """Storages that the search visited: in all, up to the beam, and at most by one move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spaces: list[OrderSpace] = []
        self.before_beam: int | None = None
        self.most = 0
        beam, own = order_module._search_beam, self

        class Counted(OrderSpace):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                own.spaces.append(self)
                own.before_beam, own.most = None, 0

            def move(self, state: ExecutionState, step: int) -> Move:
                before = self.work
                move = super().move(state, step)
                own.most = max(own.most, self.work - before)
                return move

        def search_beam(space: OrderSpace, *args: Any) -> Any:
            self.before_beam = space.work
            return beam(space, *args)

        monkeypatch.setattr(order_module, "OrderSpace", Counted)
        monkeypatch.setattr(order_module, "_search_beam", search_beam)

    def find(self, problem: PlanProblem) -> tuple[int, ...] | None:
        """Search from the order of the archive."""
        self.spaces.clear()
        original = tuple(range(len(problem.steps)))
        return find_order(build_graph(problem), bound_of(problem, original))

    @property
    def total(self) -> int:
        return self.spaces[0].work


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def chain(count: int) -> PlanProblem:
    steps = tuple(PlanStep(phases=1, reads=(touch(i),), writes=(touch(i + 1),)) for i in range(count))
    return PlanProblem(tensors=tensors(*[16] * (count + 1)), inputs=(0,), outputs=(count,), steps=steps)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_a_chain_needs_no_search(work: Work, count: int) -> None:
    assert work.find(chain(count)) is None and work.spaces == []


def test_what_can_not_be_better_is_not_searched(work: Work) -> None:
    """Two steps that may change places before one that needs most in any order: proven, without a move."""
    steps = [PlanStep(phases=1, reads=(touch(0),), writes=(touch(i),)) for i in (1, 2)]
    steps.append(
        PlanStep(phases=1, reads=(touch(1), touch(2)), writes=(touch(3),), workspaces=(scratch(640),))
    )
    problem = PlanProblem(tensors=tensors(16, 32, 32, 16), inputs=(0,), outputs=(3,), steps=tuple(steps))
    assert work.find(problem) is None
    (space,) = work.spaces
    assert work.most == 0 and space.peak_lower_bound() == bound_of(problem, (0, 1, 2))


@pytest.mark.parametrize(("more", "found"), [(0, True), (1, True), (-1, False)])
def test_so_many_steps_are_ordered(
    monkeypatch: pytest.MonkeyPatch, work: Work, more: int, found: bool
) -> None:
    problem = wide(2)
    monkeypatch.setattr(order_module, "_MAX_STEPS", len(problem.steps) + more)
    assert (work.find(problem) is not None) == found


def test_the_exact_search_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch, work: Work) -> None:
    """With what it needs it finds the order; with one storage less the beam takes over, at once."""
    problem = wide(4)
    best = work.find(problem)
    assert best is not None and work.before_beam is None
    graph = build_graph(problem)
    space = OrderSpace(graph)
    space.peak_lower_bound()
    needed = work.total - space.work
    monkeypatch.setattr(order_module, "_EXACT_BUDGET", needed)
    assert work.find(problem) == best and work.before_beam is None
    for budget in (needed - 1, needed // 2, 0):
        monkeypatch.setattr(order_module, "_EXACT_BUDGET", budget)
        found = work.find(problem)
        assert found is not None and is_legal(problem, found)
        assert work.before_beam is not None
        spent = work.before_beam - space.work
        assert budget < spent <= budget + len(problem.steps) * work.most
        assert spent <= needed


@pytest.mark.parametrize("budget", [0, 600, 24_000])
def test_the_beam_stays_within_its_budget(monkeypatch: pytest.MonkeyPatch, work: Work, budget: int) -> None:
    """A share for each step, and the move that exceeds it."""
    problem = wide(30)
    count = len(problem.steps)
    monkeypatch.setattr(order_module, "_EXACT_BUDGET", 0)
    monkeypatch.setattr(order_module, "_BEAM_BUDGET", budget)
    found = work.find(problem)
    assert found is None or is_legal(problem, found)
    assert work.before_beam is not None
    spent, share = work.total - work.before_beam, max(budget // count, 12)
    assert count * share * 0.9 < spent <= count * (share + work.most)


CALM = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@CALM
@given(problems(max_steps=5))
def test_a_beam_with_room_for_all_states_finds_the_best(
    monkeypatch: pytest.MonkeyPatch, problem: PlanProblem
) -> None:
    monkeypatch.setattr(order_module, "_EXACT_BUDGET", -1)
    original = tuple(range(len(problem.steps)))
    bound = bound_of(problem, original)
    best = min(bound_of(problem, order) for order in legal_orders(problem))
    found = find_order(build_graph(dataclasses.replace(problem)), bound)
    assert (found is None) == (best == bound)
    assert found is None or (is_legal(problem, found) and bound_of(problem, found) == best)
