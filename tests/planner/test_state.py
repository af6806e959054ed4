# SPDX-License-Identifier: Apache-2.0
"""State and written inputs: memory that nothing else may use, and an order that keeps their values."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlf_sdk.errors import InputError
from mlf_sdk.planner import Access, PlanProblem, PlanStep, PlanTensor, check_plan, plan_memory
from mlf_sdk.planner.storage import build_graph, is_legal_order

IN, OUT, STATE = 0, 1, 9


def touch(*tensors: int) -> tuple[Access, ...]:
    return tuple(Access(tensor=t, first_phase=0, last_phase=0) for t in tensors)


def step(reads: tuple[int, ...], writes: tuple[int, ...]) -> PlanStep:
    return PlanStep(phases=1, reads=touch(*reads), writes=touch(*writes))


def problem(steps: list[PlanStep], *, state: tuple[int, ...] = (STATE,), inner: int = 4) -> PlanProblem:
    """Tensors: 0 input, 1 output, 2... intermediate, 9 state; 64 bytes each."""
    ids = (IN, OUT, *range(2, 2 + inner), STATE)
    tensors = tuple(PlanTensor(id=i, size_bytes=64) for i in ids)
    return PlanProblem(tensors=tensors, inputs=(IN,), outputs=(OUT,), steps=tuple(steps), state=state)


def test_nothing_lies_over_a_state() -> None:
    """It is touched by one step only, and keeps its bytes through all others, and between the runs."""
    found = problem([step((IN,), (2,)), step((2, STATE), (3, STATE)), step((3,), (4,)), step((4,), (OUT,))])
    plan = plan_memory(found)
    check_plan(found, plan)
    (state,) = (b for b in plan.buffers if b.key == STATE)
    assert (state.first, state.last) == (0, 5)
    for other in plan.buffers:
        assert other is state or not (
            other.offset < state.offset + 64 and state.offset < other.offset + other.size_bytes
        )
    assert plan.arena_bytes == plan.lower_bound_bytes == 3 * 64


def test_a_state_that_is_only_read_or_only_written() -> None:
    for reads, writes in (((IN, STATE), (OUT,)), ((IN,), (OUT, STATE))):
        plan = plan_memory(problem([step(reads, writes)], inner=0))
        assert plan.arena_bytes == 3 * 64


def test_without_state_it_has_to_be_written_first() -> None:
    with pytest.raises(InputError, match="read before any step has written it"):
        plan_memory(problem([step((IN, STATE), (OUT,))], state=(), inner=0))
    with pytest.raises(InputError, match=r"state\[0\]: tensor 7 does not exist"):
        plan_memory(problem([step((IN,), (OUT,))], state=(7,), inner=0))


def test_written_inputs_stay_in_order() -> None:
    """A reader before the writer sees the old value, one after it the new one."""
    graph = build_graph(problem([step((IN,), (2,)), step((IN,), (IN, 3)), step((IN, 2, 3), (OUT,))]))
    legal = [order for order in itertools.permutations(range(3)) if is_legal_order(graph, order)]
    assert legal == [(0, 1, 2)]


numbers = st.integers(0, 5)


@given(st.lists(st.tuples(numbers, numbers, st.booleans(), st.booleans()), min_size=1, max_size=7))
def test_any_use_of_a_state(uses: list[tuple[int, int, bool, bool]]) -> None:
    """Accesses to the state keep their order around its writers; plans are checked by their validator."""
    steps, written = [], [IN]
    for index, (first, second, reads, writes) in enumerate(uses):
        inputs = {written[first % len(written)], written[second % len(written)]}
        target = OUT if index == len(uses) - 1 else 20 + index
        state = (STATE,) if reads else ()
        steps.append(step((*inputs, *state), (target, *((STATE,) if writes else ()))))
        written.append(target)
    ids = (IN, OUT, STATE, *range(20, 20 + len(uses)))
    found = PlanProblem(
        tensors=tuple(PlanTensor(id=i, size_bytes=16 * (1 + i % 3)) for i in ids),
        inputs=(IN,),
        outputs=(OUT,),
        steps=tuple(steps),
        state=(STATE,),
    )
    plan = plan_memory(found)
    check_plan(found, plan)
    place = {index: at for at, index in enumerate(plan.order)}
    for (i, one), (j, two) in itertools.combinations(enumerate(uses), 2):
        touched = (one[2] or one[3]) and (two[2] or two[3])
        assert not (touched and (one[3] or two[3])) or place[i] < place[j]
    (state,) = (b for b in plan.buffers if b.key == STATE)
    assert (state.first, state.last) == (0, len(uses) + 1)
