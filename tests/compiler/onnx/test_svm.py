# SPDX-License-Identifier: Apache-2.0
"""SVMClassifier and SVMRegressor: reference and kernels of all goals against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.mlf.compiled import archive_of
from onnx_agreement import agree
from onnx_machines import machine
from onnx_models import OnnxMaker

DOMAIN = "ai.onnx.ml"
ROWS = np.random.default_rng(4).standard_normal((7, 3)).astype(np.float32)
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def save(path: Path, kind: str, *given: dict[str, Any], rows: Any = ROWS) -> Path:
    """A model of machines that read the same rows."""
    m = OnnxMaker()
    m.input(*rows.shape, dtype={"f": 1, "i": 7}[rows.dtype.kind])
    names: list[str] = []
    for attributes in given:
        outputs = 2 if kind == "SVMClassifier" else 1
        first = m.add(kind, "x", outputs=outputs, domain=DOMAIN, **attributes)
        names += [first, f"{first}_1"][:outputs]
    return m.save(path / "model.onnx", *names)


def test_classifiers(tmp_path: Path) -> None:
    """Two classes and more, with every kernel, with and without probabilities."""
    random = np.random.default_rng(1)
    cases = [
        machine(random, classes, kernel, calibrated=calibrated)
        for classes, kernel, calibrated in [
            *((2, kernel, False) for kernel in KERNELS), *((3, kernel, True) for kernel in KERNELS),
            (4, "RBF", False), (2, "RBF", True), (5, "LINEAR", True),
        ]
    ]  # fmt: skip
    agree(save(tmp_path, "SVMClassifier", *cases), [ROWS], tolerance=4e-6)


def test_transformed_scores(tmp_path: Path) -> None:
    """Of two classes without probabilities, the first score follows from the second one."""
    random = np.random.default_rng(2)
    cases = []
    for transform in ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        for classes, calibrated in ((2, False), (3, False), (3, True)):
            given = machine(random, classes, "RBF", calibrated=calibrated)
            cases.append(given | {"post_transform": transform})
    cases.append(machine(random, 3, "RBF", calibrated=True) | {"post_transform": "PROBIT"})
    agree(save(tmp_path, "SVMClassifier", *cases), [ROWS], tolerance=2e-5)


def test_classifiers_without_support_vectors(tmp_path: Path) -> None:
    """A score of each class; of two classes, the second is taken above a limit that depends on the signs."""
    numbers = np.random.default_rng(3).standard_normal(9).astype(np.float32)
    given = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "rho": [0.1]}
    cases = [
        given | {"coefficients": c.tolist(), "classlabels_ints": [9, 7, 8][: c.size // 3]}
        for c in (numbers, numbers[:6], abs(numbers[:6]))
    ]
    agree(save(tmp_path, "SVMClassifier", *cases), [ROWS])


def test_regressors(tmp_path: Path) -> None:
    """Every kernel, one class, and coefficients of the features; a post_transform changes nothing."""
    random = np.random.default_rng(5)
    cases: list[dict[str, Any]] = []
    for kernel in KERNELS:
        given = machine(random, 1, kernel)
        cases += [given, given | {"one_class": 1}]
    plain = {
        "kernel_type": "LINEAR",
        "kernel_params": [0.0] * 3,
        "coefficients": [1.5, -2, 0.25],
        "rho": [0.3],
    }
    cases += [plain, plain | {"one_class": 1, "post_transform": "LOGISTIC"}]
    agree(save(tmp_path, "SVMRegressor", *cases), [ROWS], tolerance=4e-6)


def test_powers_that_are_not_whole(tmp_path: Path) -> None:
    """NaN where the base is below 0, as of `pow`."""
    given = machine(np.random.default_rng(6), 1, "POLY") | {"kernel_params": [0.2, 9.0, 2.5]}
    agree(save(tmp_path, "SVMRegressor", given), [ROWS], tolerance=1e-5)


def test_rows_of_whole_numbers(tmp_path: Path) -> None:
    rows = np.array([[1, -2, 0], [3, 1, 1]], np.int64)
    given = machine(np.random.default_rng(7), 2, "RBF")
    agree(save(tmp_path, "SVMClassifier", given, rows=rows), [rows])


def test_sums_are_compensated_and_distances_are_not_expanded(tmp_path: Path) -> None:
    """Features far from 0 and factors that cancel: 30 times nearer than ONNX Runtime to the exact result."""
    random = np.random.default_rng(8)
    vectors = (random.standard_normal((400, 4)) + 100).astype(np.float32)
    factors = np.sort(random.uniform(-100, 100, 400)).astype(np.float32)
    rows = (random.standard_normal((20, 4)) + 100).astype(np.float32)
    given = {
        "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 0.0], "n_supports": 400, "rho": [0.25],
        "support_vectors": vectors.ravel().tolist(), "coefficients": factors.tolist(),
    }  # fmt: skip
    graph = load_onnx(save(tmp_path, "SVMRegressor", given, rows=rows))
    distances = np.square(rows[:, np.newaxis].astype(np.float64) - vectors).sum(axis=2)
    exact = np.exp(-0.5 * distances) @ factors.astype(np.float64) + 0.25
    (found,) = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path, ("-O1",)).run([rows])
    assert np.abs(found.ravel() - exact).max() < 6e-7 * np.abs(exact).max()
    np.testing.assert_allclose(Interpreter(graph).run([rows])[0].ravel(), exact, rtol=1e-6)


def test_linear_machines_are_one_matrix_product(tmp_path: Path) -> None:
    graph = load_onnx(save(tmp_path, "SVMClassifier", machine(np.random.default_rng(9), 3, "LINEAR")))
    kinds = [type(o).__name__ for o in graph.operators]
    assert kinds == ["FullyConnected", "PairVotes", "Lookup"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernel_type": "COSINE"}, "the kernel COSINE is not known"),
        ({"support_vectors": [1.0] * 4}, "4 elements of"),
        ({"kernel_params": [1.0]}, "gamma, coef0 and degree"),
        ({"coefficients": [1.0]}, "1 coefficients and 3 elements of rho for 3 pairs"),
        ({"rho": [1.0]}, "1 elements of rho for 3 pairs"),
        ({"vectors_per_class": [1, 1]}, "3 classes and"),
        ({"vectors_per_class": [1, -1, 4]}, "3 classes and"),
        ({"prob_a": [1.0] * 3}, "3 elements of prob_a and 0 of prob_b"),
        ({"post_transform": "CUBE"}, "the transformation CUBE is not known"),
    ],
)
def test_classifiers_that_are_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    given = machine(np.random.default_rng(10), 3, "RBF") | change
    with pytest.raises(MlfError, match=said):
        load_onnx(save(tmp_path, "SVMClassifier", given))


def test_regressors_that_are_none(tmp_path: Path) -> None:
    plain = {"coefficients": [1.0, 2.0, 3.0], "rho": [0.0]}
    changes: list[dict[str, Any]] = [{"n_supports": 4}, {"coefficients": [1.0] * 4}, {"coefficients": [1.0]}]
    for change in changes:
        with pytest.raises(MlfError, match="coefficients"):
            load_onnx(save(tmp_path, "SVMRegressor", plain | change))
