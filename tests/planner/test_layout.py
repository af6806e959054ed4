# SPDX-License-Identifier: Apache-2.0
"""What the planner is told of a model, and what becomes of the plan: models made by hand, with views of storages."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from mlf_sdk.errors import InputError, NotPossibleError
from mlf_sdk.ir.abi import Abi, Convention
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import MemorySummary, Model, Provenance, Tensor, TensorKind
from mlf_sdk.ir.step import Overlap, Span, Step, Workspace
from mlf_sdk.planner import Access, PlanOverlap, PlanWorkspace
from mlf_sdk.planner.layout import RED_ZONE_BYTES, lay_out, plan_problem

KINDS = {"x": TensorKind.INPUT, "c": TensorKind.CONSTANT, "s": TensorKind.STATE, "t": TensorKind.INTERMEDIATE}
BYTE = DType.parse("int8")


def tensors(*given: str) -> tuple[Tensor, ...]:
    """Tensors of bytes, e.g. ``x 32`` an input, ``t 16 of 0 at 8`` a view of tensor 0; by kind, as in KINDS."""
    found = []
    for number, text in enumerate(given):
        kind, size, *view = text.split()
        is_view = bool(view)
        data = bytes(range(1, int(size) + 1)) if kind in "cs" and not is_view else None
        found.append(
            Tensor(
                id=number,
                name=f"{kind}{number}",
                c_name=f"{kind}{number}",
                dtype=BYTE,
                shape=(int(size),),
                kind=KINDS[kind],
                alias_of=int(view[1]) if is_view else None,
                offset_bytes=int(view[3]) if is_view else 0,
                data=data,
            )
        )
    return tuple(found)


def model(given: tuple[Tensor, ...], *steps: Step, outputs: tuple[int, ...], **options: Any) -> Model:
    return Model(
        name="made",
        c_name="made",
        provenance=Provenance(
            format="Made", format_version="", compiler="", compiler_version="", sha256="", source=""
        ),
        executor="graph",
        targets=(),
        tensors=given,
        inputs=tuple(t.id for t in given if t.kind is TensorKind.INPUT and t.alias_of is None),
        outputs=outputs,
        output_names=tuple(f"y{i}" for i in outputs),
        steps=steps,
        units=(),
        summary=MemorySummary(),
        **options,
    )


def step(index: int, inputs: tuple[int, ...], outputs: tuple[int, ...], **facts: Any) -> Step:
    return Step(index=index, name=f"f{index}", symbol=f"f{index}", inputs=inputs, outputs=outputs, **facts)


def access(tensor: int, first: int, last: int) -> Access:
    return Access(tensor=tensor, first_phase=first, last_phase=last)


VIEWS = tensors(
    *("x 32", "t 40", "t 8 of 1 at 24", "t 4 of 2 at 4"),
    *("s 5", "s 24", "s 8 of 5 at 16", "c 3", "c 9", "c 2 of 8 at 7", "t 20"),
)


def test_a_view_lies_in_the_memory_of_its_storage() -> None:
    """Offsets add up along views of views, in the arena, the state and the parameters."""
    layout = lay_out(model(VIEWS, step(0, (0,), (1,)), step(1, (3, 6, 9), (10,)), outputs=(10,)))
    in_arena = layout.plan.tensor_offsets[1]
    assert in_arena > 0
    assert [layout.offset(i) for i in (1, 2, 3)] == [in_arena, in_arena + 24, in_arena + 28]
    assert [layout.offset(i) for i in (4, 5, 6)] == [0, 16, 32]
    assert [layout.offset(i) for i in (7, 8, 9)] == [0, 16, 23]
    assert layout.state_bytes == 16 + 24 and layout.params_bytes == 16 + 9
    assert layout.state_blob() == bytes(range(1, 6)) + bytes(11) + bytes(range(1, 25))
    assert layout.params_blob() == bytes(range(1, 4)) + bytes(13) + bytes(range(1, 10))


def test_a_layout_apart_shares_nothing_and_keeps_the_order() -> None:
    """The other order needs less memory, and so does sharing: neither is done."""
    given = tensors("x 16", "t 1600", "t 1600", "t 16", "t 16", "t 16", "c 3", "c 80", "c 1")
    calls = [((0, 6), (1,)), ((0, 7), (2,)), ((1,), (3,)), ((2, 8), (4,)), ((3, 4), (5,))]
    made = model(given, *(step(i, *call) for i, call in enumerate(calls)), outputs=(5,))
    layout = lay_out(made)
    assert layout.shared and layout.steps != made.steps and layout.arena_bytes == 1632
    assert [*layout.constant_offsets.values()] == [0, 16, 96]
    apart = lay_out(made, shared=False)
    assert not apart.shared and apart.steps == made.steps
    for one, two in itertools.combinations(apart.plan.buffers, 2):
        assert one.offset + one.size_bytes <= two.offset or two.offset + two.size_bytes <= one.offset
    assert apart.arena_bytes == sum(t.size_bytes for t in given[:6])
    assert [*apart.constant_offsets.values()] == [0, 80, 80 + 80 + RED_ZONE_BYTES]
    assert apart.params_bytes == 225


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("t 4 of 0 at 12", True),  # up to the first byte of the input
        ("t 5 of 0 at 12", False),
        ("t 4 of 0 at 24", True),  # from behind its last one
        ("t 4 of 0 at 23", False),
        ("t 24 of 0 at 8", False),
        ("t 2 of 0 at 18", False),
        ("t 4 of 0 at 4", True),  # far before it
        ("t 4 of 0 at 28", True),  # and behind it
        ("t 8", True),
    ],
)
def test_inputs_are_kept_unless_a_step_writes_to_their_bytes(written: str, kept: bool) -> None:
    """The input is bytes 16 to 23 of a storage in which others may be written; as an output, or in place."""
    given = tensors("t 32", "x 8 of 0 at 16", written, "t 8")
    for call in (
        step(0, (1,), (2, 3)),
        step(0, (1, 2), (3,), writes=(1,)),
        step(0, (1, 2), (3,), escaping_args=(1,)),
    ):
        made = dataclasses.replace(model(given, call, outputs=(3,)), inputs=(1, 2))
        own = dataclasses.replace(made, inputs=(1,)) if call.outputs == (2, 3) else made
        if kept and call.outputs == (2, 3):
            assert lay_out(own, keep_inputs=True).inputs_kept
        else:  # in place it is an input itself that is written
            with pytest.raises(InputError, match="the model writes to its input '"):
                lay_out(own, keep_inputs=True)
        assert not lay_out(own).inputs_kept


def test_an_input_is_kept_where_the_same_bytes_of_another_tensor_are_written() -> None:
    made = model(tensors("t 8", "x 8"), step(0, (1,), (0,)), outputs=(0,))
    assert lay_out(made, keep_inputs=True).inputs_kept


def test_the_output_of_a_model_of_two_tensors_may_lie_over_its_input() -> None:
    call = step(0, (0,), (1,), overlaps=(Overlap(input=0, output=0, distance_bytes=16),))
    layout = lay_out(model(tensors("x 64", "t 64"), call, outputs=(1,)))
    assert layout.arena_bytes == 64 + 16


def test_a_model_that_was_not_analysed_has_no_layout() -> None:
    made = model(tensors("x 8", "t 8"), step(0, (0,), (1,)), outputs=(1,), is_analysed=False)
    with pytest.raises(InputError, match="was not analysed for a compiler"):
        lay_out(made)


def test_what_the_planner_is_told() -> None:
    """A state has no bytes in the arena, a constant no place at all; written inputs are written and read."""
    given = tensors("x 8", "s 24", "c 4", "t 16", "t 8 of 3 at 8")
    calls = (
        step(
            *(0, (0, 1, 2, 0), (3,)),
            phases=4,
            writes=(1,),
            escaping_args=(0, 2),
            persistent_globals=("count",),
            spans=tuple(Span(first=a, last=b) for a, b in ((0, 1), (1, 2), (0, 3), (3, 3), (2, 3))),
            workspaces=(Workspace(slot=1, size_bytes=48, span=Span(first=1, last=2)),),
            workspace_stack_bytes=40,
        ),
        step(1, (4, 0), (4,), phases=2),
    )
    problem = plan_problem(model(given, *calls, outputs=(4, 2, 4), alignment=64), keep_inputs=True)
    assert [(t.id, t.size_bytes, t.alias_of) for t in problem.tensors] == [
        *((0, 8, None), (1, 0, None), (3, 16, None), (4, 8, 3))
    ]
    assert (problem.inputs, problem.outputs, problem.state, problem.kept) == ((0,), (4,), (1,), (0,))
    assert (problem.alignment, problem.keep_inputs) == (64, True)
    first, second = problem.steps
    assert first.reads == (access(0, 0, 3), access(1, 1, 2))
    assert first.writes == (access(3, 2, 3), access(1, 1, 2))
    assert first.workspaces == (
        PlanWorkspace(slot=1, size_bytes=48, first_phase=1, last_phase=2),
        PlanWorkspace(slot=2, size_bytes=40, first_phase=0, last_phase=3),
    )
    assert (first.phases, first.is_fixed, second.is_fixed) == (4, True, False)
    assert second.reads == (access(4, 0, 1), access(0, 0, 1))  # nothing is known of its phases
    assert second.writes == (access(4, 0, 1),) and second.workspaces == ()


STORAGES = ("x 64", "t 64", "t 16 of 0 at 8", "t 16 of 1 at 24", "t 16 of 0 at 32", "c 16", "t 16 of 1 at 0")


@pytest.mark.parametrize(
    ("inputs", "outputs", "allowed", "expected"),
    [
        pytest.param((0,), (1,), [(0, 0, 12)], [(0, 1, 12)], id="whole"),
        pytest.param((1,), (0,), [(0, 0, 12)], [(1, 0, 12)], id="the-other-way"),
        pytest.param((2,), (3,), [(0, 0, 12)], [(2, 3, 12 + 24 - 8)], id="views"),
        pytest.param((4,), (6,), [(0, 0, 12)], [(4, 6, 0)], id="behind-anyway"),
        pytest.param((2, 4), (3,), [(0, 0, 12), (1, 0, 40)], [(2, 3, 32)], id="the-larger"),
        pytest.param((2, 4), (3,), [(0, 0, 12)], [], id="one-of-two-not-allowed"),
        pytest.param((2,), (4,), [(0, 0, 12)], [], id="one-storage"),
        pytest.param((5,), (1,), [(0, 0, 12)], [], id="constant"),
        pytest.param((0,), (1,), [], [], id="none"),
    ],
)
def test_overlaps_of_whole_storages(
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    allowed: list[tuple[int, int, int]],
    expected: list[tuple[int, int, int]],
) -> None:
    overlaps = tuple(Overlap(input=i, output=o, distance_bytes=d) for i, o, d in allowed)
    fill = step(0, (), (0, 1))
    made = model(tensors(*STORAGES), fill, step(1, inputs, outputs, overlaps=overlaps), outputs=outputs)
    assert plan_problem(made, keep_inputs=False).steps[1].overlaps == tuple(
        PlanOverlap(input=i, output=o, distance_bytes=d) for i, o, d in expected
    )


def test_bytes_of_inputs_and_outputs_in_the_arena() -> None:
    """Two names of the same bytes count once; a constant or a state that is an output lies elsewhere."""
    given = tensors("x 8", "t 40", "t 8 of 1 at 32", "t 8 of 1 at 0", "c 4", "s 4", "t 8 of 1 at 32")
    made = model(given, step(0, (0,), (1,)), outputs=(2, 3, 4, 5, 6, 0))
    assert lay_out(made).io_bytes == 8 + 8 + 8


PLAIN = Abi(convention=Convention.C)


def left_to_the_caller(given: Model) -> Model:
    provenance = dataclasses.replace(given.provenance, options={"caller_inputs": "True"})
    return dataclasses.replace(given, provenance=provenance)


def test_no_buffer_of_the_arena_is_an_input_of_the_caller_or_a_part_of_one() -> None:
    given = tensors("x 32", "x 8", "t 8 of 0 at 16", "t 16")
    over = Overlap(input=0, output=0, distance_bytes=0)
    made = model(given, step(0, (2, 1), (3,), overlaps=(over,), abi=PLAIN), outputs=(3,))
    layout = lay_out(left_to_the_caller(made))
    assert [buffer.key for buffer in layout.plan.buffers] == [3]
    assert (layout.arena_bytes, layout.io_bytes, layout.inputs_kept) == (16, 16, True)
    assert layout.input_offsets == {0: 4, 1: 52} and layout.input_bytes == 60  # words that begin no better
    assert layout.input_alignment == 4
    assert lay_out(made).io_bytes == 56 and not lay_out(made).input_offsets


@pytest.mark.parametrize(
    ("call", "outputs", "said"),
    [
        (step(0, (0,), (1,), abi=PLAIN), (2,), "the output 't2' is an input itself"),
        (step(0, (0,), (1,), writes=(0,), abi=PLAIN), (1,), "writes to its input 'x0'"),
        (step(0, (0,), (1,)), (1,), "the kernel of 'f0' takes tables of tensors"),
    ],
)
def test_what_needs_its_inputs_in_the_arena_is_refused(
    call: Step, outputs: tuple[int, ...], said: str
) -> None:
    made = model(tensors("x 32", "t 8", "t 8 of 0 at 16"), call, outputs=outputs)
    with pytest.raises(NotPossibleError, match=said) as caught:
        lay_out(left_to_the_caller(made))
    assert "--caller-inputs" in caught.value.hint
    assert lay_out(made).arena_bytes
