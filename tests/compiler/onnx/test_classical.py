# SPDX-License-Identifier: Apache-2.0
"""Operators of ``ai.onnx.ml``: reference and kernels of all goals against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import mlf_sdk
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.onnx.frontend import OnnxFrontend
from onnx_agreement import agree
from onnx_models import OnnxMaker

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
ROWS = np.array([[-1, 0.3, -5], [2, 0.5, -1], [0.1, 0.2, 0.3], [0.25, 1.5, 0.5], [0.5, -0.5, 4]], np.float32)
COEFFICIENTS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, -0.3, -0.2, 0.1]


def model(path: Path, kind: str, *, outputs: int = 1, rows: Any = ROWS, **attributes: Any) -> Path:
    """A model of one operator that reads rows."""
    m = OnnxMaker()
    m.input(*rows.shape, dtype={"f": 1, "i": 7}[rows.dtype.kind])
    first = m.add(kind, "x", outputs=outputs, domain=DOMAIN, **attributes)
    return m.save(path / "model.onnx", first, *(f"{first}_{i}" for i in range(1, outputs)))


def test_rows_are_scaled_and_normalised(tmp_path: Path) -> None:
    agree(model(tmp_path, "Scaler", offset=[1.0, -2, 0.5], scale=[2.0, 0.5, 3]), [ROWS])
    agree(model(tmp_path, "Scaler", offset=[1.0], scale=[2.0]), [ROWS])
    empty = np.array([[0, 0, 0], [1, -2, 3]], np.float32)
    for norm in ("MAX", "L1", "L2"):
        agree(model(tmp_path, "Normalizer", rows=empty, norm=norm), [empty])
    whole = np.array([[1, 2, 4]], np.int64)
    agree(model(tmp_path, "Scaler", rows=whole, offset=[1.0], scale=[0.5]), [whole])


def test_categories_become_columns(tmp_path: Path) -> None:
    """OneHotEncoder of scikit-learn's pipelines: a category that is not listed gives zeros."""
    for rows in (np.array([[1, 7], [2, -1]], np.int64), np.array([[1.9, 7], [-0.5, 2.25]], np.float32)):
        agree(model(tmp_path, "OneHotEncoder", rows=rows, cats_int64s=[7, 1, 0]), [rows])
    m = OnnxMaker()
    names = m.add("LabelEncoder", m.input(4, dtype=7), domain=DOMAIN, keys_int64s=[1, 2, 3],
                  values_strings=["red", "green", "blue"])  # fmt: skip
    columns = m.add("OneHotEncoder", names, domain=DOMAIN, cats_strings=["blue", "red"])
    agree(m.save(tmp_path / "model.onnx", columns), [np.array([3, 1, 2, 9])])


@pytest.mark.parametrize(
    ("categories", "said"),
    [
        ({}, "one of the attributes cats_int64s and cats_strings"),
        ({"cats_int64s": [1, 2, 1]}, "a category twice"),
        ({"cats_strings": ["a"]}, "its categories are strings"),
    ],
)
def test_encoders_of_no_categories(tmp_path: Path, categories: dict[str, Any], said: str) -> None:
    with pytest.raises(MlfError, match=said):
        load_onnx(model(tmp_path, "OneHotEncoder", rows=np.zeros((1, 2), np.int64), **categories))


def test_categories_of_bytes_are_refused(tmp_path: Path) -> None:
    m = OnnxMaker()
    columns = m.add("OneHotEncoder", m.input(1, 2, dtype=2), domain=DOMAIN, cats_int64s=[1])
    with pytest.raises(MlfError, match="reads uint8; numbers with a sign"):
        load_onnx(m.save(tmp_path / "model.onnx", columns))


