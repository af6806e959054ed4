# SPDX-License-Identifier: Apache-2.0
"""Objects of models in several memories: each must lie where it was planned, and be used as far as planned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from archives import Spec, build, write
from mlf_sdk.analysis.elf.image import Image, Symbol
from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError
from mlf_sdk.judge.check import FAILED, PROVEN
from mlf_sdk.judge.execute import Execution
from mlf_sdk.judge.places import all_arenas_mark, place_rows, with_marks
from mlf_sdk.pipeline.api import load
from mlf_sdk.wire.device import Stats, largest
from mlf_sdk.wire.protocol import MessageError, StatsReply, unpack_stats
from planning import plan_project

ROWS = Path(__file__).parents[1] / "boards" / "rows"
REGIONS = (("dtcm", 0x3000_0000, 0x2_0000), ("axi", 0x3100_0000, 0x8_0000), ("flash", 0x3800_0000, 1 << 20))
START = {name: origin for name, origin, _ in REGIONS}
GUARDS = 32


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    """The input in one memory, all else of the arena in another, weights in a third."""
    path = write(build(Spec()), tmp_path_factory.mktemp("places") / "tiny.tar")
    model = load(path)
    name = model.tensors[model.inputs[0]].name
    pins = (f"arena=dtcm,{name}=axi", "weights=flash")
    return plan_project(
        [model], board="an547-h743", board_file=str(ROWS / "an547-h743.toml"), place=pins
    ).lock


def symbol(name: str, address: int, size_bytes: int, *, is_function: bool = False) -> Symbol:
    return Symbol(
        name=name,
        address=address,
        size_bytes=size_bytes,
        is_function=is_function,
        is_object=not is_function,
        section="s",
    )


def image(lock: Lock, **moved: int) -> Image:
    """An image as planned, but for the addresses of some symbols; 0: it is not there."""
    (model,) = lock.models
    symbols = [
        symbol(p.symbol, moved.get(p.symbol, START[p.memory]), p.reserved_bytes + GUARDS)
        for p in model.arenas
    ]
    symbols += [
        symbol(p.symbol, moved.get(p.symbol, START[p.memory]), p.reserved_bytes) for p in model.params_places
    ]
    symbols += [symbol(name, START["flash"] + 1, 40, is_function=True) for name in model.kernel_symbols]
    return Image(
        path=Path("a"), machine="EM_ARM", symbols=tuple(s for s in symbols if s.address), sections=()
    )


def test_two_arenas_and_weights_are_planned_in_their_memories(lock: Lock) -> None:
    (model,) = lock.models
    assert [place.memory for place in model.arenas] == ["dtcm", "axi"]
    assert [place.symbol for place in model.arenas] == ["tiny_arena", "tiny_arena_axi"]
    assert [place.memory for place in model.params_places] == ["flash"]
    assert model.arena_symbols == ("tiny_arena", "tiny_arena_axi")
    assert [r.name for r in model.regions] == ["the arena in dtcm", "the arena in axi"]


def test_objects_where_they_were_planned_are_proven(lock: Lock) -> None:
    rows = place_rows(lock.models[0], image(lock), REGIONS)
    assert [row.item for row in rows] == ["arena dtcm", "arena axi", "weights flash"]
    assert {row.state for row in rows} == {PROVEN}


@pytest.mark.parametrize(
    ("moved", "item", "said"),
    [
        ({"tiny_arena_axi": START["dtcm"] + 4096}, "arena axi", "lies in dtcm"),
        ({"tiny_params": 0x2000_0000}, "weights flash", "lies in no memory of the board"),
        ({"tiny_arena": START["dtcm"] + 0x2_0000 - 16}, "arena dtcm", "no memory"),  # over its end
        ({"tiny_arena": 0}, "arena dtcm", "tiny_arena is not linked"),
    ],
)
def test_an_object_elsewhere_fails(lock: Lock, moved: dict[str, int], item: str, said: str) -> None:
    rows = {row.item: row for row in place_rows(lock.models[0], image(lock, **moved), REGIONS)}
    assert rows[item].state == FAILED and said in rows[item].note
    assert sum(row.state == FAILED for row in rows.values()) == 1


def test_kernels_must_lie_in_the_memory_of_code(lock: Lock) -> None:
    (model,) = lock.models
    *_, row = place_rows(model, image(lock), REGIONS, "flash")
    assert (row.item, row.state, row.image) == ("code flash", PROVEN, 40 * len(model.kernel_symbols))
    *_, row = place_rows(model, image(lock), REGIONS, "axi")
    assert row.state == FAILED and "elsewhere" in row.note


def stats(*marks: int) -> Stats:
    return Stats(
        arena_high_water_bytes=marks[0],
        more_high_water_bytes=marks[1:],
        workspace_high_water_bytes=None,
        workspace_requests=None,
        refused_bytes=None,
        stack_bytes=None,
        stack_high_water_bytes=None,
        dropped_frames=0,
    )


def test_each_mark_is_held_against_its_own_plan(lock: Lock) -> None:
    (model,) = lock.models
    first, second = (place.size_bytes for place in model.arenas)
    rows = place_rows(model, image(lock), REGIONS)
    done = Execution(outputs=(), ticks=0, ticks_hz=0, count=1, stats=stats(first, second), console="")
    assert {row.state for row in with_marks(rows, model, done, exact=True)} == {PROVEN}
    assert all_arenas_mark(model, done) == model.arena_bytes
    less = replace(done, stats=stats(first, second - 1))
    states = {row.item: row.state for row in with_marks(rows, model, less, exact=True)}
    assert (states["arena dtcm"], states["arena axi"]) == (PROVEN, FAILED)
    assert {row.state for row in with_marks(rows, model, less, exact=False)} == {PROVEN}
    assert all_arenas_mark(model, less) == model.arena_bytes - 1
    assert all_arenas_mark(model, replace(done, stats=stats(first))) is None


def test_marks_of_two_inferences_are_joined_arena_by_arena() -> None:
    assert largest(stats(5, 9, 1), stats(6, 3, 2)).more_high_water_bytes == (9, 2)


def test_the_reply_ends_with_the_marks_of_further_arenas() -> None:
    fixed = StatsReply(1, 2, 3, 4, 5, 6, 7, 8, 9, 10).pack()
    assert unpack_stats(fixed)[1] == ()
    assert unpack_stats(fixed + b"\x02\x01\0\0\0\xff\0\0\0")[1] == (1, 255)
    for broken in (fixed[:-1], fixed + b"\x01", fixed + b"\x01\0\0\0", fixed + b"\x00\x00"):
        with pytest.raises(MessageError):
            unpack_stats(broken)


def test_two_memories_for_a_model_of_a_board_without_them_are_refused(tmp_path: Path) -> None:
    path = write(build(Spec()), tmp_path / "tiny.tar")
    with pytest.raises(InputError, match="no memory 'dtcm' for arena"):
        plan_project([load(path)], board="microbit", place=("arena=dtcm",))
