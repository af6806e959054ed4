# SPDX-License-Identifier: Apache-2.0
"""Known problems with known plans, hostile ones, and what is refused."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from memory_cases import bound_of, intervals, scratch, tensors, touch
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.ir.step import Span
from mlf_sdk.planner import PlanError, PlanProblem, PlanStep, PlanTensor, check_plan, plan_memory
from mlf_sdk.planner.layout import plan_problem
from mlf_sdk.planner.place import place
from mlf_sdk.planner.problem import Overlay
from mlf_sdk.planner.storage import Buffer, lower_bound
from model_cases import Net

plan_module = importlib.import_module("mlf_sdk.planner.plan")


def chain(*sizes: int, **options: object) -> PlanProblem:
    """Step i reads tensor i and writes tensor i + 1, both in its only phase."""
    steps = tuple(
        PlanStep(phases=1, reads=(touch(i),), writes=(touch(i + 1),)) for i in range(len(sizes) - 1)
    )
    last = len(sizes) - 1
    return PlanProblem(tensors=tensors(*sizes), inputs=(0,), outputs=(last,), steps=steps, **options)


def branches(**options: object) -> PlanProblem:
    """Two big tensors, each reduced to a small one: best one after the other, not both first."""
    steps = (
        PlanStep(phases=1, reads=(touch(0),), writes=(touch(1),)),
        PlanStep(phases=1, reads=(touch(0),), writes=(touch(2),)),
        PlanStep(phases=1, reads=(touch(1),), writes=(touch(3),)),
        PlanStep(phases=1, reads=(touch(2),), writes=(touch(4),)),
        PlanStep(phases=1, reads=(touch(3), touch(4)), writes=(touch(5),)),
    )
    sizes = tensors(16, 1600, 1600, 16, 16, 16)
    return PlanProblem(tensors=sizes, inputs=(0,), outputs=(5,), steps=steps, **options)


def test_empty_problem() -> None:
    plan = plan_memory(PlanProblem(tensors=(), inputs=(), outputs=(), steps=()))
    assert (plan.arena_bytes, plan.lower_bound_bytes, plan.ratio) == (0, 0, 1.0)
    assert (plan.order, plan.peak, plan.buffers) == ((), (-1, 0), ())


def test_chain_needs_two_neighbours_at_most() -> None:
    plan = plan_memory(chain(64, 32, 160, 16, 64))
    assert plan.arena_bytes == plan.lower_bound_bytes == 192
    assert plan.peak == (1, 0)
    assert plan.order == (0, 1, 2, 3)


def test_arena_ends_without_the_padding_of_its_top() -> None:
    plan = plan_memory(chain(16, 5))
    assert plan.arena_bytes == plan.lower_bound_bytes == 21
    assert plan.tensor_offsets == {0: 0, 1: 16}


def test_the_buffer_with_most_padding_goes_on_top() -> None:
    plan = plan_memory(intervals([(30, 0, 0), (17, 0, 0), (31, 0, 0)], 16))
    assert plan.arena_bytes == 32 + 32 + 17
    assert plan.workspace_offsets[0][1] == 64


def test_padding_on_top_of_two_peaks_cannot_always_be_saved() -> None:
    # At phase 3 the one of 5 bytes must be on top, at phase 5 the one of 6: but they meet at phase 4.
    plan = plan_memory(intervals([(12, 5, 5), (12, 2, 3), (6, 4, 5), (5, 0, 4)], 4))
    assert (plan.lower_bound_bytes, plan.arena_bytes) == (18, 20)


def test_a_later_phase_takes_the_place_of_an_input() -> None:
    step = PlanStep(
        phases=3,
        reads=(touch(0, 0),),
        writes=(touch(1, 2),),
        workspaces=(scratch(100, 0, 1, 0), scratch(64, 2, 2, 1)),
    )
    problem = PlanProblem(tensors=tensors(64, 64), inputs=(0,), outputs=(1,), steps=(step,), alignment=4)
    plan = plan_memory(problem)
    assert plan.arena_bytes == plan.lower_bound_bytes == 164
    assert plan.peak == (0, 0)
    kept = plan_memory(dataclasses.replace(problem, keep_inputs=True))
    assert kept.arena_bytes == kept.lower_bound_bytes == 192
    assert kept.peak == (0, 2)


def test_one_phase_for_all_means_no_sharing_in_a_step() -> None:
    step = PlanStep(phases=1, reads=(touch(0),), writes=(touch(1),), workspaces=(scratch(100),))
    problem = PlanProblem(tensors=tensors(64, 64), inputs=(0,), outputs=(1,), steps=(step,), alignment=4)
    assert plan_memory(problem).arena_bytes == 228


def test_a_write_over_several_phases_is_live_in_all_of_them() -> None:
    step = PlanStep(phases=4, writes=(touch(0, 1, 3),), workspaces=(scratch(8, 0, 0, 0), scratch(8, 3, 3, 1)))
    problem = PlanProblem(tensors=tensors(32), inputs=(), outputs=(), steps=(step,), alignment=8)
    plan = plan_memory(problem)
    assert [(item.key, item.first, item.last) for item in plan.buffers] == [
        ((0, 0), 1, 1),
        (0, 2, 4),
        ((0, 1), 4, 4),
    ]
    assert plan.arena_bytes == 40


@pytest.mark.parametrize("reads", [((0, 0), (3, 3)), ((3, 3), (0, 0)), ((0, 1), (2, 3)), ((1, 3), (0, 2))])
def test_a_tensor_that_a_step_takes_twice_lives_from_its_first_use_to_its_last(
    reads: tuple[tuple[int, int], tuple[int, int]], tmp_path: Path
) -> None:
    """Also where it is a tensor and its alias."""
    for twice, aliases in ((0, None), (2, {2: 0})):
        step = PlanStep(
            phases=4,
            reads=(touch(0, *reads[0]), touch(twice, *reads[1])),
            writes=(touch(1, 3),),
            workspaces=(scratch(24, 1, 1, 0), scratch(24, 2, 2, 1)),
        )
        problem = PlanProblem(
            tensors=tensors(32, 8, *((32,) if aliases else ()), aliases=aliases),
            inputs=(0,),
            outputs=(1,),
            steps=(step,),
            alignment=8,
        )
        if twice == 0:
            problem = laid_out(reads, tmp_path)
        plan = plan_memory(problem)
        assert [(b.first, b.last) for b in plan.buffers if b.key == 0] == [(0, 4)]


@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_a_storage_that_a_step_writes_in_two_phases_lives_from_the_first(order: tuple[int, int]) -> None:
    """In whichever order the step names the tensor and its alias."""
    phases = {0: (0, 1), 2: (2, 3)}
    step = PlanStep(
        phases=4, writes=tuple(touch(t, *phases[t]) for t in order), workspaces=(scratch(24, 0, 0, 0),)
    )
    problem = PlanProblem(
        tensors=tensors(32, 8, 32, aliases={2: 0}), inputs=(), outputs=(0,), steps=(step,), alignment=8
    )
    plan = plan_memory(problem)
    assert [b.first for b in plan.buffers if b.key == 0] == [1]
    assert plan.arena_bytes == plan.lower_bound_bytes == 56


def laid_out(reads: tuple[tuple[int, int], tuple[int, int]], folder: Path) -> PlanProblem:
    """The problem of a model with a step that takes its only input twice."""
    net = Net()
    x = net.input("x")
    y = net.call("twice", [x, x], "in0[i] + in1[i]")
    model = net.load(folder, y)
    spans = tuple(Span(first=a, last=b) for a, b in (*reads, (3, 3)))
    step = dataclasses.replace(model.steps[0], phases=4, spans=spans)
    return plan_problem(dataclasses.replace(model, steps=(step,)), keep_inputs=False)


def test_an_argument_that_a_kernel_never_touches_lives_throughout_its_step(tmp_path: Path) -> None:
    """It may be reached in a way that was not understood: nothing of the step lies over it."""
    net = Net()
    x, ignored = net.input("x"), net.input("ignored")
    first, second = net.call("two", [x, ignored], "in0[i] + 1", "in0[i] + 2")
    model = net.load(tmp_path, second, first, ignored)
    step = model.steps[0]
    assert step.phases > 1 and len(step.spans) == 4
    assert step.spans[1] == Span(first=0, last=step.phases - 1)
    assert step.spans[2] != step.spans[1]  # what is reached is known better


def test_an_input_that_nobody_reads_lives_only_at_the_start() -> None:
    step = PlanStep(phases=1, writes=(touch(1),))
    problem = PlanProblem(tensors=tensors(640, 64), inputs=(0,), outputs=(1,), steps=(step,))
    plan = plan_memory(problem)
    assert (plan.arena_bytes, plan.peak) == (640, (-1, 0))
    assert [(item.key, item.first, item.last) for item in plan.buffers] == [(0, 0, 0), (1, 1, 2)]
    assert plan_memory(dataclasses.replace(problem, keep_inputs=True)).arena_bytes == 704


def test_an_input_that_is_an_output_lives_throughout() -> None:
    step = PlanStep(phases=2, workspaces=(scratch(16, 0, 1),))
    problem = PlanProblem(tensors=tensors(32), inputs=(0,), outputs=(0, 0), steps=(step,))
    plan = plan_memory(problem)
    assert plan.buffers[0].key == 0
    assert (plan.buffers[0].first, plan.buffers[0].last) == (0, 3)
    assert plan.arena_bytes == 48


def test_aliases_cost_nothing_and_extend_their_root() -> None:
    steps = (
        PlanStep(phases=1, reads=(touch(0),), writes=(touch(1),)),
        PlanStep(phases=1, reads=(touch(1),), writes=(touch(2),)),  # a reshape
        PlanStep(phases=1, reads=(touch(0),), writes=(touch(3),)),
        PlanStep(phases=1, reads=(touch(2), touch(3)), writes=(touch(4),)),
    )
    shared = tensors(16, 64, 64, 16, 16, 32, aliases={2: 1, 5: 2})
    plan = plan_memory(PlanProblem(tensors=shared, inputs=(0,), outputs=(4,), steps=steps))
    assert plan.tensor_offsets[1] == plan.tensor_offsets[2] == plan.tensor_offsets[5]
    assert plan.arena_bytes == plan.lower_bound_bytes == 96
    assert sorted(item.key for item in plan.buffers) == [0, 1, 3, 4]


def test_alias_of_an_input_that_is_written_by_no_step() -> None:
    step = PlanStep(phases=1, reads=(touch(1),), writes=(touch(2),))
    shared = tensors(32, 32, 32, aliases={1: 0})
    plan = plan_memory(PlanProblem(tensors=shared, inputs=(0,), outputs=(2,), steps=(step,)))
    assert plan.arena_bytes == 64


def test_empty_tensors_and_untouched_ones_need_no_room() -> None:
    step = PlanStep(phases=1, reads=(touch(0),), writes=(touch(1),), workspaces=(scratch(0),))
    plan = plan_memory(PlanProblem(tensors=tensors(0, 8, 999), inputs=(0,), outputs=(1,), steps=(step,)))
    assert plan.arena_bytes == 8
    assert plan.tensor_offsets == {0: 0, 1: 0, 2: 0}
    assert plan.workspace_offsets == {0: {0: 0}}


def test_reordering_lowers_the_bound_and_only_on_request() -> None:
    plan = plan_memory(branches())
    assert plan.order == (0, 2, 1, 3, 4)
    assert plan.arena_bytes == plan.lower_bound_bytes == 1632
    fixed = plan_memory(branches(reorder=False))
    assert fixed.order == (0, 1, 2, 3, 4)
    assert fixed.arena_bytes == fixed.lower_bound_bytes == 3216


def test_the_original_order_returns_when_the_better_one_packs_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    def clumsy(
        buffers: Sequence[Buffer], alignment: int, target: int, _over: Sequence[Overlay]
    ) -> tuple[list[int], int]:
        if target != 1632:
            return place(buffers, alignment, target)
        ends = list(itertools.accumulate(buffer.size_bytes for buffer in buffers))
        return [0, *ends[:-1]], ends[-1]

    monkeypatch.setattr(plan_module, "place", clumsy)
    plan = plan_memory(branches())
    assert plan.order == (0, 1, 2, 3, 4)
    assert plan.arena_bytes == plan.lower_bound_bytes == 3216


@pytest.mark.parametrize(
    ("found", "original", "kept"),
    [(3232, 3248, "found"), (3232, 3232, "found"), (3248, 3232, "original"), (1648, 3216, "found")],
)
def test_the_order_with_the_smaller_arena_stays(
    monkeypatch: pytest.MonkeyPatch, found: int, original: int, kept: str
) -> None:
    """However badly each is placed; of equals the one with the lower bound."""

    def moved_up(
        buffers: Sequence[Buffer], alignment: int, target: int, _over: Sequence[Overlay]
    ) -> tuple[list[int], int]:
        offsets, arena = place(buffers, alignment, target)
        more = (found if target == 1632 else original) - arena
        return [offset + more for offset in offsets], arena + more

    monkeypatch.setattr(plan_module, "place", moved_up)
    plan = plan_memory(branches())
    assert plan.order == ((0, 2, 1, 3, 4) if kept == "found" else (0, 1, 2, 3, 4))
    assert plan.arena_bytes == (found if kept == "found" else original)


def test_order_is_kept_where_no_other_is_better() -> None:
    steps = (
        PlanStep(phases=1, reads=(touch(0),), writes=(touch(2),)),
        PlanStep(phases=1, reads=(touch(0),), writes=(touch(1),)),
    )
    problem = PlanProblem(tensors=tensors(16, 32, 32), inputs=(0,), outputs=(1, 2), steps=steps)
    assert plan_memory(problem).order == (0, 1)


def test_reads_stay_before_a_later_write_in_place() -> None:
    # Running step 2 before step 1 would save memory, and would give step 1 the wrong bytes.
    steps = (
        PlanStep(phases=1, reads=(touch(0),), writes=(touch(1),)),
        PlanStep(phases=1, reads=(touch(1),), writes=(touch(2),)),
        PlanStep(phases=1, reads=(touch(1), touch(0)), writes=(touch(3),)),
        PlanStep(phases=1, reads=(touch(3), touch(2)), writes=(touch(4),)),
    )
    sizes = (512, 16, 512, 16, 16)
    free = PlanProblem(tensors=tensors(*sizes), inputs=(0,), outputs=(4,), steps=steps)
    assert plan_memory(free).order == (0, 2, 1, 3)
    tied = dataclasses.replace(free, tensors=tensors(*sizes, aliases={3: 1}))
    assert plan_memory(tied).order == (0, 1, 2, 3)


def test_writers_of_shared_storage_keep_their_order() -> None:
    steps = tuple(PlanStep(phases=1, writes=(touch(i),), workspaces=(scratch(64),)) for i in (0, 1, 2))
    shared = tensors(8, 8, 8, aliases={1: 0, 2: 1})
    plan = plan_memory(PlanProblem(tensors=shared, inputs=(), outputs=(2,), steps=steps))
    assert plan.order == (0, 1, 2)
    moved = dataclasses.replace(plan, order=(1, 0, 2))
    with pytest.raises(PlanError, match="data dependency"):
        check_plan(PlanProblem(tensors=shared, inputs=(), outputs=(2,), steps=steps), moved)


def test_many_branches_are_found_by_the_beam() -> None:
    """30 branches of big, small: 2^60 states, the best order finishes one branch after the other."""
    count = 30
    grow = [PlanStep(phases=1, reads=(touch(0),), writes=(touch(1 + i),)) for i in range(count)]
    shrink = [PlanStep(phases=1, reads=(touch(1 + i),), writes=(touch(31 + i),)) for i in range(count)]
    join = PlanStep(phases=1, reads=tuple(touch(31 + i) for i in range(count)), writes=(touch(61),))
    sizes = [16, *[1600 + 16 * i for i in range(count)], *[16] * count, 16]
    problem = PlanProblem(tensors=tensors(*sizes), inputs=(0,), outputs=(61,), steps=(*grow, *shrink, join))
    plan = plan_memory(problem)
    assert plan.arena_bytes == plan.lower_bound_bytes
    # The biggest branch first: nothing but the input and its own two tensors is live with it.
    assert plan.lower_bound_bytes <= 16 + (1600 + 16 * 29) + 16 * count
    assert bound_of(problem, plan.order) == plan.lower_bound_bytes


@pytest.mark.parametrize(
    ("bound", "spans"),
    [
        pytest.param(11, [(3, 2, 4), (4, 0, 4), (6, 6, 6), (3, 2, 6), (1, 0, 3)], id="largest-first-fails"),
        pytest.param(8, [(5, 5, 6), (3, 2, 4), (5, 2, 2), (3, 3, 4), (2, 3, 6)], id="all-greedy-orders-fail"),
        pytest.param(
            45,
            [
                *[(7, 1, 7), (1, 3, 9), (9, 0, 2), (2, 0, 5), (3, 1, 1), (3, 0, 7), (9, 0, 2), (1, 3, 9)],
                *[(6, 6, 9), (9, 3, 6), (1, 3, 5), (7, 2, 3), (9, 4, 6), (4, 5, 11), (5, 5, 10), (8, 1, 3)],
            ],
            id="crowded-16",
        ),
        pytest.param(
            57,
            [
                *[(9, 0, 1), (4, 2, 5), (8, 8, 11), (2, 6, 7), (7, 9, 10), (1, 2, 8), (5, 2, 6), (2, 6, 11)],
                *[(4, 0, 8), (2, 8, 9), (1, 4, 9), (8, 1, 9), (4, 5, 10), (4, 3, 10), (6, 2, 8), (7, 0, 6)],
                *[(7, 9, 11), (1, 1, 8), (8, 4, 11), (4, 6, 11)],
            ],
            id="crowded-20",
        ),
    ],
)
def test_bound_is_reached_where_simple_placement_fails(bound: int, spans: list[tuple[int, int, int]]) -> None:
    plan = plan_memory(intervals(spans))
    assert plan.arena_bytes == plan.lower_bound_bytes == bound


def residual_network(blocks: int) -> PlanProblem:
    """Blocks of three steps with padding workspaces and a shortcut, shrinking on the way."""
    sizes, steps = [3072], []
    for block in range(blocks):
        entry = len(sizes) - 1
        size = max(32768 >> (block // 3), 64)
        sizes += [size, size + 32, size]
        for layer, reads in enumerate(((entry,), (entry + 1,), (entry + 2, entry))):
            steps.append(
                PlanStep(
                    phases=3,
                    reads=tuple(
                        touch(tensor, 0 if tensor != entry else 2 * (layer == 2)) for tensor in reads
                    ),
                    writes=(touch(entry + layer + 1, 1, 2),),
                    workspaces=(scratch(size + size // 8, 0, 1), scratch(1008, 1, 2, 1)),
                )
            )
    return PlanProblem(tensors=tensors(*sizes), inputs=(0,), outputs=(len(sizes) - 1,), steps=tuple(steps))


def test_a_network_of_45_steps_reaches_the_bound() -> None:
    problem = residual_network(15)
    plan = plan_memory(problem)
    assert plan.arena_bytes == plan.lower_bound_bytes
    assert plan.order == tuple(range(45))


def all_at_once(steps: int) -> PlanProblem:
    calls = tuple(PlanStep(phases=1, reads=(touch(0),), writes=(touch(i + 1),)) for i in range(steps))
    return PlanProblem(
        tensors=tensors(16, *[1 + i % 997 for i in range(steps)]),
        inputs=(0,),
        outputs=tuple(range(1, steps + 1)),
        steps=calls,
    )


def long_skips(steps: int) -> PlanProblem:
    calls = tuple(
        PlanStep(
            phases=2,
            reads=tuple(touch(t) for t in sorted({i, i - i * 7919 % min(i + 1, 500)})),
            writes=(touch(i + 1, 1),),
            workspaces=(scratch(i * 31 % 4000, 0, 1),),
        )
        for i in range(steps)
    )
    sizes = tensors(*[1 + i * 6151 % 5000 for i in range(steps + 1)])
    return PlanProblem(tensors=sizes, inputs=(0,), outputs=(steps,), steps=calls)


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(lambda: all_at_once(10_000), id="10000-outputs"),
        pytest.param(lambda: long_skips(10_000), id="10000-steps-of-skips"),
        pytest.param(lambda: long_skips(1_000), id="1000-steps-of-skips"),
        pytest.param(lambda: all_at_once(1_900), id="1900-independent-steps"),
        pytest.param(
            lambda: intervals([(1 + i % 300, i, i + i % 40) for i in range(8_000)], 16), id="8000-workspaces"
        ),
    ],
)
def test_hostile_problems_stay_bounded(problem: Callable[[], PlanProblem]) -> None:
    plan = plan_memory(problem())
    assert plan.ratio < 1.3


def test_a_chain_of_aliases_needs_no_recursion() -> None:
    shared = tuple(PlanTensor(id=i, size_bytes=8, alias_of=i - 1 if i else None) for i in range(20_000))
    plan = plan_memory(PlanProblem(tensors=shared[::-1], inputs=(19_999,), outputs=(7,), steps=()))
    assert plan.arena_bytes == 8


SIMPLE = chain(16, 32, 48)
ONE = SIMPLE.steps[0]


def with_step(**changes: object) -> PlanProblem:
    return dataclasses.replace(SIMPLE, steps=(dataclasses.replace(ONE, **changes), SIMPLE.steps[1]))


@pytest.mark.parametrize(
    ("problem", "place"),
    [
        (dataclasses.replace(SIMPLE, alignment=0), "alignment"),
        (dataclasses.replace(SIMPLE, alignment=24), "alignment"),
        (dataclasses.replace(SIMPLE, alignment=-16), "alignment"),
        (dataclasses.replace(SIMPLE, tensors=(*tensors(1, 2, 3), *tensors(1))), "tensors[3].id"),
        (dataclasses.replace(SIMPLE, tensors=tensors(16, -1, 48)), "tensors[1].size_bytes"),
        (dataclasses.replace(SIMPLE, tensors=tensors(16, 32, 48, aliases={2: 9})), "tensors[2].alias_of"),
        (dataclasses.replace(SIMPLE, tensors=tensors(1, 1, 1, aliases={0: 1, 1: 0})), "tensors[1].alias_of"),
        (dataclasses.replace(SIMPLE, tensors=tensors(1, 1, 1, aliases={2: 2})), "tensors[2].alias_of"),
        (dataclasses.replace(SIMPLE, tensors=tensors(16, 32, 48, aliases={2: 1})), "tensors[2].size_bytes"),
        (dataclasses.replace(SIMPLE, inputs=(5,)), "inputs[0]"),
        (dataclasses.replace(SIMPLE, outputs=(2, -1)), "outputs[1]"),
        (dataclasses.replace(SIMPLE, outputs=(1, 3), tensors=tensors(1, 2, 3, 4)), "outputs[1]"),
        (with_step(phases=0), "steps[0].phases"),
        (with_step(reads=(touch(8),)), "steps[0].reads[0].tensor"),
        (with_step(writes=(touch(1), touch(8))), "steps[0].writes[1].tensor"),
        (with_step(reads=(touch(0, 1),)), "steps[0].reads[0]"),
        (with_step(reads=(touch(0, -1, 0),)), "steps[0].reads[0]"),
        (with_step(writes=(touch(1, 0, 1),)), "steps[0].writes[0]"),
        (with_step(phases=3, writes=(touch(1, 2, 1),)), "steps[0].writes[0]"),
        (with_step(workspaces=(scratch(8, 0, 1),)), "steps[0].workspaces[0]"),
        (with_step(workspaces=(scratch(-8),)), "steps[0].workspaces[0].size_bytes"),
        (with_step(workspaces=(scratch(8), scratch(8))), "steps[0].workspaces[1].slot"),
        (with_step(workspaces=(scratch(8, slot=-1),)), "steps[0].workspaces[0].slot"),
        (dataclasses.replace(SIMPLE, steps=SIMPLE.steps[::-1]), "steps[0].reads[0]"),
        (with_step(reads=(touch(0), touch(2))), "steps[0].reads[1]"),
        (with_step(reads=(touch(1),)), "steps[0].reads[0]"),
    ],
)
def test_broken_problems_are_refused_with_the_place(problem: PlanProblem, place: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_memory(problem)
    assert caught.value.where == f"memory problem: {place}"
    assert caught.value.hint


def test_check_plan_accepts_what_the_planner_made() -> None:
    check_plan(SIMPLE, plan_memory(SIMPLE))


def test_check_plan_finds_an_overlap() -> None:
    plan = plan_memory(SIMPLE)
    buffers = tuple(dataclasses.replace(item, offset=0) for item in plan.buffers)
    flat = dataclasses.replace(
        plan, tensor_offsets=dict.fromkeys(plan.tensor_offsets, 0), buffers=buffers, arena_bytes=48
    )
    with pytest.raises(PlanError, match="tensor 1 overlaps tensor 0 at byte 0, time 1"):
        check_plan(SIMPLE, flat)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": (0,)}, "data dependency"),
        ({"order": (0, 0)}, "data dependency"),
        ({"order": (0, 1, 1)}, "data dependency"),
        ({"order": (0, 2)}, "data dependency"),
        ({"order": (1, 0)}, "data dependency"),
        ({"tensor_offsets": {0: 0, 1: 0, 2: 0}}, "disagrees"),
        ({"tensor_offsets": {0: 0, 1: 8, 2: 32}}, "not a multiple"),
        ({"tensor_offsets": {0: 0, 1: -16, 2: 32}}, "not a multiple"),
        ({"tensor_offsets": {0: 0, 1: 48}}, "share the offset"),
        ({"arena_bytes": 96}, "does not end"),
        ({"arena_bytes": 64, "lower_bound_bytes": 64}, "does not end"),
        ({"lower_bound_bytes": 81}, "below its bound"),
        ({"buffers": ()}, "disagrees"),
    ],
)
def test_check_plan_finds_what_is_wrong(change: dict[str, object], message: str) -> None:
    plan = dataclasses.replace(plan_memory(SIMPLE), **change)
    with pytest.raises(PlanError, match=message) as caught:
        check_plan(SIMPLE, plan)
    assert isinstance(caught.value, MlfError)


@pytest.mark.parametrize(("root", "alias"), [(0, 16), (16, 0)])
def test_check_plan_finds_an_alias_apart_from_its_root(root: int, alias: int) -> None:
    problem = PlanProblem(tensors=tensors(32, 16, aliases={1: 0}), inputs=(0,), outputs=(1,), steps=())
    plan = dataclasses.replace(plan_memory(problem), tensor_offsets={0: root, 1: alias})
    with pytest.raises(PlanError, match="tensor 1 does not share the offset of tensor 0"):
        check_plan(problem, plan)


@pytest.mark.parametrize(
    ("offsets", "overlap"),
    [
        ((0, 48, 96), None),
        ((96, 48, 0), None),
        ((16, 0, 96), "2 at byte 16"),  # the second reaches into the first from below
        ((16, 48, 96), "2 at byte 48"),  # and from above
        ((0, 48, 80), "3 at byte 80"),
        ((0, 96, 32), "3 at byte 32"),
        ((48, 96, 16), "3 at byte 48"),
        ((96, 0, 32), "3 at byte 32"),
        ((0, 112, 80), "3 at byte 112"),
    ],
)
def test_check_plan_finds_overlaps_on_all_sides(offsets: tuple[int, ...], overlap: str | None) -> None:
    """Three workspaces of 48 bytes, used one after the other begins; an empty one comes before them."""
    works = (scratch(0, 0, 3, 0), *(scratch(48, slot - 1, 3, slot) for slot in (1, 2, 3)))
    problem = PlanProblem(
        tensors=(), inputs=(), outputs=(), steps=(PlanStep(phases=4, workspaces=works),), alignment=16
    )
    plan = plan_memory(problem)
    assert plan.arena_bytes == 144
    places = {(0, 0): 0, **{(0, slot): offset for slot, offset in zip((1, 2, 3), offsets, strict=True)}}
    moved = dataclasses.replace(
        plan,
        workspace_offsets={0: {slot: offset for (_, slot), offset in places.items()}},
        buffers=tuple(dataclasses.replace(b, offset=places[b.key]) for b in plan.buffers),  # type: ignore[index]
        arena_bytes=max(offsets) + 48,
        lower_bound_bytes=0,
    )
    if overlap is None:
        check_plan(problem, moved)
    else:
        slot, _, byte = overlap.partition(" at ")
        with pytest.raises(PlanError, match=rf"workspace \(0, {slot}\) overlaps workspace .* at {byte},"):
            check_plan(problem, moved)


def test_check_plan_finds_a_missing_workspace() -> None:
    problem = with_step(workspaces=(scratch(8),))
    plan = dataclasses.replace(plan_memory(problem), workspace_offsets={})
    with pytest.raises(PlanError, match=r"workspace \(0, 0\) has no offset"):
        check_plan(problem, plan)


@pytest.mark.parametrize(
    ("spans", "bound", "time"),
    [
        ((), 0, 0),
        (((16, 0, 0),), 16, 0),
        (((16, 0, 2),), 16, 1),  # still there in the first phase
        (((16, 0, 0), (16, 0, 3), (16, 2, 3)), 32, 2),
        (((16, 0, 0), (16, 0, 3), (8, 2, 3)), 32, 0),
        (((16, 0, 4), (16, 3, 4), (32, 6, 6)), 32, 3),
    ],
)
def test_the_bound_is_reached_at_the_first_time_of_a_step(
    spans: Sequence[tuple[int, int, int]], bound: int, time: int
) -> None:
    """Time 0, when the inputs are written, is of no step."""
    buffers = [
        Buffer(kind="tensor", key=key, size_bytes=size, first=first, last=last)
        for key, (size, first, last) in enumerate(spans)
    ]
    assert lower_bound(buffers, 16) == (bound, time)
