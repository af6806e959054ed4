# SPDX-License-Identifier: Apache-2.0
"""Sparse constants: the elements that the file has, each at its place; every other one is zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from operator_cases import Case
from tflite_models import Maker

ROWS = np.array([[5, 0, 0, 7], [0, 0, 0, 0], [0, 3, 2, 0], [1, 0, 0, 4]], np.float32)
BLOCKS = np.array([[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 0]], np.float32)
FORMS: dict[str, tuple[Any, np.ndarray[Any, Any], list[float]]] = {
    "rows": (((0, 1), (), (4, ((0, 2, 2, 4, 6), (0, 3, 1, 2, 0, 3)))), ROWS, [5, 7, 3, 2, 1, 4]),
    "columns": (((1, 0), (), (4, ((0, 2, 3, 4, 6), (0, 3, 2, 2, 0, 3)))), ROWS, [5, 1, 3, 2, 7, 4]),
    "transposed": (((1, 0), (), (4, 4)), ROWS, ROWS.T.reshape(-1).tolist()),
    "both": (((0, 1), (), (((0, 3), (0, 2, 3)), ((0, 2, 4, 6), (0, 3, 1, 2, 0, 3)))), ROWS, [5, 7, 3, 2, 1, 4]),
    "blocks": (
        ((0, 1, 2, 3), (0, 1), (2, ((0, 1, 2), (0, 1)), 2, 2)),
        BLOCKS,
        [1, 2, 3, 4, 5, 6, 7, 0],
    ),
}  # fmt: skip


def model(path: Path, sparse: Any, data: list[float]) -> Path:
    """A product with sparse weights, made dense by DENSIFY."""
    c = Case(Maker(1), "float32")
    x = c.input((1, 4))
    spec = c.maker.spec
    stored = spec.tensor("stored", "float32", (4, 4), data=np.array(data, np.float32), sparse=sparse)
    weights = spec.add("DENSIFY", (stored,), c.value((4, 4)))
    fields = {"WeightsFormat": 0}
    y = spec.add("FULLY_CONNECTED", (x, weights, -1), c.value((1, 4)), ("FullyConnectedOptions", fields))
    path.write_bytes(c.maker.finish(y))
    return path


@pytest.mark.parametrize("name", FORMS)
def test_elements_at_their_places(name: str, tmp_path: Path) -> None:
    """A full table in another order of dimensions has as many bytes as a dense one, and another meaning."""
    sparse, whole, data = FORMS[name]
    graph = load_tflite(model(tmp_path / "m.tflite", sparse, data))
    x = np.array([[1, 10, 100, 1000]], np.float32)
    np.testing.assert_array_equal(Interpreter(graph).run([x])[0], x @ whole.T)


@pytest.mark.parametrize(
    ("sparse", "says"),
    [
        (((0, 0), (), (4, 4)), r"in the order \[0, 0\]"),
        (((0, 1, 2), (), (4, 4, 1)), "blocks"),
        (((0, 1, 2), (5,), (4, 1, 4)), r"blocks of dimensions \[5\]"),
        (((0, 1), (), (4, 0)), "a dense level of 0"),
        (((0, 1), (), (1 << 30, 4)), "a dense level of 1073741824 in 1 places"),
        (((0, 1), (), (4, ((0, 2, 2, 4), (0, 3, 1, 2, 0, 3)))), "4 segments of 6 indices"),
        (((0, 1), (), (4, ((0, 2, 1, 4, 6), (0, 3, 1, 2, 0, 3)))), "5 segments of 6 indices"),
        (((0, 1), (), (4, ((0, 2, 2, 4, 200), (0, 3, 1, 2, 0, 3)))), "5 segments of 6 indices"),
        (((0, 1), (), (4, ((0, 2, 2, 4, 6), (0, 3, 1, 2, 0, 4)))), "an index outside of its shape"),
        (((0, 1), (), (4, ((0, 2, 2, 4, 5), (0, 3, 1, 2, 0, 3)))), "6 elements of data; its indices name 5"),
    ],
)
def test_descriptions_that_do_not_fit(sparse: Any, says: str, tmp_path: Path) -> None:
    path = model(tmp_path / "m.tflite", sparse, [5, 7, 3, 2, 1, 4])
    with pytest.raises(ArchiveError, match=says):
        load_tflite(path)