def test_features_are_joined_from_any_shape(tmp_path: Path) -> None:
    """FeatureVectorizer takes a vector as one row, and the axes behind the first as features."""
    m = OnnxMaker()
    parts = [m.input(*shape, name=name) for name, shape in (("a", (2,)), ("b", (1, 1, 3)), ("c", (1, 2)))]
    joined = m.add("FeatureVectorizer", *parts, domain=DOMAIN, inputdimensions=[2, 3, 2])
    random = np.random.default_rng(1)
    given = [random.standard_normal(shape).astype(np.float32) for shape in ((2,), (1, 1, 3), (1, 2))]
    agree(m.save(tmp_path / "model.onnx", joined), given)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_classifiers(tmp_path: Path, transform: str) -> None:
    three = {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [7, 8, 9]}
    agree(model(tmp_path, "LinearClassifier", outputs=2, post_transform=transform, **three), [ROWS])
    two = {"coefficients": COEFFICIENTS[:3], "intercepts": [0.1], "classlabels_ints": [7, 5]}
    agree(model(tmp_path, "LinearClassifier", outputs=2, post_transform=transform, **two), [ROWS])


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_regressors(tmp_path: Path, transform: str) -> None:
    for count in (1, 3):
        given = {"coefficients": COEFFICIENTS[: 3 * count], "intercepts": [0.1, 0.2, 0.3][:count]}
        agree(model(tmp_path, "LinearRegressor", targets=count, post_transform=transform, **given), [ROWS])
    agree(model(tmp_path, "LinearRegressor", rows=ROWS[0], coefficients=COEFFICIENTS[:3]), [ROWS[0]])


def test_probit(tmp_path: Path) -> None:
    """Of probabilities: others have no inverse."""
    rows = np.array([[0.05, 0.4, 0.5], [0.9, 0.7, 0.999]], np.float32)
    given = {"coefficients": np.eye(3).ravel().tolist(), "post_transform": "PROBIT"}
    agree(model(tmp_path, "LinearRegressor", rows=rows, targets=3, **given), [rows], tolerance=2e-5)


def test_small_operators_around_them(tmp_path: Path) -> None:
    holed = ROWS.copy()
    holed[1, 2] = np.nan
    replaced = {"imputed_value_floats": [1.0, 2, 3], "replaced_value_float": float("nan")}
    agree(model(tmp_path, "Imputer", **replaced), [holed])
    agree(model(tmp_path, "Imputer", imputed_value_floats=[9.0], replaced_value_float=0.5), [ROWS])
    whole = np.array([[1, 2, 4]], np.int64)
    replaced = {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": 2}
    agree(model(tmp_path, "Imputer", rows=whole, **replaced), [whole])
    agree(model(tmp_path, "Binarizer", threshold=0.3), [ROWS])
    m = OnnxMaker()
    m.input(*ROWS.shape)
    taken = m.add("ArrayFeatureExtractor", "x", m.constant(np.array([2, 0])), domain=DOMAIN)
    joined = m.add("FeatureVectorizer", taken, "x", domain=DOMAIN, inputdimensions=[2, 3])
    agree(m.save(tmp_path / "model.onnx", joined), [ROWS])


def test_features_of_computed_places(tmp_path: Path) -> None:
    """As scikit-learn's exporter takes the label of a network: the class at the largest score's place."""
    m = OnnxMaker()
    m.input(*ROWS.shape)
    place = m.add("ArgMax", "x", axis=0, keepdims=0)
    labels = m.constant(np.array([30, 10, 20, 50, 40]))
    path = m.save(tmp_path / "model.onnx", m.add("ArrayFeatureExtractor", labels, place, domain=DOMAIN))
    agree(path, [ROWS])


def test_labels_that_are_strings_become_places(tmp_path: Path) -> None:
    """Their classes are numbered; a note says so. ZipMap lets the probabilities through."""
    m = OnnxMaker()
    m.input(*ROWS.shape)
    labels = ["no", "yes", "maybe"]
    given = {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3], "classlabels_strings": labels}
    label = m.add("LinearClassifier", "x", outputs=2, domain=DOMAIN, **given)
    scores = m.add("ZipMap", f"{label}_1", domain=DOMAIN, classlabels_strings=labels)
    path = m.save(tmp_path / "model.onnx", label, scores)
    places, probabilities = Interpreter(load_onnx(path)).run([ROWS])
    assert places.dtype == np.int64 and places.tolist() == probabilities.argmax(axis=1).tolist()
    (note,) = OnnxFrontend().findings(path, CompileOptions())
    assert "strings" in note.what and "LinearClassifier" in note.where


@pytest.mark.parametrize(
    ("kind", "outputs", "attributes", "said"),
    [
        ("Scaler", 1, {"offset": [1.0, 2], "scale": [1.0, 2]}, "2 offsets and 2 scales of 3 features"),
        ("LinearRegressor", 1, {"coefficients": [1.0] * 4}, "4 coefficients for 1 results of 3 features"),
        ("LinearRegressor", 1, {"coefficients": [float("nan")] * 3}, "not finite"),
        ("LinearClassifier", 2, {"coefficients": [1.0] * 3, "intercepts": [0.0]}, "names the classes"),
        ("Normalizer", 1, {"norm": "L7"}, "the norm L7 is not known"),
    ],
)
def test_attributes_that_do_not_fit(
    tmp_path: Path, kind: str, outputs: int, attributes: dict[str, Any], said: str
) -> None:
    with pytest.raises(MlfError, match=said):
        mlf_sdk.load(model(tmp_path, kind, outputs=outputs, **attributes))


