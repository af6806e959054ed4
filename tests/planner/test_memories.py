# SPDX-License-Identifier: Apache-2.0
"""Several memories: what lies where, at what cost, and what is refused."""

from __future__ import annotations

import itertools
import math

import pytest

from memory_models import COSTS, convolution, drawn_model, flash, least_cycles, ram
from mlf_sdk.errors import DoesNotFitError, InputError
from mlf_sdk.ir.model import TensorKind
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.planner.memories import Pins, check_pins, parse_pins
from mlf_sdk.planner.spread import place_model
from mlf_sdk.planner.traffic import Traffic, step_traffic, traffic_of
from mlf_sdk.planner.uses import uses_of

SPARE = 3 * 128  # of a RAM, for guards and alignment
BIG = 1 << 20


def three(*sizes: int):
    return [
        *(ram(f"m{n}", size + SPARE, cost) for n, (size, cost) in enumerate(zip(sizes, COSTS, strict=True))),
        flash("flash", BIG),
    ]


@pytest.mark.parametrize("seed", range(24))
def test_the_choice_costs_no_more_than_an_exhaustive_searchs_by_five_percent(seed: int) -> None:
    model = drawn_model(seed, steps=3 + seed % 8, constants=seed % 2)
    whole = lay_out(model).arena_bytes
    banks = three(whole // 3 // 16 * 16 + 16 * (seed % 5), whole // 2 // 16 * 16, 2 * whole)
    chosen = place_model(model, banks, Pins())
    least = least_cycles(model, banks, SPARE)
    assert least < math.inf
    assert least <= chosen.cycles * (1 + 1e-9)
    assert chosen.cycles <= 1.05 * least


@pytest.mark.parametrize("seed", range(40, 60))
def test_large_models_cost_no_more_than_all_in_one_memory_does(seed: int) -> None:
    model = drawn_model(seed, steps=40, constants=20)
    whole = lay_out(model).arena_bytes
    small = three(whole // 4 // 16 * 16, whole // 2 // 16 * 16, 4 * whole)
    chosen = place_model(model, small, Pins())
    only = place_model(model, small, Pins(arena="m2", weights="flash"))
    assert only.cycles == pytest.approx(only.slow_cycles)
    assert chosen.cycles < 0.8 * only.cycles
    assert chosen.slow_cycles == only.slow_cycles
    for part in chosen.layout.arenas:
        assert part.lower_bound_bytes <= part.size_bytes <= part.bank.size_bytes - SPARE


def test_uses_of_the_memories_add_up_to_the_placement() -> None:
    model = drawn_model(3, steps=12, constants=6)
    whole = lay_out(model).arena_bytes
    chosen = place_model(model, three(whole // 3, whole, 2 * whole), Pins())
    layout, uses = chosen.layout, {use.memory: use for use in uses_of(chosen.layout)}
    assert sum(use.cycles for use in uses.values()) == pytest.approx(chosen.cycles)
    for part in layout.arenas:
        (arena,) = [one for one in uses[part.bank.name].contents if one.kind == "arena"]
        assert arena.size_bytes == part.size_bytes
    weights = [one for use in uses.values() for one in use.contents if one.kind == "weights"]
    assert sum(one.size_bytes for one in weights) == sum(t.size_bytes for t in model.constants)
    total = sum(traffic_of(model).values(), Traffic())
    assert sum(use.written_words for use in uses.values()) == total.writes
    assert sum(use.read_words for use in uses.values()) == total.reads + total.scattered_reads


def test_one_memory_that_holds_all_gives_the_plan_that_it_had() -> None:
    model = drawn_model(7, steps=20)
    base = lay_out(model)
    (part,) = place_model(model, [ram("only", BIG), flash("flash", BIG)], Pins(weights="flash")).layout.arenas
    assert (part.first, part.size_bytes) == (0, base.arena_bytes)


def test_offsets_of_each_memory_lie_within_its_range_and_none_is_in_two() -> None:
    model = drawn_model(11, steps=30, constants=12)
    whole = lay_out(model).arena_bytes
    layout = place_model(model, three(whole // 4, whole // 2, 2 * whole), Pins()).layout
    assert len(layout.arenas) > 1
    for buffer in layout.plan.buffers:
        inside = [
            part
            for part in layout.arenas
            if part.first <= buffer.offset
            and buffer.offset + buffer.size_bytes <= part.first + part.size_bytes
        ]
        assert len(inside) == 1
    ends = [(part.first, part.first + part.size_bytes) for part in layout.arenas]
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))
    assert len(layout.params_blob()) == layout.params_bytes
    for tensor in model.constants:
        at = layout.constant_offsets[tensor.id]
        assert any(p.first <= at and at + tensor.size_bytes <= p.first + p.size_bytes for p in layout.params)


def test_pins_hold_whatever_they_cost() -> None:
    model = drawn_model(3, steps=12, constants=4)
    banks = three(BIG, BIG, BIG)
    chosen = place_model(model, banks, Pins(arena="m1", weights="m2", names={"input_0": "m2"})).layout
    assert {part.bank.name for part in chosen.arenas} == {"m1", "m2"}
    assert [part.bank.name for part in chosen.params] == ["m2"]
    slow = next(part for part in chosen.arenas if part.bank.name == "m2")
    assert slow.first <= chosen.offset(0) < slow.first + slow.size_bytes
    step = place_model(model, banks, Pins(weights="flash", names={"step_0": "m1"})).layout
    assert {part.bank.name for part in step.params} == {"m1", "flash"}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("dtcm",), "invalid value 'dtcm'"),
        (("weights=",), "invalid value"),
        (("=dtcm",), "invalid value"),
        (("arena=a,arena=b",), "two memories: a and b"),
        (("x=a", "x=b"), "two memories"),
    ],
)
def test_a_pin_of_another_form_is_refused(texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_pins(texts)


def test_pins_are_read() -> None:
    pins = parse_pins(("auto", "weights=qspi, arena=dtcm", "serving:0=sram"))
    assert pins == Pins(weights="qspi", arena="dtcm", names={"serving:0": "sram"})


def test_memories_that_are_not_there_or_cant_hold_it_are_refused() -> None:
    banks = three(1000, 2000, 3000)
    with pytest.raises(InputError, match="no memory 'dtcm' for arena") as error:
        check_pins(Pins(arena="dtcm"), banks, "board b")
    assert "m0 (1,384 bytes free)" in error.value.hint
    with pytest.raises(InputError, match="flash can't be written: state needs RAM"):
        check_pins(Pins(state="flash"), banks, "board b")
    with pytest.raises(InputError, match="no tensor, constant or step 'steps_0'") as error:
        place_model(drawn_model(1, steps=3), banks, Pins(names={"steps_0": "m0"}))
    assert "step_0" in error.value.hint


def test_what_does_not_fit_says_by_how_many_bytes() -> None:
    model = drawn_model(5, steps=12)
    largest = max(t.size_bytes for t in model.tensors if t.kind is not TensorKind.CONSTANT)
    with pytest.raises(DoesNotFitError, match=r"16 more than any memory has for it \(m0"):
        place_model(model, three(largest - 16, largest - 16, largest - 16), Pins())
    bound = lay_out(model).plan.lower_bound_bytes
    room = max(largest, bound // 3 // 16 * 16 - 16)
    with pytest.raises(DoesNotFitError, match=rf"{bound:,} bytes of RAM at one time; there are"):
        place_model(model, [ram("a", room + SPARE), flash("flash", BIG)], Pins())


def test_weights_in_ram_take_flash_as_well() -> None:
    """Start-up copies them from there: a second RAM is no more room for parameters."""
    model = drawn_model(2, steps=6, constants=6)
    params, whole = lay_out(model).params_bytes, lay_out(model).arena_bytes
    memories = [ram("fast", whole + SPARE), ram("slow", 8 * params + SPARE, 2.0)]
    place_model(model, [flash("flash", params + 2 * SPARE), *memories], Pins(weights="slow"))
    small = [flash("flash", params // 2 + SPARE), *memories]
    for pins in (Pins(), Pins(weights="slow")):
        with pytest.raises(
            DoesNotFitError, match=rf"its parameters take {params:,} bytes of flash, [\d,]+ more"
        ):
            place_model(model, small, pins)


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("tile", [(1, 1), (2, 4)])
def test_a_convolution_reads_weights_for_each_tile_of_pixels_and_inputs_for_each_of_channels(
    tile: tuple[int, int], scratch: bool
) -> None:
    """3x3 windows over 8x8 pixels of 4 channels, 16 outputs each."""
    model = convolution(tile, scratch=scratch)
    step = model.steps[0]
    channels, pixels = tile
    macs = 8 * 8 * 16 * 9 * 4
    traffic = step_traffic(model, step)
    assert traffic[1].reads == 9 * 4 * 16 // 4 * (64 // pixels)
    windows = 8 * 8 * 9 * 4
    if scratch:  # windows are copied as 16-bit values, from which the inner loop reads
        assert traffic[0].reads == windows // 4
        assert traffic[0, 0] == Traffic(reads=macs // channels * 2 // 4, writes=windows * 2 // 4)
    else:
        assert traffic[0].reads == macs // channels // 4
    assert traffic[2] == Traffic(writes=8 * 8 * 16 // 4)
    whole = traffic_of(model)
    assert whole[0].writes == 8 * 8 * 4 // 4 and whole[2].reads == 8 * 8 * 16 // 4
