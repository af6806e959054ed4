# SPDX-License-Identifier: Apache-2.0
"""Facts about the layers of a file: attributes, quantisation, weights and the values of one inference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.ir.tensor import Quantisation
from mlf_sdk.judge import layerfacts
from mlf_sdk.judge.layerfacts import BINS, FileFacts, file_facts, histogram
from mlf_sdk.judge.witnesses.witness import ModelFile

MODEL = Path(__file__).parents[2] / "examples" / "layers" / "layers.tflite"


def _facts(path: Path = MODEL) -> tuple[ModelFile, FileFacts]:
    file = ModelFile(path, compiling_frontend(path), CompileOptions())
    rng = np.random.default_rng(5)
    values = [file.graph.values[number] for number in file.graph.inputs]
    inputs = [rng.integers(-100, 100, v.shape).astype(v.dtype) for v in values]
    return file, file_facts(file, inputs)


def test_every_layer_of_the_file() -> None:
    file, facts = _facts()
    assert [(layer.number, layer.kind) for layer in facts.layers] == [
        (o.number, o.kind) for o in file.graph.operators
    ]
    assert facts.macs == sum(layer.macs for layer in facts.layers) > 0
    assert all(layer.covered for layer in facts.layers)
    assert facts.of(facts.layers[0].number) is facts.layers[0]
    assert facts.of(12345) is None
    conv = next(layer for layer in facts.layers if "CONV" in layer.kind)
    names = dict(conv.attributes)
    assert set(names) >= {"window", "stride", "clamp, stored values"}
    assert [t.role for t in conv.tensors] == ["input", "constant", "constant", "output"]
    assert all(t.histogram is not None for t in conv.tensors)


def test_a_histogram_is_of_real_values() -> None:
    """Two channels with scales of their own: 2, 4 and 0.5, -0.5 of one kind of stored values."""
    value = Value(
        id=0,
        name="w",
        dtype=np.dtype(np.int8),
        shape=(2, 2),
        quantisation=Quantisation(scale=(2.0, 0.5), zero_point=(0, 0), axis=0),
    )
    found = histogram(np.array([[1, 2], [1, -128]], np.int8), value)
    assert found is not None
    assert (found.low, found.high) == (-64.0, 4.0)
    assert sum(found.counts) == 4
    assert len(found.counts) == BINS
    assert (found.zeros, found.ends) == (0.0, 0.25)


@pytest.mark.parametrize("data", [np.zeros((0,), np.float32), np.array([np.nan, np.inf], np.float32)])
def test_no_histogram_without_numbers(data: np.ndarray) -> None:
    value = Value(id=0, name="x", dtype=data.dtype, shape=data.shape)
    assert histogram(data, value) is None


def test_one_value_has_a_histogram() -> None:
    value = Value(id=0, name="x", dtype=np.dtype(np.float32), shape=(3,))
    found = histogram(np.full(3, 7.0, np.float32), value)
    assert found is not None
    assert sum(found.counts) == 3
    assert found.low == found.high == 7.0


def test_large_models_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layerfacts, "_LARGEST", 10)
    _, facts = _facts()
    assert "10 multiplications" in facts.no_activations
    tensors = [t for layer in facts.layers for t in layer.tensors]
    assert all((t.histogram is None) == (t.role != "constant") for t in tensors)
    assert not any(layer.covered for layer in facts.layers)
