# SPDX-License-Identifier: Apache-2.0
"""Outputs that the example of an export prints, compared with those of the numpy reference or of the archive's own code."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

import mlf_sdk
from mlf_sdk.codegen.samples import pattern_array
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite

OUTPUT = re.compile(r"^\S+ output ([0-9a-f]+)$", re.MULTILINE)
Array = np.ndarray[Any, np.dtype[Any]]


@functools.cache
def meant(path: Path) -> tuple[Array, ...]:
    """Outputs for the sample, of the numpy reference or of the archive's own code on this machine."""
    if path.suffix == ".tflite":
        graph = load_tflite(path)
        shapes = [graph.values[i].shape for i in graph.inputs]
        dtypes = [model_dtype(path, k) for k in range(len(shapes))]
        sample = [pattern_array(d, s, salt=k) for k, (d, s) in enumerate(zip(dtypes, shapes, strict=True))]
        return tuple(Interpreter(graph).run(sample))
    model = mlf_sdk.load(path)
    inputs = [model.tensors[i] for i in model.inputs]
    with mlf_sdk.open_session(path, board="host", plan="none") as opened:
        return tuple(opened.infer([pattern_array(t.dtype, t.shape, salt=k) for k, t in enumerate(inputs)]))


def model_dtype(path: Path, number: int) -> Any:
    model = mlf_sdk.load(path)
    return model.tensors[model.inputs[number]].dtype


def check(said: str, path: Path) -> None:
    """Compare the outputs that an example printed with what the model means."""
    wanted = meant(path)
    found = [bytes.fromhex(text) for text in OUTPUT.findall(said)]
    assert len(found) == len(wanted), said
    for data, array in zip(found, wanted, strict=True):
        got = np.frombuffer(data, array.dtype.newbyteorder("<")).reshape(array.shape)
        if array.dtype.kind == "f":
            np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-4)
        else:
            np.testing.assert_array_equal(got, array)
