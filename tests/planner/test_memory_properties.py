# SPDX-License-Identifier: Apache-2.0
"""Properties that every plan has, on generated problems, against a slow independent model."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import subprocess
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_cases import (
    bound_of,
    intervals,
    is_legal,
    least_arena,
    legal_orders,
    live_sets,
    offset_of,
    problems,
    room_for,
    root_of,
    timeline,
)
from mlf_sdk.planner import MemoryPlan, PlanProblem, check_plan, plan_memory
from mlf_sdk.planner.order import find_order
from mlf_sdk.planner.storage import build_graph

CALM = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
SPANS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 6), st.integers(0, 6)).map(lambda s: (s[0], *sorted(s[1:]))),
    min_size=1,
    max_size=7,
)


def live_buffers_never_overlap(problem: PlanProblem, plan: MemoryPlan) -> None:
    for live in live_sets(problem, plan.order):
        taken = sorted((offset_of(plan, key), size) for key, size in live.items())
        for (low, size), (high, _) in itertools.pairwise(taken):
            assert low + size <= high


def offsets_are_aligned_and_complete(problem: PlanProblem, plan: MemoryPlan) -> None:
    assert set(plan.tensor_offsets) == {tensor.id for tensor in problem.tensors}
    assert {(step, slot) for step, slots in plan.workspace_offsets.items() for slot in slots} == {
        (number, work.slot) for number, step in enumerate(problem.steps) for work in step.workspaces
    }
    for offset in (
        *plan.tensor_offsets.values(),
        *(o for slots in plan.workspace_offsets.values() for o in slots.values()),
    ):
        assert offset >= 0
        assert offset % problem.alignment == 0


def arena_is_the_exact_end_and_at_least_the_bound(problem: PlanProblem, plan: MemoryPlan) -> None:
    ends = [
        offset_of(plan, key) + size for live in live_sets(problem, plan.order) for key, size in live.items()
    ]
    assert plan.arena_bytes == max(ends, default=0)
    assert plan.lower_bound_bytes == bound_of(problem, plan.order)
    assert plan.lower_bound_bytes <= plan.arena_bytes
    assert plan.ratio >= 1.0


def peak_is_the_first_step_at_the_bound(problem: PlanProblem, plan: MemoryPlan) -> None:
    points = timeline(problem, plan.order)
    lives = live_sets(problem, plan.order)
    rooms = [room_for(live, problem.alignment) == plan.lower_bound_bytes for live in lives]
    in_steps = [point for point, reached in zip(points, rooms, strict=True) if reached and point[0] >= 0]
    if plan.lower_bound_bytes:
        assert plan.peak == (in_steps[0] if in_steps else (-1, 0))


def order_is_legal_and_original_unless_better(problem: PlanProblem, plan: MemoryPlan) -> None:
    original = tuple(range(len(problem.steps)))
    assert is_legal(problem, plan.order)
    if plan.order != original:
        assert problem.reorder
        assert plan.lower_bound_bytes < bound_of(problem, original)


def aliases_share_an_offset(problem: PlanProblem, plan: MemoryPlan) -> None:
    for tensor in problem.tensors:
        assert plan.tensor_offsets[tensor.id] == plan.tensor_offsets[root_of(problem, tensor.id)]


def reported_buffers_are_the_live_ones(problem: PlanProblem, plan: MemoryPlan) -> None:
    lives = live_sets(problem, plan.order)
    for now, live in enumerate(lives):
        reported = {item.key for item in plan.buffers if item.size_bytes and item.first <= now <= item.last}
        assert reported == set(live)
    for item in plan.buffers:
        assert item.offset == offset_of(plan, item.key)
        assert item.kind == ("workspace" if isinstance(item.key, tuple) else "tensor")
    assert list(plan.buffers) == sorted(plan.buffers, key=lambda b: (b.first, b.last, b.offset))


PROPERTIES = (
    live_buffers_never_overlap,
    offsets_are_aligned_and_complete,
    arena_is_the_exact_end_and_at_least_the_bound,
    peak_is_the_first_step_at_the_bound,
    order_is_legal_and_original_unless_better,
    aliases_share_an_offset,
    reported_buffers_are_the_live_ones,
)


@settings(CALM, max_examples=240)
@given(problems())
def test_plans_have_every_property(problem: PlanProblem) -> None:
    """One draw and one plan for all of them: both cost far more than a check."""
    plan = plan_memory(problem)
    for has in PROPERTIES:
        has(problem, plan)


@CALM
@given(problems())
def test_kept_inputs_are_live_at_the_end(problem: PlanProblem) -> None:
    problem = dataclasses.replace(problem, keep_inputs=True)
    plan = plan_memory(problem)
    end = len(timeline(problem, plan.order)) - 1
    spans = {item.key: (item.first, item.last) for item in plan.buffers}
    for tensor in problem.inputs:
        assert spans[root_of(problem, tensor)] == (0, end)


@CALM
@given(problems())
def test_the_same_problem_gives_the_same_plan(problem: PlanProblem) -> None:
    assert plan_memory(problem) == plan_memory(dataclasses.replace(problem))
    check_plan(problem, plan_memory(problem))


@CALM
@given(problems(max_steps=5))
def test_bound_of_the_order_is_the_lowest_of_all_orders(problem: PlanProblem) -> None:
    original = tuple(range(len(problem.steps)))
    bound = bound_of(problem, original)
    best = min(bound_of(problem, order) for order in legal_orders(problem))
    found = find_order(build_graph(problem), bound)
    assert (found is None) == (best == bound)
    assert bound_of(problem, found or original) == best


@CALM
@given(problems(max_steps=3, max_size=9))
def test_tiny_arena_is_the_smallest_of_its_order(problem: PlanProblem) -> None:
    plan = plan_memory(problem)
    assert plan.arena_bytes == least_arena(problem, plan.order)


@CALM
@given(SPANS, st.sampled_from([1, 4]))
def test_tiny_packing_is_the_smallest(spans: list[tuple[int, int, int]], alignment: int) -> None:
    problem = intervals(spans, alignment)
    assert plan_memory(problem).arena_bytes == least_arena(problem, (0,))


def test_medium_packings_end_within_a_unit_of_the_bound() -> None:
    """One of these cannot be settled by any stage; the bound is reached on all others."""
    chance = random.Random(4)
    missing = []
    for _ in range(10):
        spans = []
        for _ in range(90):
            first = chance.randrange(40)
            size = chance.choice((chance.randint(1, 99), chance.randint(200, 4000)))
            spans.append((size, first, min(39, first + chance.randrange(9))))
        plan = plan_memory(intervals(spans, 16))
        missing.append(plan.arena_bytes - plan.lower_bound_bytes)
    assert max(missing) < 16
    assert missing.count(0) >= 9


_SCRIPT = """
import random
from memory_cases import intervals
from mlf_sdk.planner import plan_memory
chance = random.Random(1)
spans = []
for _ in range(60):
    first = chance.randrange(25)
    spans.append((chance.randint(1, 400), first, min(24, first + chance.randrange(9))))
print(plan_memory(intervals(spans, 8)))
"""


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    path = os.pathsep.join(filter(None, sys.path))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(outputs) == 1
    assert b"MemoryPlan" in outputs.pop()
