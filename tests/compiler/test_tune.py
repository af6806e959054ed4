# SPDX-License-Identifier: Apache-2.0
"""Kernels that are chosen by counting them on an emulated board."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from core_images import MISSING
from flash_helpers import halted_machine
from mlf_sdk.compiler import schedule
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.schedule import Choice, alternatives
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.pipeline import tune
from mlf_sdk.pipeline.options import ProbeOptions
from mlf_sdk.pipeline.tune import BoardTuner
from mlf_sdk.pipeline.verification import verify
from mlf_sdk.reporting.html.choices import choices_page
from mlf_sdk.targets.boards.load import find_board
from tflite_models import Maker

needs_emulator = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of a convolution and a matrix product, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    m = Maker(4)
    x = m.conv(m.input((1, 6, 7, 3)), 5, (3, 3), 1, same=True, activation=1)
    path = tmp_path / "two.tflite"
    path.write_bytes(m.finish(m.dense(x, 4)))
    return path


@pytest.mark.qemu
@needs_emulator
def test_cheapest_kernels_are_chosen_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "tuned.tar"
    found = mlf_sdk.compile(model, output, core="cortex-m4", tune=True, with_choices=True)
    layers = [step.layer for step in found.model.steps if step.layer is not None and step.layer.counted]
    assert {layer.operator for layer in layers} == {"CONV_2D", "FULLY_CONNECTED"}
    for layer in layers:
        costs = [cost for _, cost in layer.counted]
        assert len(costs) > 1
        assert costs == sorted(costs)
        assert len(dict(layer.counted)) == len(costs)  # names tell them apart
        assert layer.kernel == layer.counted[0][0]
    assert [c.candidates[0].cost for c in found.choices if c.candidates[0].cost] == [
        layer.counted[0][1] for layer in layers
    ]
    assert dict(found.model.provenance.options)["tuned"].startswith("estimated cycles on mps2-an386, ")
    page = choices_page(found).decode()
    assert "estimated cycles, counted" in page
    assert all(f"{layer.counted[-1][1]:,}" in page for layer in layers)
    profile = mlf_sdk.profile(output, board="mps2-an386")
    assert [s.cycles for s in profile.steps if s.layer] == [layer.counted[0][1] for layer in layers]

    def never(*_: Any) -> Any:
        raise AssertionError("measured again")

    monkeypatch.setattr(BoardTuner, "_measure", never)
    again = mlf_sdk.compile(model, tmp_path / "again.tar", core="cortex-m4", tune=True)
    assert Path(again.output).read_bytes() == output.read_bytes()


@pytest.mark.qemu
@needs_emulator
@pytest.mark.parametrize(
    ("core", "board", "unit"),
    [
        ("cortex-m0", "mps2-an385-cortex-m0", "estimated cycles"),
        ("cortex-m55", "mps3-an547", "instructions"),  # no document states its timings
    ],
)
def test_other_cores(model: Path, tmp_path: Path, core: str, board: str, unit: str) -> None:
    """Counts on the emulated board with the core; outputs are those of the kernels chosen by rule."""
    plain = mlf_sdk.compile(model, tmp_path / "plain.tar", core=core)
    found = mlf_sdk.compile(model, tmp_path / "tuned.tar", core=core, tune=True)
    assert dict(found.model.provenance.options)["tuned"].startswith(f"{unit} on {board}, ")
    layers = [step.layer for step in found.model.steps if step.layer is not None]
    assert [layer.operator for layer in layers] == ["CONV_2D", "FULLY_CONNECTED"]
    for layer in layers:
        costs = [cost for _, cost in layer.counted]
        assert len(costs) > 1
        assert costs[0] > 0
        assert len(dict(layer.counted)) == len(costs)
        assert costs == sorted(costs)
        assert layer.kernel == layer.counted[0][0]
    name = found.model.tensors[found.model.inputs[0]].name
    inputs = {name: np.arange(126, dtype=np.int8).reshape(1, 6, 7, 3)}
    results = [
        next(iter(mlf_sdk.run(one.output, board="host", inputs=inputs, twin=False).outputs.values()))
        for one in (plain, found)
    ]
    assert results[0].tobytes() == results[1].tobytes()


def layers_of_every_kind() -> bytes:
    """Layers whose kernels with the fewest instructions and with the fewest cycles differ."""
    m = Maker(6)
    x = m.input((1, 6, 12, 16))
    square = m.conv(x, 16, (3, 3), 1, same=True, activation=1)
    down = m.conv(square, 32, (3, 3), 2, same=True, activation=1)
    point = m.conv(down, 16, (1, 1), 1, same=True)
    return m.finish(m.dense(m.dense(point, 100), 60))


@pytest.mark.qemu
@needs_emulator
@pytest.mark.parametrize(
    ("core", "goal"), [("cortex-m4", "speed"), ("cortex-m4", "instructions"), ("cortex-m3", "speed")]
)
def test_rules_of_a_goal_choose_what_costs_least(
    core: str, goal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speed is time: the fewest cycles of the core, whatever the instructions are, which are a goal of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "m.tflite"
    path.write_bytes(layers_of_every_kind())
    plain = mlf_sdk.compile(path, tmp_path / "plain.tar", core=core, goal=goal)
    tuned = mlf_sdk.compile(path, tmp_path / "tuned.tar", core=core, goal=goal, tune=True)
    by_rule, by_cost = (
        [step.layer.kernel for step in found.model.steps if step.layer] for found in (plain, tuned)
    )
    assert by_rule == by_cost
    unit = "estimated cycles" if goal == "speed" else "instructions"
    assert dict(tuned.model.provenance.options)["tuned"].startswith(f"{unit} on ")


def _breaking(first: bool) -> Any:
    """Alternatives with a kernel that writes nothing, and takes the least."""

    def broken(graph: Graph, operator: Operator, choice: Choice) -> tuple[Kernel, ...]:
        kernels = alternatives(graph, operator, choice)
        nothing = dataclasses.replace(kernels[0], family="nothing", body="")
        return (nothing, *kernels) if first else (*kernels, nothing)

    return broken


@pytest.mark.qemu
@needs_emulator
def test_wrong_kernel_is_never_chosen(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = mlf_sdk.compile(model, tmp_path / "plain.tar", core="cortex-m4")
    monkeypatch.setattr(schedule, "alternatives", _breaking(first=False))
    found = mlf_sdk.compile(model, tmp_path / "tuned.tar", core="cortex-m4", tune=True)
    names = {name for step in found.model.steps if step.layer for name, _ in step.layer.counted}
    assert names
    assert not any("nothing" in name for name in names)
    name = found.model.tensors[found.model.inputs[0]].name
    inputs = {name: np.arange(126, dtype=np.int8).reshape(1, 6, 7, 3)}
    results = [
        next(iter(mlf_sdk.run(archive.output, board="host", inputs=inputs).outputs.values()))
        for archive in (plain, found)
    ]
    assert results[0].tobytes() == results[1].tobytes()
    monkeypatch.setattr(schedule, "alternatives", _breaking(first=True))
    with pytest.raises(ToolError, match="nothing gives wrong outputs on mps2-an386"):
        mlf_sdk.compile(model, tmp_path / "wrong.tar", core="cortex-m4", tune=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "which processor"),
        ({"core": "generic"}, "which processor"),
        ({"board": "host"}, "host is not emulated"),
    ],
)
def test_nothing_that_counts_is_refused(model: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mlf_sdk.compile(model, model.with_suffix(".tar"), tune=True, **options)


def test_port_without_counting_is_refused(model: Path) -> None:
    with pytest.raises(InputError, match="a port is for counting only"):
        mlf_sdk.compile(model, model.with_suffix(".tar"), core="cortex-m4", port="/dev/ttyACM0")


@pytest.mark.qemu
@needs_emulator
@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="gdb-multiarch is not installed")
def test_a_board_on_a_port_counts_cycles(model: Path, tmp_path: Path) -> None:
    """A probe flashes the kernels; costs are those of the board's clock, and outputs stay the same."""
    output = tmp_path / "tuned.tar"
    emulator = ("qemu-system-arm", "-icount", "shift=5")  # by the host's time a short kernel can take no tick
    with halted_machine(tmp_path, emulator=emulator) as machine:
        found = mlf_sdk.compile(
            model,
            output,
            board="mps2-an386",
            tune=True,
            port=machine.console,
            probe=ProbeOptions(port=machine.gdb, runner="gdb"),
        )
        held = verify(output, port=machine.console)
    assert not held.ok  # the kernels' model is on the board, not this one
    assert [m.name for m in held.device.models] == ["kernels"]
    layers = [step.layer for step in found.model.steps if step.layer is not None and step.layer.counted]
    assert [layer.operator for layer in layers] == ["CONV_2D", "FULLY_CONNECTED"]
    for layer in layers:
        costs = [cost for _, cost in layer.counted]
        assert costs == sorted(costs)
        assert costs[0] > 0
    assert dict(found.model.provenance.options)["tuned"].startswith("cycles on mps2-an386, ")
    plain = mlf_sdk.compile(model, tmp_path / "plain.tar", core="cortex-m4")
    results = [mlf_sdk.run(archive.output, board="host", twin=False).outputs for archive in (plain, found)]
    assert [a.tobytes() for a in results[0].values()] == [a.tobytes() for a in results[1].values()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--core", "cortex-m4", "--tune", "--probe", "localhost:3333"), "no board is flashed"),
        (("--core", "cortex-m4", "--runner", "gdb"), "no board is flashed"),
        (("--core", "cortex-m4", "--tune", "--port", "/dev/ttyACM0"), "which processor"),
        pytest.param(
            ("--board", "mps2-an386", "--tune", "--port", "/dev/ttyACM99"),
            "--runner NAME",
            marks=[pytest.mark.qemu, needs_emulator],
        ),
    ],
)
def test_port_that_can_not_count_is_refused(
    model: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    result = Caller(capsys)("compile", model, "-o", model.with_suffix(".tar"), *options)
    assert result.code == 2
    assert message in result.err


def test_costs_name_the_compiler_that_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    board = find_board("mps2-an386")
    for wanted in ("gcc", "zig"):
        monkeypatch.setattr(tune, "choose_toolchain", lambda *_, name=wanted: name)
        version = tune._compiler_version(board)
        assert re.fullmatch(rf"(arm-none-eabi-)?{wanted} \d+\.\d+\.\d+", version), version
