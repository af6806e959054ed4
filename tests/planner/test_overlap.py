# SPDX-License-Identifier: Apache-2.0
"""Outputs that lie over dying inputs: against a slow independent model, and cases worked out by hand."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import HealthCheck, given, settings

from memory_cases import (
    allowed_overlaps,
    least_arena,
    live_sets,
    may_lie,
    offset_of,
    overlapping_problems,
    scratch,
    tensors,
    touch,
)
from mlf_sdk.errors import InputError
from mlf_sdk.planner import (
    PlanError,
    PlanOverlap,
    PlanProblem,
    PlanStep,
    check_plan,
    plan_apart,
    plan_memory,
)
from mlf_sdk.planner.problem import Extent, Overlay, savings
from mlf_sdk.planner.storage import build_graph, overlays

CALM = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
SMALL = settings(CALM, max_examples=60)


@CALM
@given(overlapping_problems())
def test_live_buffers_overlap_only_where_a_step_allows_it(problem: PlanProblem) -> None:
    plan = plan_memory(problem)
    allowed = allowed_overlaps(problem, plan.order)
    for live in live_sets(problem, plan.order):
        placed = [(key, offset_of(plan, key), size) for key, size in live.items()]
        for one, two in itertools.combinations(placed, 2):
            assert may_lie(one, two, allowed)


@SMALL
@given(overlapping_problems(max_steps=3, max_size=24))
def test_bound_is_below_every_placement_and_the_arena_is_not(problem: PlanProblem) -> None:
    problem = dataclasses.replace(problem, alignment=min(problem.alignment, 4) * 2)
    plan = plan_memory(problem)
    assert plan.lower_bound_bytes <= least_arena(problem, plan.order) <= plan.arena_bytes


@CALM
@given(overlapping_problems())
def test_a_plan_apart_uses_no_overlap(problem: PlanProblem) -> None:
    buffers = [b for b in plan_apart(problem).buffers if b.size_bytes]
    for one, two in itertools.combinations(buffers, 2):
        assert one.offset + one.size_bytes <= two.offset or two.offset + two.size_bytes <= one.offset


def over(x: int, y: int, distance: int) -> PlanOverlap:
    return PlanOverlap(input=x, output=y, distance_bytes=distance)


def chain(*steps: PlanStep, sizes: tuple[int, ...], outputs: tuple[int, ...]) -> PlanProblem:
    return PlanProblem(tensors=tensors(*sizes), inputs=(0,), outputs=outputs, steps=steps)


def call(
    reads: tuple[int, ...], output: int, *overlaps: PlanOverlap, work: int = 0, phases: int = 1
) -> PlanStep:
    return PlanStep(
        phases=phases,
        reads=tuple(touch(x, 0, phases - 1) for x in reads),
        writes=(touch(output, 0, phases - 1),),
        workspaces=(scratch(work),) if work else (),
        overlaps=overlaps,
    )


@pytest.mark.parametrize(
    ("distance", "sizes", "arena"),
    [
        (0, (160, 160), 160),  # in place
        (20, (160, 160), 192),  # rounded up to the alignment
        (0, (160, 48), 160),
        (32, (160, 48), 192),
        (112, (48, 160), 160),  # a larger output ends with its input
        (144, (48, 160), 192),
        (160, (160, 160), 320),  # nothing to gain
        (4096, (160, 160), 320),
    ],
)
def test_arena_of_one_step(distance: int, sizes: tuple[int, int], arena: int) -> None:
    plan = plan_memory(chain(call((0,), 1, over(0, 1, distance)), sizes=sizes, outputs=(1,)))
    assert plan.arena_bytes == plan.lower_bound_bytes == arena


def test_chain_of_convolutions_moves_down_by_a_row_each() -> None:
    steps = [call((i,), i + 1, over(i, i + 1, 48), work=64) for i in range(4)]
    plan = plan_memory(chain(*steps, sizes=(320,) * 5, outputs=(4,)))
    assert plan.lower_bound_bytes == 320 + 48 + 64  # of each step alone
    assert plan.arena_bytes == 320 + 4 * 48


def test_input_that_is_needed_later_is_not_overwritten() -> None:
    # The sum at the end reads tensor 1 again, and takes the place of either operand.
    steps = (
        call((0,), 1),
        call((1,), 2, over(1, 2, 0)),
        call((1, 2), 3, over(1, 3, 0), over(2, 3, 0)),
    )
    plan = plan_memory(chain(*steps, sizes=(16, 160, 160, 160), outputs=(3,)))
    assert plan.arena_bytes == plan.lower_bound_bytes == 320
    assert plan.tensor_offsets[3] in (plan.tensor_offsets[1], plan.tensor_offsets[2])


def test_kept_inputs_are_not_overwritten() -> None:
    problem = chain(call((0,), 1, over(0, 1, 0)), sizes=(160, 160), outputs=(1,))
    assert plan_memory(dataclasses.replace(problem, keep_inputs=True)).arena_bytes == 320


def test_an_order_is_chosen_for_its_overlaps() -> None:
    # Tensor 1 is read by two steps; only the second one of them can take its place.
    steps = (call((0,), 1), call((1,), 2, over(1, 2, 0)), call((1,), 3), call((2, 3), 4))
    plan = plan_memory(chain(*steps, sizes=(16, 512, 512, 64, 16), outputs=(4,)))
    assert plan.order == (0, 2, 1, 3)
    assert plan.arena_bytes == plan.lower_bound_bytes == 592


@pytest.mark.parametrize("offset", [0, 16, 32, 48, 320])
def test_check_finds_an_output_that_begins_too_late(offset: int) -> None:
    problem = chain(call((0,), 1, over(0, 1, 32)), sizes=(160, 160), outputs=(1,))
    plan = plan_memory(problem)
    output = next(b for b in plan.buffers if b.key == 1)
    given = next(b for b in plan.buffers if b.key == 0)
    moved = (
        dataclasses.replace(given, offset=64),
        dataclasses.replace(output, offset=offset),
    )
    changed = dataclasses.replace(
        plan,
        tensor_offsets={0: 64, 1: offset},
        buffers=moved,
        arena_bytes=max(b.offset + b.size_bytes for b in moved),
    )
    if offset in (48,):
        with pytest.raises(PlanError, match="tensor 1 overlaps tensor 0 at byte 64, time 1"):
            check_plan(problem, changed)
    else:
        check_plan(problem, changed)


def test_check_looks_below_operands_that_begin_between() -> None:
    """The workspace lies in tensor 1, above tensor 0, which lies in tensor 1 as well, as it may."""
    step = PlanStep(
        phases=2,
        reads=(touch(0, 0, 1),),
        writes=(touch(1, 0, 1),),
        workspaces=(scratch(16, 1),),
        overlaps=(over(0, 1, 32),),
    )
    problem = chain(step, sizes=(32, 160), outputs=(1,))
    plan = plan_memory(problem)
    moved = {0: 32, 1: 0, (0, 0): 96}
    changed = dataclasses.replace(
        plan,
        tensor_offsets={0: 32, 1: 0},
        workspace_offsets={0: {0: 96}},
        buffers=tuple(dataclasses.replace(b, offset=moved[b.key]) for b in plan.buffers),
        arena_bytes=160,
    )
    with pytest.raises(PlanError, match=r"workspace \(0, 0\) overlaps tensor 1 at byte 96, time 2"):
        check_plan(problem, changed)


@pytest.mark.parametrize("swapped", [False, True])
def test_an_input_that_is_used_later_lies_under_nothing(swapped: bool) -> None:
    """Two steps read tensor 0; only the one that comes last may put its output over it."""
    steps = [call((0,), 1), call((0,), 2, over(0, 2, 0))][:: -1 if swapped else 1]
    graph = build_graph(chain(*steps, sizes=(160, 160, 160), outputs=(1, 2)))
    overlapping = 0 if swapped else 1
    assert overlays(graph, (overlapping, 1 - overlapping)) == ()
    assert overlays(graph, (1 - overlapping, overlapping)) == (Overlay(input=0, output=2, distance=0),)


@pytest.mark.parametrize("swapped", [False, True])
def test_an_output_that_is_in_use_already_lies_over_nothing(swapped: bool) -> None:
    """Two steps write tensor 2; only the one that comes first may put it over its input."""
    steps = [call((0,), 2), call((1,), 2, over(1, 2, 0))][:: -1 if swapped else 1]
    problem = PlanProblem(tensors=tensors(160, 160, 160), inputs=(0, 1), outputs=(2,), steps=tuple(steps))
    graph, overlapping = build_graph(problem), 0 if swapped else 1
    assert overlays(graph, (1 - overlapping, overlapping)) == ()
    assert overlays(graph, (overlapping, 1 - overlapping)) == (Overlay(input=1, output=2, distance=0),)


def test_bytes_that_an_overlap_saves_at_each_time() -> None:
    """From the output's first time to the input's last, and at no time of another pair."""
    extents = {1: Extent(16, 0, 5), 2: Extent(16, 3, 9), 3: Extent(32, 6, 8), 4: Extent(16, 8, 9)}
    pairs = [Overlay(input=1, output=2, distance=8), Overlay(input=3, output=4, distance=0)]
    assert [*savings(pairs, extents)] == [(8, 3, 5), (0, 6, 7), (16, 8, 8)]
    both = [*pairs, Overlay(input=3, output=2, distance=8)]
    assert [*savings(both, extents)] == [(8, 3, 5), (8, 6, 7), (24, 8, 8)]


@pytest.mark.parametrize(
    ("overlap", "text"),
    [
        (over(7, 1, 0), "tensor 7 is not among the reads of the step"),
        (over(0, 0, 0), "tensor 0 is not among the writes of the step"),
        (over(0, 1, -1), "the distance is negative"),
    ],
)
def test_broken_overlaps_are_refused(overlap: PlanOverlap, text: str) -> None:
    with pytest.raises(InputError, match=text):
        plan_memory(chain(call((0,), 1, overlap), sizes=(160, 160), outputs=(1,)))


class Time(int):
    """A time that counts its comparisons."""

    comparisons = 0

    def _counted(name: str):
        def compare(self: Time, other: int) -> bool:
            Time.comparisons += 1
            return getattr(int, name)(self, other)

        return compare

    __lt__, __le__, __gt__, __ge__ = map(_counted, ("__lt__", "__le__", "__gt__", "__ge__"))


def test_savings_of_a_long_chain_take_few_comparisons() -> None:
    def comparisons(steps: int) -> int:
        extents = {n: Extent(8, Time(2 * n), Time(2 * n + 2)) for n in range(steps + 1)}
        chain = [Overlay(input=n, output=n + 1, distance=0) for n in range(steps)]
        Time.comparisons = 0
        assert sum(size for size, _, _ in savings(chain, extents)) == 8 * steps
        return Time.comparisons

    assert comparisons(2000) < 6 * comparisons(400)
