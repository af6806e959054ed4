# SPDX-License-Identifier: Apache-2.0
"""Weights that are copied to a fast RAM before their layer: when that is chosen, and what it is counted as."""

from __future__ import annotations

import pytest

from memory_models import flash, ram
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.loading import load_analysed
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.ahead import CALL_CYCLES, place_ahead, with_copies
from mlf_sdk.planner.layout import Bank, plan_problem
from mlf_sdk.planner.memories import Pins, parse_pins
from mlf_sdk.planner.plan import check_plan
from mlf_sdk.planner.spread import place_model
from mlf_sdk.planner.storage import build_graph
from mlf_sdk.planner.traffic import is_copy, traffic_of
from mlf_sdk.planner.uses import uses_of
from tflite_models import small_network

IN_FLASH = Pins(weights="flash")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("ahead") / "small.tflite"
    path.write_bytes(small_network())
    (result,) = load_analysed(Request(source=(str(path),), board="mps2-an500"))
    return result


def banks(cycles: float, size_bytes: int = 1 << 20) -> list[Bank]:
    return [ram("fast", size_bytes), flash("flash", 1 << 20, cycles)]


def test_copies_are_chosen_where_weights_are_read_many_times_from_slow_flash(model: Model) -> None:
    plain = place_model(model, banks(8.0), IN_FLASH)
    chosen = place_ahead(model, banks(8.0), IN_FLASH)
    copied = [s.inputs[0] for s in chosen.layout.model.steps if is_copy(chosen.layout.model, s)]
    assert copied and chosen.cycles < plain.cycles - CALL_CYCLES * len(copied)
    words = traffic_of(chosen.layout.model)
    for constant in copied:
        assert words[constant].reads == -(-model.tensors[constant].size_bytes // 4)
        (copy,) = [s.outputs[0] for s in chosen.layout.model.steps if s.inputs == (constant,)]
        assert words[copy].reads == traffic_of(model)[constant].reads
        assert words[copy].writes == words[constant].reads
    check_plan(build_graph(plan_problem(chosen.layout.model, keep_inputs=False)).problem, chosen.layout.plan)
    assert sum(use.cycles for use in uses_of(chosen.layout)) == pytest.approx(chosen.cycles)


def test_layers_that_read_their_weights_once_have_none(model: Model) -> None:
    chosen = place_ahead(model, banks(8.0), IN_FLASH).layout.model
    dense = [step for step in chosen.steps if step.layer and step.layer.operator == "FULLY_CONNECTED"]
    copies = {step.outputs[0] for step in chosen.steps if is_copy(chosen, step)}
    assert dense and not copies & {tensor for step in dense for tensor in step.inputs}


@pytest.mark.parametrize(
    ("memories", "pins"),
    [
        pytest.param(banks(1.0), IN_FLASH, id="flash as fast as the RAM"),
        pytest.param(banks(8.0), Pins(), id="weights lie in the fast RAM already"),
        pytest.param(banks(8.0), parse_pins(["weights=flash,ahead=no"]), id="switched off"),
    ],
)
def test_no_copies_where_they_gain_nothing_or_are_not_wanted(
    model: Model, memories: list[Bank], pins: Pins
) -> None:
    chosen = place_ahead(model, memories, pins)
    assert chosen.layout.model is model
    assert chosen.cycles == place_model(model, memories, pins).cycles


def test_a_ram_that_holds_no_copy_leaves_the_placement_as_it_was(model: Model) -> None:
    plain = place_model(model, banks(8.0), IN_FLASH)
    (arena,) = plain.layout.arenas
    spare = arena.bank.size_bytes - arena.bank.room_bytes
    tight = place_ahead(model, banks(8.0, arena.size_bytes + spare), IN_FLASH)
    loose = place_ahead(model, banks(8.0), IN_FLASH)
    assert loose.cycles <= tight.cycles <= plain.cycles
    assert tight.layout.arenas[0].size_bytes <= arena.size_bytes < loose.layout.arenas[0].size_bytes


def test_steps_keep_their_order_and_each_copy_comes_before_its_layer(model: Model) -> None:
    constants = [t.id for t in model.constants if t.size_bytes >= 64]
    changed = with_copies(model, constants)
    layers = [step for step in changed.steps if not is_copy(changed, step)]
    assert [step.name for step in layers] == [step.name for step in model.steps]
    made: set[int] = set()
    for step in changed.steps:
        if is_copy(changed, step):
            made.update(step.outputs)
        assert {i for i in step.inputs if i >= len(model.tensors)} <= made
    assert len(made) == len(constants)
    assert with_copies(model, []) is model


def test_another_value_of_ahead_is_refused() -> None:
    with pytest.raises(InputError, match="invalid value 'ahead=yes'") as caught:
        parse_pins(["ahead=yes"])
    assert "ahead=no" in caught.value.hint