def forest(prefix: str, weights: dict[tuple[int, int, int], float], modes: str = "LEQ") -> dict[str, Any]:
    """Attributes of two trees: one of two levels, one of one; weights by tree, node and result."""
    kinds = [f"BRANCH_{modes}", f"BRANCH_{modes}", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"]
    return {
        "nodes_treeids": [0, 0, 0, 0, 0, 3, 3, 3],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 2, 0, 0, 0, 1, 0, 0],
        "nodes_values": [0.5, 0.25, 0, 0, 0, 0.5, 0, 0],
        "nodes_modes": kinds,
        "nodes_truenodeids": [4, 2, 0, 0, 0, 2, 0, 0],
        "nodes_falsenodeids": [1, 3, 0, 0, 0, 1, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 1, 0, 0],
        **({"n_targets": 1} if prefix == "target" else {}),
        f"{prefix}_treeids": [t for t, _, _ in weights],
        f"{prefix}_nodeids": [n for _, n, _ in weights],
        f"{prefix}_ids": [i for _, _, i in weights],
        f"{prefix}_weights": list(weights.values()),
    }


LEAVES = ((0, 2), (0, 3), (0, 4), (3, 1), (3, 2))
HOLED = np.concatenate([ROWS, [[np.nan, 1, 0], [1, np.nan, np.nan]]]).astype(np.float32)


def weights_of(*results: int, sign: bool = True) -> dict[tuple[int, int, int], float]:
    numbers = iter(np.random.default_rng(3).uniform(-0.4 if sign else 0.05, 0.45, 50).round(3).tolist())
    return {(tree, node, result): next(numbers) for tree, node in LEAVES for result in results}


@pytest.mark.parametrize("mode", ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"])
def test_modes_of_trees(tmp_path: Path, mode: str) -> None:
    """Equal values and missing ones are among the rows."""
    found = agree(
        model(tmp_path, "TreeEnsembleRegressor", rows=HOLED, **forest("target", weights_of(0), mode)), [HOLED]
    )
    assert "TreeEnsemble" in {type(o).__name__ for o in found.operators}


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_aggregates_of_trees(tmp_path: Path, function: str) -> None:
    given = forest("target", weights_of(0, 1)) | {"n_targets": 2, "base_values": [0.3, -0.2]}
    agree(model(tmp_path, "TreeEnsembleRegressor", aggregate_function=function, **given), [ROWS])


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_classes_of_trees(tmp_path: Path, transform: str) -> None:
    """Three classes, and two with weights of the first or of the second, of one sign or of both."""
    cases: list[tuple[list[int], Any]] = [([5, 6, 9], weights_of(0, 1, 2))]
    cases += [([4, 8], weights_of(column, sign=sign)) for column in (0, 1) for sign in (False, True)]
    for labels, weights in cases:
        given = forest("class", weights) | {"classlabels_int64s": labels, "post_transform": transform}
        agree(model(tmp_path, "TreeEnsembleClassifier", outputs=2, **given), [ROWS])


def test_a_tree_of_whole_numbers(tmp_path: Path) -> None:
    rows = np.array([[0, 1, 1], [1, 0, 0]], np.int64)
    given = forest("class", weights_of(0, 1, 2)) | {"classlabels_int64s": [5, 6, 9]}
    agree(model(tmp_path, "TreeEnsembleClassifier", outputs=2, rows=rows, **given), [rows])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes_values": [0.5]}, "8 nodes, and 1 elements in the attribute nodes_values"),
        ({"nodes_featureids": [3] * 8}, "outside of 3"),
        ({"nodes_truenodeids": [7] * 8}, "followed by one that isn't there"),
        ({"nodes_truenodeids": [0] * 8}, "doesn't have one root"),
        ({"nodes_falsenodeids": [4, 3, 0, 0, 0, 1, 0, 0]}, "doesn't have one root|follows two nodes"),
        ({"nodes_nodeids": [0, 0, 2, 3, 4, 0, 1, 2]}, "same number"),
        ({"nodes_modes": ["BRANCH_X"] * 8}, "BRANCH_X of a node is not known"),
        ({"target_ids": [1] * 5}, "outside of 1"),
        ({"target_nodeids": [0] * 5}, "which is no leaf"),
        ({"target_weights": [1.0] * 4}, "differ in their lengths"),
        ({"n_targets": 1 << 30}, "more than is supported"),
        ({"aggregate_function": "MODE"}, "MODE is not known"),
    ],
)
def test_trees_that_are_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    given = forest("target", weights_of(0)) | change
    with pytest.raises(MlfError, match=said):
        load_onnx(model(tmp_path, "TreeEnsembleRegressor", **given))


