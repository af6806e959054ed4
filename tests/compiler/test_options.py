# SPDX-License-Identifier: Apache-2.0
"""Options of the compiler on their way from the command line to the archive, the project and its twin."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import build, write
from cli_helpers import Caller
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.compiler.cores import core_macros, core_named, core_of, cores
from mlf_sdk.compiler.layer import detail_of, macs_of
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set_names
from mlf_sdk.compiler.options import CompileOptions, core_names
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.origin import archive_request
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.tools.isas import isa_of_cpu
from tflite_models import Maker, small_network


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "small.tflite"
    path.write_bytes(small_network())
    return path


@pytest.mark.parametrize(
    ("cpu", "dsp", "core"),
    [
        ("cortex-m0", False, "cortex-m0"),
        ("cortex-m4", True, "cortex-m4"),
        ("cortex-m33+nodsp+nofp", False, "cortex-m3"),
        ("cortex-m55", True, "cortex-m55"),
        ("cortex-m55+nomve", True, "cortex-m33"),
        ("cortex-m55+nodsp", False, "cortex-m3"),
        ("cortex-m85", True, "cortex-m4"),
        ("rv32imac", False, "rv32imac"),
        ("", False, "generic"),
    ],
)
def test_core_of_a_cpu(cpu: str, dsp: bool, core: str) -> None:
    assert core_of(cpu, dsp=dsp).name == core


def test_cores_state_instruction_sets_that_kernels_are_written_for() -> None:
    assert core_names()[0] == "generic"
    assert {one for core in cores().values() for one in core.instruction_sets} == set(instruction_set_names())
    assert [core.name for core in cores().values() if "mve" in core.instruction_sets] == ["cortex-m55"]


def test_a_core_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(InputError, match=r"there is no core 'z80'"):
        core_named("z80")


@pytest.mark.parametrize("name", core_names()[1:])
def test_the_compiler_of_a_core_defines_its_macros_and_no_others(name: str) -> None:
    isa = isa_of_cpu(name)
    assert isa is not None
    if shutil.which(isa.tools.c) is None:
        pytest.skip(f"no {isa.tools.c}")
    fpus = isa.cpus[name].fpus if name in isa.cpus else ()
    flags = isa.compiler_flags(name, *((fpus[-1], "hard") if fpus else ("none", "soft")))
    argv = [isa.tools.c, *flags, "-dM", "-E", "-x", "c", "/dev/null"]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    defined = {line.split()[1] for line in text.splitlines()}
    assert set(core_named(name).macros) == core_macros() & defined


@pytest.mark.parametrize(
    ("arguments", "core", "goal"),
    [
        ((), "generic", "balanced"),
        (("--core", "cortex-m7", "--for", "speed"), "cortex-m7", "speed"),
        (("--board", "microbit"), "cortex-m0", "balanced"),
        (("--board", "mps3-an547", "--core", "cortex-m3"), "cortex-m3", "balanced"),
    ],
)
def test_the_archive_keeps_its_options(
    network: Path, tmp_path: Path, arguments: tuple[str, ...], core: str, goal: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    result = Caller(capsys)("compile", network, "-o", tmp_path / "a.tar", "--name", "net", *arguments)
    assert result.code == 0, result.err
    model = mlf_sdk.load(tmp_path / "a.tar")
    assert (model.name, model.provenance.options) == (
        "net",
        {"core": core, "goal": goal, "io": "model", "batch": "1", "shapes": "", "kernels": "auto"},
    )


@pytest.mark.parametrize(
    ("board", "core"), [(None, "cortex-m4"), ("mps2-an521", "cortex-m3"), ("host", "generic")]
)
def test_a_model_is_compiled_for_the_board(network: Path, board: str | None, core: str) -> None:
    pipeline = Pipeline()
    request = Request(source=(str(network),), board=board)
    (model,) = pipeline.models(request)
    assert model.provenance.options["core"] == core
    (twin,) = pipeline.models(pipeline.twin_request(request))
    assert twin.provenance.sha256 == model.provenance.sha256


def test_options_that_nothing_can_take(network: Path, tmp_path: Path) -> None:
    archive = write(build(), tmp_path / "tiny.tar")
    with pytest.raises(InputError, match="--core, --for can't be given: the archive is compiled already"):
        mlf_sdk.load(archive, core="cortex-m4", goal="size")
    with pytest.raises(InputError, match="invalid value 'cortex-m5'"):
        mlf_sdk.load(network, core="cortex-m5")


def test_a_project_keeps_the_bound_of_its_arena(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.tflite").write_bytes(network.read_bytes())
    mlf_sdk.generate("net.tflite", "app", board="mps2-an386", max_arena="32K")
    assert read_lock(Path("app")).models[0].compile_options["max_arena"] == "32768"
    assert archive_request(Request(source=("app",))).max_arena == "32768"


def test_a_project_finds_its_model_again(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled with the options of that time, whose archive has the digest that the project knows."""
    monkeypatch.chdir(tmp_path)
    Path("net.tflite").write_bytes(network.read_bytes())
    mlf_sdk.generate("net.tflite", "app", board="microbit", goal="size")
    lock = read_lock(Path("app"))
    assert lock.models[0].compile_options == {
        "core": "cortex-m0",
        "goal": "size",
        "io": "model",
        "batch": "1",
        "shapes": "",
        "kernels": "auto",
    }
    header = Path("app/model/net/net.h").read_text()
    x = mlf_sdk.load(network).tensors[mlf_sdk.load(network).inputs[0]]
    assert x.quantisation is not None
    scale = re.search(r"#define NET_INPUT_SCALE (\S+)f ", header)
    assert scale and np.float32(scale[1]) == np.float32(x.quantisation.scale[0])
    assert f"#define NET_INPUT_ZERO_POINT ({x.quantisation.zero_point[0]})" in header
    found = archive_request(Request(source=("app",)))
    assert (found.source, found.core, found.goal) == (("net.tflite",), "cortex-m0", "size")
    assert Pipeline().models(found)[0].provenance.sha256 == lock.models[0].archive_sha256


