# SPDX-License-Identifier: Apache-2.0
"""The goal RAM: layers are fused where that takes less RAM, and only as many as it needs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from agreement import agree, random_inputs
from cli_helpers import Caller
from compiled_models import KernelRunner, PlannedRunner
from corpus import CORPUS
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.layer import detail_of
from mlf_sdk.compiler.operators import SCRATCH_BYTES, Fused
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.passes.edges import strip_conversions
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.rows.choose import row_choices
from mlf_sdk.compiler.schedule import Choice, candidates
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker

RAM = Choice(goal=Goal.RAM, core=core_named("cortex-m4"))


def network(m: Maker) -> bytes:
    """Layers whose maps grow and shrink again, and a head."""
    x = m.conv(m.input((1, 16, 16, 4)), 16, (3, 3), 1, same=True, activation=1)
    x = m.conv(x, 16, (3, 3), 2, same=True, depthwise=True)
    y = m.conv(x, 16, (3, 3), 1, same=True)
    x = m.conv(m.binary("ADD", x, y), 8, (3, 3), 2, same=True)
    return m.finish(m.softmax(m.dense(m.pool(x, 4, largest=False), 5)))


def compiled(path: Path, choice: Choice) -> CompiledGraph:
    """A model with the kernels of a choice."""
    return compile_graph(load_tflite(path), choice)


def planned(found: CompiledGraph, folder: Path) -> PlannedRunner:
    """A compiled graph in its arena."""
    files = archive_of(found)
    return PlannedRunner(KernelRunner(files, folder), files, folder)


def test_a_network_takes_less_ram(tmp_path: Path) -> None:
    """The plan's arena is about what the search found, and the outputs are those of the layers.

    A workspace is one block, which may not fit into the gaps that the search counts as free.
    """
    path = tmp_path / "model.tflite"
    path.write_bytes(network(Maker(4)))
    graph = load_tflite(path)
    choices = row_choices(improve(graph), lambda part, one: candidates(part, one, RAM))
    usual = planned(compiled(path, Choice(core=RAM.core)), tmp_path)
    (tmp_path / "ram").mkdir()
    found = compiled(path, RAM)
    fused = planned(found, tmp_path / "ram")
    assert fused.layout.arena_bytes <= 1.06 * choices.cuts[0].peak_bytes < usual.layout.arena_bytes
    assert choices.cuts[-1].cost == 0
    random = np.random.default_rng(1)
    for _ in range(3):
        inputs = random_inputs(graph, random)
        assert fused.run(inputs) == [x.tobytes() for x in Interpreter(graph).run(inputs)]


def test_an_arena_of_some_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is fused that need not be; what can't be is refused, and nothing is written."""
    path = tmp_path / "model.tflite"
    path.write_bytes(network(Maker(4)))
    call = Caller(capsys)
    sizes = {}
    for most in ("1M", "3K"):
        folder = tmp_path / most
        folder.mkdir()
        assert call("compile", path, "-o", folder / "model.tar", "--max-arena", most).code == 0
        sizes[most] = json.loads(call("inspect", folder / "model.tar", "--plan", "--json").out)["memory"]
    assert sizes["3K"]["arena_bytes"] <= 3072 < sizes["1M"]["arena_bytes"]
    assert "ROWS" not in call("inspect", path, "--max-arena", "1M").out
    refused = call("compile", path, "-o", tmp_path / "no.tar", "--max-arena", "1K")
    assert refused.code == 2 and "more than 1,024" in refused.err and "--max-arena" in refused.err
    assert not (tmp_path / "no.tar").exists()
    assert call("inspect", path, "--max-arena", "0").code == 2
    assert call("inspect", path, "--max-arena", "many").code == 2


@pytest.mark.parametrize("seed", range(4))
def test_kernels_reference_and_tflm_agree(seed: int, tmp_path: Path) -> None:
    agree(network(Maker(seed)), tmp_path, seed, choice=RAM)