ENSEMBLE: dict[str, Any] = {
    "n_targets": 2, "tree_roots": [0, 3], "nodes_featureids": [0, 0, 1, 2],
    "nodes_truenodeids": [1, 0, 1, 4], "nodes_trueleafs": [0, 1, 1, 1],
    "nodes_falsenodeids": [2, 2, 3, 4], "nodes_falseleafs": [0, 1, 1, 1],
    "leaf_targetids": [0, 1, 0, 1, 1],
}  # fmt: skip


def ensemble(folder: Path, modes: tuple[int, ...] = (0, 1, 2, 0), **attributes: Any) -> Path:
    """A TreeEnsemble of two trees; the second is a leaf."""
    m = OnnxMaker()
    m.domains[DOMAIN] = 5
    tensors = {
        "nodes_modes": np.array(modes, np.uint8),
        "nodes_splits": np.array([0.4, 0.1, 0.5, 0], np.float32),
        "leaf_weights": np.array([5.25, 12, -12.5, 7, 0.5], np.float32),
        **attributes.pop("tensors", {}),
    }
    given = ENSEMBLE | {name: numpy_helper.from_array(a) for name, a in tensors.items()} | attributes
    return m.save(folder / "model.onnx", m.add("TreeEnsemble", m.input(*HOLED.shape), domain=DOMAIN, **given))


def test_ensembles_with_leaves_of_their_own(tmp_path: Path) -> None:
    """TreeEnsemble of version 5: modes, aggregates, and sets of members."""
    agree(ensemble(tmp_path), [HOLED])
    agree(ensemble(tmp_path, (3, 4, 5, 0), aggregate_function=0, post_transform=3), [HOLED])
    sets = np.array([2, 7, -1, np.nan, 1, 3, np.nan], np.float32)
    path = ensemble(tmp_path, (0, 6, 6, 0), tensors={"membership_values": sets},
                    nodes_missing_value_tracks_true=[0, 1, 1, 0])  # fmt: skip
    agree(path, [HOLED])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"post_transform": 1}, "ONNX and ONNX Runtime differ"),
        ({"aggregate_function": 4}, "aggregate 4 is not known"),
        ({"nodes_truenodeids": [0, 0, 1, 4]}, "cycle|same number|follows two nodes"),
        ({"nodes_truenodeids": [9, 0, 1, 4]}, "isn't there: 9"),
        ({"nodes_truenodeids": [1, 5, 1, 4]}, "a node or leaf that isn't there: 5"),
        ({"tree_roots": [4]}, "root of tree 0 isn't there: 4"),
        ({"leaf_targetids": [0]}, "1 targets of 5 leaves"),
        ({"tensors": {"nodes_modes": np.array([7] * 4, np.uint8)}}, "mode of a node is not known"),
        ({"tensors": {"nodes_modes": np.array([6] * 4, np.uint8)}}, "0 sets of members for 4 nodes"),
    ],
)
def test_ensembles_that_are_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(MlfError, match=said):
        load_onnx(ensemble(tmp_path, **change))


def test_sets_that_are_not_there(tmp_path: Path) -> None:
    """Trees of the former versions can't ask for what lies behind the sets."""
    given = forest("target", weights_of(0), "MEMBER")
    for members in ([], [3.0, 1.0]):
        with pytest.raises(MlfError, match="a set of members that isn't there"):
            load_onnx(
                model(
                    tmp_path,
                    "TreeEnsembleRegressor",
                    **given,
                    **({"membership_values": members} if members else {}),
                )
            )


def test_a_tree_on_a_board(tmp_path: Path) -> None:
    given = forest("class", weights_of(0, 1, 2)) | {"classlabels_int64s": [5, 6, 9]}
    report = mlf_sdk.run(model(tmp_path, "TreeEnsembleClassifier", outputs=2, **given), board="mps2-an386")
    assert report.ok