def test_options_as_text() -> None:
    options = CompileOptions(core="cortex-m4", goal="size", io="int8", batch=4)
    assert CompileOptions.from_texts({**options.texts(), "of_a_later_version": "1"}) == options


def test_layers_of_steps(network: Path) -> None:
    """Every step names its operator; MACs are those of the layers as they stand in the model."""
    model = mlf_sdk.load(network)
    layers = [step.layer for step in model.steps]
    assert all(layers)
    found = [(one.number, one.operator, one.detail, one.macs) for one in layers if one]
    assert found[0] == (0, "CONV_2D", "3x3", 12 * 10 * 8 * 27)
    assert found[4] == (4, "DEPTHWISE_CONV_2D", "3x3, stride 2", 6 * 5 * 8 * 9)
    assert [one[1] for one in found[5:]] == ["AVERAGE_POOL_2D", "FULLY_CONNECTED", "SOFTMAX"]


def test_macs_and_windows(tmp_path: Path) -> None:
    m = Maker(1)
    x = m.input((1, 9, 8, 4))
    wide = m.conv(x, 6, (3, 2), 1, same=True, dilation=2)
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(m.dense(wide, 5)))
    graph = load_tflite(path)
    assert [macs_of(graph, o) for o in graph.operators] == [9 * 8 * 6 * 3 * 2 * 4, 9 * 8 * 6 * 5]
    assert [detail_of(o) for o in graph.operators] == ["3x2, dilation 2", ""]


def test_profile_speaks_of_layers(
    network: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    result = Caller(capsys)("profile", network, "--json")
    assert result.code == 0, result.err
    steps = json.loads(result.out)["steps"]
    assert [s["layer"]["operator"] for s in steps][:2] == ["CONV_2D", "DEPTHWISE_CONV_2D"]
    assert steps[0]["shapes"] == "1x12x10x3 > 1x12x10x8"
    assert steps[0]["per_mac"] == steps[0]["cost"] / (12 * 10 * 8 * 27)
    text = Caller(capsys)("profile", network).out
    assert "4 DEPTHWISE_CONV_2D 3x3, stride 2" in text and "1x12x10x8 > 1x6x5x8" in text


def test_a_page_about_the_choice_of_kernels(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chosen kernels are those of the archive; every other one could take their place."""
    page = tmp_path / "kernels.html"
    result = Caller(capsys)("compile", network, "-o", tmp_path / "a.tar", "--report", page, "--json").value
    model = mlf_sdk.load(tmp_path / "a.tar")
    chosen = [layer["candidates"][0] for layer in result["choices"]]
    assert [one["kernel"] for one in chosen] == [step.layer.kernel for step in model.steps if step.layer]
    assert sum(one["constants_bytes"] for one in chosen) == sum(t.size_bytes for t in model.constants)
    assert [one["workspace_bytes"] for one in chosen] == [step.workspace_bytes for step in model.steps]
    others = {one["kernel"] for layer in result["choices"] for one in layer["candidates"][1:]}
    assert others
    text = page.read_text()
    assert text.count("<tr") == 2 + sum(len(layer["candidates"]) for layer in result["choices"])
    assert all(name in text for name in others) and "4 -> " not in text and "<script" not in text
