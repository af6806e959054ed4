# SPDX-License-Identifier: Apache-2.0
"""Estimates of a model's cycles from its layers, and of the time on a chip from counted instructions."""

from __future__ import annotations

import msgspec
import pytest

import mlf_sdk
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.compiler.cores import cores
from mlf_sdk.errors import InputError
from mlf_sdk.judge.chiptime import chip_of, chip_time
from mlf_sdk.judge.estimate import CostModel, KernelCost, LayerWork, cost_models, estimate
from mlf_sdk.targets.boards.load import find_board, load_boards
from mlf_sdk.targets.chips.load import find_chip
from planning import plan_project
from tflite_models import small_network

COSTS = CostModel(
    core="cortex-m4",
    runtime_bytes=0,
    kernel_bytes=0,
    error={},
    kernels=(
        KernelCost(kernel="", samples=2, instructions=(1.0, 0.0, 0.0), cycles=(2.0, 0.0, 0.0)),
        KernelCost(kernel="conv", samples=2, instructions=(0.5, 3.0, 100.0), cycles=(1.0, 4.0, 200.0)),
    ),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LockModel:
    path = tmp_path_factory.mktemp("estimate") / "small.tflite"
    path.write_bytes(small_network())
    return plan_project([mlf_sdk.load(path, core="cortex-m4")], board="mps2-an386").lock.models[0]


def layer(kernel: str) -> LayerWork:
    return LayerWork(kernel=kernel, macs=1000, elements=10, symbol=kernel)


def test_a_layer_costs_the_terms_of_its_kernel_or_those_of_any() -> None:
    found = estimate([layer("conv"), layer("conv"), layer("other")], COSTS)
    assert found.instructions == 2 * (500 + 30 + 100) + 1000
    assert found.cycles == 2 * (1000 + 40 + 200) + 2000
    assert (found.timed, found.unseen) == (True, 1)


def test_a_core_without_timing_takes_a_cycle_an_instruction() -> None:
    untimed = msgspec.structs.replace(
        COSTS, kernels=(KernelCost(kernel="", samples=1, instructions=(2.0, 1.0, 5.0)),)
    )
    found = estimate([layer("conv")], untimed)
    assert found.instructions == found.cycles == 2015 and not found.timed


@pytest.mark.parametrize("name", sorted(cost_models()))
def test_cost_models_are_of_cores_that_are_counted(name: str) -> None:
    model = cost_models()[name]
    board = load_boards().get(model.core)
    if board is not None:  # its core itself took the cycles
        assert board.rtl is not None
        is_timed = True
    else:
        assert cores()[model.core].counted_on
        is_timed = cores()[model.core].timing is not None
    assert model.runtime_bytes > 0 and model.kernel_bytes > 0
    assert {one.cycles is not None for one in model.kernels} == {is_timed}
    assert all(min(one.instructions) >= 0 for one in model.kernels)
    assert model.error, "the error of the fit was not measured"


def test_every_core_that_is_counted_has_a_cost_model() -> None:
    assert {row.name for row in cores().values() if row.counted_on} <= set(cost_models())


def test_time_on_a_chip_follows_from_counted_instructions(model: LockModel) -> None:
    board, chip = find_board("mps2-an386"), find_chip("stm32l4r5zi")
    found = chip_time(chip, board, model, 1_000_000)
    assert found.cycles is not None and 1_000_000 <= found.cycles <= 2_000_000
    assert found.ms == pytest.approx(found.cycles * 1e3 / chip.clock_hz)
    assert chip_time(chip, board, model, 2_000_000).cycles == pytest.approx(2 * found.cycles, abs=1)


@pytest.mark.parametrize(
    ("chip", "board", "instructions", "why"),
    [
        ("stm32l4r5zi", "mps2-an385", 1, "executes other instructions than the board's cortex-m3"),
        ("stm32l4r5zi", "mps2-an386", None, "no instructions were counted"),
        ("ch32v003", "mps2-an386", 1, "nothing is known of the cycles of a rv32ec"),
        ("esp32c3", "mps2-an386", 1, "executes other instructions than the board's cortex-m4"),
    ],
)
def test_no_time_says_why(
    model: LockModel, chip: str, board: str, instructions: int | None, why: str
) -> None:
    found = chip_time(find_chip(chip), find_board(board), model, instructions)
    assert found.ms is None and why in found.why


def test_a_clock_that_is_not_known_gives_no_time(model: LockModel) -> None:
    chip = msgspec.structs.replace(find_chip("stm32l4r5zi"), clock_hz=0)
    assert chip_time(chip, find_board("mps2-an386"), model, 1).why == "its clock is not known"


def test_the_chip_is_the_one_that_was_named_else_that_of_the_board() -> None:
    microbit, plain = find_board("microbit"), find_board("mps2-an386")
    assert chip_of(None, plain) is None
    named, own = chip_of("stm32l4r5zi", microbit), chip_of(None, microbit)
    assert named is not None and named.name == "stm32l4r5xi"
    assert own is not None and own.name == "nrf51822"
    with pytest.raises(InputError, match="there is no chip"):
        chip_of("z80", plain)
