# SPDX-License-Identifier: Apache-2.0
"""Models that are compiled in memory: the same as by an archive, made once, and made again when damaged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk import frontends
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import ModuleChoiceError
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.frontends.stated import Stated
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.resources import cache_dir
from onnx_models import OnnxMaker, convolutional
from recurrent_models import lstm
from signal_models import preprocessor
from small_models import TWICE, floats_at_the_edges, own_operator, svdf, two_layers
from step_chains import residual_chain
from tflite_models import Maker, small_network

BOARD = "mps2-an386"


def joined() -> bytes:
    """Branches that are written into their concatenation, and a slice of what is computed."""
    m = Maker(3)
    x = m.input((1, 4, 4, 8))
    one = m.conv(x, 8, (1, 1), 1, same=True)
    other = m.conv(x, 8, (3, 3), 1, same=True)
    for tensor in (one, other):
        m.spec.tensors[tensor].scale, m.spec.tensors[tensor].zero_point = (0.1,), (3,)
    whole = m.same_scale(one, (1, 8, 4, 8))
    options = ("ConcatenationOptions", {"Axis": 1, "FusedActivationFunction": 0})
    m.spec.add("CONCATENATION", (one, other), whole, options)
    begin, size = (
        m.spec.tensor(n, "int32", (4,), data=np.array(v, np.int32))
        for n, v in (("begin", (0, 2, 0, 0)), ("size", (1, 4, 4, 8)))
    )
    part = m.same_scale(whole, (1, 4, 4, 8))
    m.spec.add("SLICE", (whole, begin, size), part)
    return m.finish(m.conv(part, 4, (3, 3), 2, same=True), m.conv(whole, 4, (1, 1), 1, same=True))


def float_onnx() -> bytes:
    m = OnnxMaker(2)
    x = m.add("MatMul", m.input(1, 6), m.weights(6, 5))
    return m.model(m.add("Concat", m.add("Tanh", x), m.add("Exp", x), axis=1)).SerializeToString()


def with_state() -> bytes:
    return svdf(3, 8, 6, 2, 5, 1, "int16")


Build = Callable[[], bytes]
TFLITE: dict[str, Build] = {
    "small": small_network,
    "joined": joined,
    "edges": floats_at_the_edges,
    "layers": two_layers,
    "svdf": with_state,
    "lstm": lambda: lstm(4),
    "floats": lambda: lstm(4, "float32"),
    "chain": lambda: residual_chain(8),
    "sound": preprocessor,
    "own": own_operator,
}
ONNX: dict[str, Build] = {
    "real": float_onnx,
    "pictures": lambda: convolutional(1).model("softmax16").SerializeToString(),
}
RUN = ("joined.tflite", "svdf.tflite")
NAMES = (*(f"{name}.tflite" for name in TFLITE), *(f"{name}.onnx" for name in ONNX))


def written(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """A model file, and the options that it needs."""
    path = folder / name
    path.write_bytes({**TFLITE, **ONNX}[path.stem]())
    if path.stem != "own":
        return path, {}
    (folder / "twice.c").write_text(TWICE)
    return path, {"custom": (f"Twice={folder / 'twice.c'}",)}


def both(name: str, folder: Path) -> tuple[Model, Model]:
    """The model in memory, and as it is read from its archive; compiled for the board."""
    path, options = written(name, folder)
    request = Request(source=(str(path),), board=BOARD, **options)
    (direct,) = Pipeline().models(request)
    mlf_sdk.compile(path, folder / "model.tar", board=BOARD, **options)
    return direct, frontends.load(folder / "model.tar")


@pytest.mark.parametrize("name", NAMES)
def test_a_model_in_memory_is_that_of_its_archive(name: str, tmp_path: Path) -> None:
    direct, read = both(name, tmp_path)
    assert direct.provenance.made_from == read.provenance.made_from
    assert direct.provenance.options == read.provenance.options
    assert dataclasses.replace(read, provenance=direct.provenance) == direct


@pytest.mark.parametrize("name", ["small.tflite", "joined.tflite", "svdf.tflite", "own.tflite", "real.onnx"])
def test_projects_and_verdicts_are_the_same(name: str, tmp_path: Path) -> None:
    path, options = written(name, tmp_path)
    archive = tmp_path / f"{path.stem}.tar"
    mlf_sdk.compile(path, archive, board=BOARD, **options)
    direct = Pipeline().plan(Request(source=(str(path),), board=BOARD, **options))
    read = Pipeline().plan(Request(source=(str(archive),), board=BOARD))
    assert direct.layouts[0].plan == read.layouts[0].plan
    files, others = direct.files(), read.files()
    assert files.keys() == others.keys()
    differ = {member for member in files if files[member] != others[member]}
    assert differ <= {"mlf-project.json", "README.md", "provenance.S", *_naming(direct.lock.models[0].c_name)}
    if name not in RUN:
        return
    ran = [mlf_sdk.run(path, board="host", **options), mlf_sdk.run(archive, board="host")]
    assert ran[0].verdict == ran[1].verdict
    for output, array in ran[0].outputs.items():
        np.testing.assert_array_equal(array, ran[1].outputs[output])


def _naming(name: str) -> set[str]:
    """Files of a model that name its archive and its hash."""
    return {
        f"model/{name}/model.c",
        f"model/{name}/model.h",
        f"model/{name}/{name}.c",
        f"model/{name}/{name}.h",
    }


def test_a_model_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, _ = written("layers.tflite", tmp_path)
    frontend, count = compiling_frontend(path), []
    monkeypatch.setattr(
        type(frontend),
        "_prepared",
        _counted(type(frontend)._prepared, count),
    )
    first = frontends.load(path)
    kept = set(cache_dir("compiled").iterdir())
    assert frontends.load(path) == first and len(count) == 1
    other = frontends.load(path, stated=Stated(options=CompileOptions(core="cortex-m4")))
    assert other.provenance.sha256 != first.provenance.sha256 and len(count) == 2
    for file in kept:
        file.write_bytes(file.read_bytes()[:-9])
    assert frontends.load(path) == first and len(count) == 3
    for file in kept:
        weight = bytearray(file.read_bytes())
        weight[len(weight) // 2] ^= 1
        file.write_bytes(weight)
    assert frontends.load(path) == first and len(count) == 4
    path.write_bytes(two_layers() + b"\0")
    assert frontends.load(path).provenance.made_from != first.provenance.made_from


def _counted(function: Callable[..., Any], count: list[int]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        count.append(1)
        return function(*given)

    return call


def test_a_file_has_one_module(tmp_path: Path) -> None:
    path, _ = written("layers.tflite", tmp_path)
    assert frontends.load(path, "layers").name == "layers"
    with pytest.raises(ModuleChoiceError, match="no module called 'other'"):
        frontends.load(path, "other")
