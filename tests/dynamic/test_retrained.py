# SPDX-License-Identifier: Apache-2.0
"""Retrained models for firmware that was compiled from the model: packed alike, pushed, refused where they differ."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from dynamic_helpers import build_project
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import InputError, NotPossibleError
from mlf_sdk.pipeline.package import make_keys
from mlf_sdk.pipeline.params import lay_out_params, read_source
from mlf_sdk.pipeline.retrained import firmware_of
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from retrained import rescale, retrain

LAYERS = Path(__file__).parents[2] / "examples/layers/layers.tflite"
KWS = Path(__file__).parents[3] / "shared/tflite/kws_int8.tflite"

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("OpenSSL's headers are not installed")
    folder = tmp_path_factory.mktemp("layers")
    make_keys(str(folder / "key"), str(folder / "trusted.pem"), [])
    return build_project(LAYERS, folder / "app", "host", trust=str(folder / "trusted.pem"))


def outputs(project: Path, value: np.ndarray) -> np.ndarray:
    target = project_target(project, read_lock(project), TargetChoice())
    elf = target.image(project)
    target.keep_slots(read_lock(project), elf)
    with target.open(elf, timeout_s=60) as session:
        session.hello()
        return session.infer(0, [value])[0]


def said_by_reference(model: Path, value: np.ndarray) -> np.ndarray:
    """What the file means, by the numpy reference: nothing of packing or kernels is in it."""
    from mlf_sdk.compiler.options import CompileOptions
    from mlf_sdk.compiler.reference import Interpreter
    from mlf_sdk.frontends.compiled import compiling_frontend

    graph = compiling_frontend(model).graph(model, "", CompileOptions())
    return Interpreter(graph).run([value])[0]


def push(project: Path, model: Path, version: int, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Make a package of a model and push it, by the commands."""
    folder = project.parent
    package = folder / f"{version}.mlfp"
    own = ["--project", str(project), "--key", str(folder / "key.key"), "--model-version", str(version)]
    assert main(["package", str(model), *own, "-o", str(package)]) == 0
    capsys.readouterr()
    assert main(["package", "push", str(package), "--project", str(project), "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_retrained_model_is_pushed(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor = read_lock(project).models[0].inputs[0]
    value = np.random.default_rng(0).integers(-128, 128, tensor.shape).astype(np.int8)
    old = outputs(project, value)
    np.testing.assert_array_equal(old, said_by_reference(LAYERS, value))
    new = retrain(LAYERS, tmp_path / "other_name.tflite", most=60)
    said = push(project, new, 1, capsys)
    now = outputs(project, value)
    assert (now != old).any()
    np.testing.assert_array_equal(now, said_by_reference(new, value))
    last = retrain(new, tmp_path / "last.tflite", layers=1, seed=5)
    said = push(project, last, 2, capsys)
    np.testing.assert_array_equal(outputs(project, value), said_by_reference(last, value))
    assert said["sent_bytes"] < said["total_bytes"] - 900  # 5 layers, the last one with 16 % of the weights


def test_scales_of_weights_are_values(project: Path, tmp_path: Path) -> None:
    """Multipliers of a requantisation are parameters; a power of two more may need other code."""
    firmware = firmware_of(project, None)
    new = rescale(LAYERS, tmp_path / "x.tflite", layer=1, input_number=1, factor=0.99)
    blob = lay_out_params(read_source(new, firmware), firmware.graph)
    old = lay_out_params(read_source(LAYERS, firmware), firmware.graph)
    assert blob.data != old.data
    assert len(blob.data) == len(old.data)


def test_what_differs_in_more_than_values(project: Path, tmp_path: Path) -> None:
    firmware = firmware_of(project, None)
    edge = rescale(LAYERS, tmp_path / "edge.tflite", layer=0, input_number=0, factor=2.0)
    with pytest.raises(InputError, match=r"scale .* in place of|layer 0 .* constants in its code"):
        read_source(edge, firmware)
    from small_models import two_layers

    other = tmp_path / "other.tflite"
    other.write_bytes(two_layers())
    with pytest.raises(InputError, match="steps, the firmware's"):
        read_source(other, firmware)


def test_a_layer_whose_code_has_other_constants_is_named(project: Path, tmp_path: Path) -> None:
    """The zero point of an output is in its layer's code."""
    import tflite

    data = bytearray(LAYERS.read_bytes())
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    number = graph.Operators(0).Outputs(0)
    graph.Tensors(number).Quantization().ZeroPointAsNumpy()[:] += 3
    path = tmp_path / "zero.tflite"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"layer 0|kernel") as error:
        read_source(path, firmware_of(project, None))
    assert "layer" in str(error.value)


def test_a_model_with_a_state_is_refused(tmp_path: Path) -> None:
    from small_models import svdf

    path = tmp_path / "state.tflite"
    path.write_bytes(svdf(1, 8, 4, 2, 5, 1, "int8"))
    with pytest.raises(NotPossibleError, match="keep a state"):
        mlf_sdk.generate(path, tmp_path / "app", board="host", executor="graph")
    assert not (tmp_path / "app").exists()


@pytest.mark.qemu
@pytest.mark.slow
def test_kws_on_an_emulated_board(
    tmp_path: Path, needs_qemu: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signed push of a real model; fine-tuned in its last layer, it takes at most 5 % of all bytes."""
    if "MONOCYPHER" not in os.environ:
        pytest.skip("MONOCYPHER is not set")
    if not KWS.exists():
        pytest.skip(f"{KWS.name} is not there")
    make_keys(str(tmp_path / "key"), str(tmp_path / "trusted.pem"), [])
    shutil.copy(KWS, tmp_path / "kws.tflite")
    options = {"trust": str(tmp_path / "trusted.pem"), "monocypher": os.environ["MONOCYPHER"]}
    app = build_project(tmp_path / "kws.tflite", tmp_path / "app", "mps2-an386", **options)
    first = retrain(KWS, tmp_path / "first.tflite")
    push(app, first, 1, capsys)
    last = retrain(first, tmp_path / "last.tflite", layers=1, seed=5)
    said = push(app, last, 2, capsys)
    assert said["sent_bytes"] <= 0.05 * said["total_bytes"]
    value = np.random.default_rng(0).integers(-128, 128, (1, 49, 10, 1)).astype(np.int8)
    np.testing.assert_array_equal(outputs(app, value), said_by_reference(last, value))