def test_a_network_that_gains_nothing_is_left_as_it_is(tmp_path: Path) -> None:
    m = Maker(2)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.finish(m.dense(m.dense(m.input((1, 64)), 32), 8)))
    assert not any(isinstance(one.operator, Fused) for one in compiled(path, RAM).operators)


def test_layers_inside_a_region_are_named(tmp_path: Path) -> None:
    """In the comment of its function, and in the step's facts, whose number is the last layer's."""
    path = tmp_path / "model.tflite"
    path.write_bytes(network(Maker(4)))
    found = compiled(path, RAM)
    regions = [one.operator for one in found.operators if isinstance(one.operator, Fused)]
    assert regions
    for region in regions:
        first, last = region.operators[0].number, region.operators[-1].number
        assert region.number == last > first
        assert detail_of(region) == f"of layers {first} to {last}"
        assert f"ROWS of layers {first} to {last} " in found.code.own
        for layer in region.operators:
            assert f"/* layer {layer.number}: {layer.kind} " in found.code.own


@pytest.mark.parametrize(("name", "most"), [("resnet8_int8", 17800), ("vww_int8", 28200), ("kws_int8", 5600)])
def test_arenas_of_models_that_are_known(name: str, most: int, tmp_path: Path) -> None:
    path = CORPUS.parent / "tflite" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no tflite/{path.name} beside the project")
    graph = strip_conversions(load_tflite(path))
    fused = planned(compile_graph(graph, RAM), tmp_path)
    assert fused.layout.arena_bytes <= most
    inputs = random_inputs(graph, np.random.default_rng(1))
    assert fused.run(inputs) == [x.tobytes() for x in Interpreter(graph).run(inputs)]


def test_scratch_that_takes_no_ram_of_its_own_is_given() -> None:
    """Where counters take what is left of a peak, kernels have the scratch of the layer that needs the most."""
    path = CORPUS.parent / "tflite/resnet8_int8.tflite"
    if not path.is_file():
        pytest.skip(f"no such model: {path}")
    streamed = compiled(path, dataclasses.replace(RAM, stream=True))
    (region,) = (one.operator for one in streamed.operators if isinstance(one.operator, Fused))
    assert region.scratch_bytes > SCRATCH_BYTES


@pytest.mark.parametrize(
    ("name", "goal", "most"),
    [
        # RAM of the arena that TFLM reports, on x86-64
        ("tflite_micro_models_micro_speech_quantized", Goal.BALANCED, 7568),
        ("mltk_data_tflite_micro_speech", Goal.BALANCED, 9600),
        ("mlonmcu_models_cnn_s_quantized_cnn_s_quantized", Goal.RAM, 12640),
        ("tinymaix_tflite_cifar10_q", Goal.RAM, 14320),
        ("secda_tflite_models_dcgan_disc", Goal.RAM, 28656),
    ],
)
def test_no_more_ram_than_tflm(name: str, goal: Goal, most: int, tmp_path: Path) -> None:
    """Dense layers of few outputs take no scratch; convolutions take tiles of few pixels for RAM."""
    path = CORPUS / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no corpus/{path.name} beside the project")
    graph = load_tflite(path)
    made = planned(compile_graph(graph, Choice(goal=goal, core=RAM.core)), tmp_path)
    assert made.layout.arena_bytes <= most
    inputs = random_inputs(graph, np.random.default_rng(1))
    assert made.run(inputs) == [x.tobytes() for x in Interpreter(graph).run(inputs)]


@pytest.mark.qemu
def test_a_run_on_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plan and measurement agree; outputs are those of the host, of the reference and of TFLM."""
    path = tmp_path / "model.tflite"
    path.write_bytes(network(Maker(4)))
    call = Caller(capsys)
    result = call("run", path, "--board", "mps2-an386", "--for", "ram")
    assert result.code == 0 and "PASS" in result.out
    shown = call("inspect", path, "--board", "mps2-an386", "--for", "ram").out
    assert "rows       of layers " in shown and "choices    " in shown
