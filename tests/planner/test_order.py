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
    """What the search visited: storages in all, up to the beam, and at most by one move; steps that it tried.

    Attributes:
        tried: per move, the steps that have run, as a bit set, and the step tried next.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spaces: list[OrderSpace] = []
        self.before_beam: int | None = None
        self.most = 0
        self.tried: list[tuple[int, int]] = []
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
                own.tried.append((state.done, step))
                return move

        def search_beam(space: OrderSpace, *args: Any) -> Any:
            self.before_beam = space.work
            return beam(space, *args)

        monkeypatch.setattr(order_module, "OrderSpace", Counted)
        monkeypatch.setattr(order_module, "_search_beam", search_beam)

    def find(self, problem: PlanProblem) -> tuple[int, ...] | None:
        """Search from the order of the archive."""
        self.spaces.clear()
        self.tried.clear()
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


def link(reads: tuple[int, ...], write: int, scratch_bytes: int = 0) -> PlanStep:
    return PlanStep(
        phases=1,
        reads=tuple(map(touch, reads)),
        writes=(touch(write),),
        workspaces=(scratch(scratch_bytes),) if scratch_bytes else (),
    )


def reached_again(cheaper_first: bool) -> PlanProblem:
    """The same steps run in two orders, one of which costs more, before a step that costs still more."""
    if cheaper_first:
        return PlanProblem(
            tensors=tensors(16, 16, 48, 48, 65),
            inputs=(0,),
            outputs=(4, 1),
            steps=(link((0,), 1), link((0,), 2), link((1, 0), 3), link((2,), 4)),
            alignment=1,
        )
    return wide(4)


@pytest.mark.parametrize("cheaper_first", [True, False])
def test_each_step_is_tried_once_after_the_same_steps(work: Work, cheaper_first: bool) -> None:
    """Whether the path with the lower peak to a state is found first or last, only that one goes on."""
    work.find(reached_again(cheaper_first))
    assert work.before_beam is None
    assert work.tried and len(work.tried) == len({*work.tried})


def test_what_comes_after_a_step_that_gains_nothing_is_tried(work: Work) -> None:
    """Begun with the first step no order is better: the second one comes first."""
    problem = PlanProblem(
        tensors=tensors(16, 48, 96, 48),
        inputs=(0,),
        outputs=(1, 2),
        steps=(link((0,), 1), link((0,), 2), link((2,), 3)),
    )
    assert work.find(problem) == (1, 2, 0)


def test_of_equal_peaks_the_longest_path_goes_on(work: Work) -> None:
    """Six steps whose order does not matter are not searched in all their orders: 11 states, not 271."""
    one, two = 7, 8  # large, each with a small one of two further on
    small = [*range(1, 7), 9, 10]
    free = [link((0,), i) for i in range(1, 7)]
    steps = (*free, link((0,), one), link((0,), two), link((one,), 9), link((two,), 10))
    problem = PlanProblem(
        tensors=tensors(16, *[16] * 6, 1600, 1600, 16, 16, 16),
        inputs=(0,),
        outputs=(11,),
        steps=(*steps, link((*small,), 11, 2400)),
    )
    assert work.find(problem) is not None
    assert len({done for done, _ in work.tried}) == len(problem.steps)


@pytest.mark.parametrize(("more", "alone"), [(-16, True), (0, True), (16, False)])
def test_a_step_that_only_frees_memory_is_run_at_once(work: Work, more: int, alone: bool) -> None:
    """Nothing else is tried in its place as long as it needs no more than the peak so far."""
    floor = 1600 + 16  # a large tensor with what it is made of
    frees = link((1,), 2, floor + more - (16 + 32 + 16))
    steps = (frees, link((0,), 3), link((0,), 4), link((3,), 5), link((4,), 6), link((2, 5, 6), 7))
    problem = PlanProblem(
        tensors=tensors(16, 32, 16, 1600, 1600, 16, 16, 16), inputs=(0, 1), outputs=(7,), steps=steps
    )
    work.find(problem)
    (space,) = work.spaces
    start = space.start()
    assert space.peak_lower_bound() == floor
    assert space.move(start, 0).is_safe and space.move(start, 0).peak == floor + more
    assert ((0, 1) not in work.tried) == alone


@pytest.mark.parametrize("budget", [12_000, -1])
def test_an_order_that_is_no_better_is_not_found(
    monkeypatch: pytest.MonkeyPatch, work: Work, budget: int
) -> None:
    """By neither search, where the archive has one of the best orders and no proof of it."""
    problem = wide(2)
    best = [problem.steps[i] for i in (1, 3, 0, 2, 4)]
    monkeypatch.setattr(order_module, "_EXACT_BUDGET", budget)
    assert work.find(dataclasses.replace(problem, steps=tuple(best))) is None
    assert work.tried and (work.before_beam is None) == (budget > 0)


def test_of_equal_orders_the_beam_takes_the_one_near_the_archive(
    monkeypatch: pytest.MonkeyPatch, work: Work
) -> None:
    monkeypatch.setattr(order_module, "_EXACT_BUDGET", -1)
    problem = wide(3)
    sizes = [16, *[1600] * 3, *[16] * 4]
    assert work.find(dataclasses.replace(problem, tensors=tensors(*sizes))) == (0, 3, 1, 4, 2, 5, 6)


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
