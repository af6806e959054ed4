# SPDX-License-Identifier: Apache-2.0
"""Draws of the operators of ai.onnx.ml; labels are whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from onnx_draws import draws, put, real
from onnx_machines import machine
from onnx_network import CLASSICAL, Network, Unfit, Value

FLOAT = ("float",)
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def _add(n: Network, kind: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> None:
    """Add a node and give its results to the network."""
    found = n.node(kind, *inputs, outputs=outputs, domain=CLASSICAL, **attributes)
    put(n, *(found if isinstance(found, list) else [found]))


def _numbers(n: Network, count: int, scale: float = 0.5) -> list[float]:
    return [float(v) for v in (n.random.standard_normal(count) * scale).astype(np.float32)]


def _transform(n: Network) -> dict[str, Any]:
    return {"post_transform": n.choice(TRANSFORMS)} if n.chance(0.6) else {}


def _labels(n: Network, count: int, name: str = "classlabels_ints") -> dict[str, Any]:
    start = n.integer(0, 40)
    return {name: [start + (3 * i) % 40 for i in range(count)] if n.chance(0.5) else list(range(count))}


@draws(f"{CLASSICAL}.SVMClassifier", styles=FLOAT)
def svm_classifier(n: Network) -> None:
    x = real(n, 2)
    classes, features = n.choice((2, 2, 3, 4, 5)), x.shape[1]
    if n.chance(0.2):
        given: dict[str, Any] = {"kernel_params": [0.0] * 3, "coefficients": _numbers(n, classes * features)}
        given |= {"kernel_type": "LINEAR", "rho": _numbers(n, 1)}
    else:
        kernel = n.choice(("LINEAR", "POLY", "RBF", "SIGMOID"))
        given = machine(n.random, classes, kernel, features=features, calibrated=n.chance(0.5))
        given["kernel_params"][0] = n.choice((0.05, 0.3)) / features
    _add(n, "SVMClassifier", x, outputs=2, **(given | _labels(n, classes) | _transform(n)))


@draws(f"{CLASSICAL}.SVMRegressor", styles=FLOAT)
def svm_regressor(n: Network) -> None:
    x = real(n, 2)
    given = machine(n.random, 1, n.choice(("LINEAR", "POLY", "RBF", "SIGMOID")), features=x.shape[1])
    given["kernel_params"][0] = n.choice((0.05, 0.3)) / x.shape[1]
    if n.chance(0.2):
        given = {"kernel_params": [0.0] * 3, "kernel_type": "LINEAR", "rho": _numbers(n, 1)}
        given["coefficients"] = _numbers(n, x.shape[1])
    given |= {"one_class": 1} if n.chance(0.2) else {}
    _add(n, "SVMRegressor", x, **given, **_transform(n))


@draws(f"{CLASSICAL}.LinearClassifier", styles=FLOAT)
def linear_classifier(n: Network) -> None:
    x, classes = real(n, 2), n.choice((2, 2, 3, 5))
    scores = 1 if classes == 2 else classes
    given = {"coefficients": _numbers(n, scores * x.shape[1]), "intercepts": _numbers(n, scores)}
    given |= {"multi_class": n.integer(0, 1)} if n.chance(0.3) else {}
    _add(n, "LinearClassifier", x, outputs=2, **given, **_labels(n, classes), **_transform(n))


@draws(f"{CLASSICAL}.LinearRegressor", styles=FLOAT)
def linear_regressor(n: Network) -> None:
    x, targets = real(n, 2), n.choice((1, 1, 3))
    given: dict[str, Any] = {"coefficients": _numbers(n, targets * x.shape[1])}
    given |= {"intercepts": _numbers(n, targets)} if n.chance(0.7) else {}
    given |= {"targets": targets} if targets > 1 or n.chance(0.4) else {}
    _add(n, "LinearRegressor", x, **given, **_transform(n))


def _trees(n: Network, features: int, prefix: str, results: list[int]) -> dict[str, Any]:
    """Attributes of up to four trees of up to four levels; each leaf has a weight of every result."""
    if n.classical > 3:
        raise Unfit("TreeEnsemble took their place")
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    columns["missing_value_tracks_true"] = []
    weights: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    mode = n.choice(("LEQ", "LT", "GTE", "GT"))
    sign = n.choice((1, -1))

    def grow(tree: int, depth: int) -> int:
        number, row = columns["treeids"].count(tree), len(columns["treeids"])
        inner = depth == 0 or (depth < 4 and n.chance(0.6))
        feature, value = n.integer(0, features - 1), float(np.float32(n.random.uniform(-2, 2)))
        kind = f"BRANCH_{mode if n.chance(0.9) else 'LT'}" if inner else "LEAF"
        for name, one in zip(
            columns, (tree, number, feature, value, kind, 0, 0, n.integer(0, 1)), strict=True
        ):
            columns[name].append(one)
        if inner:
            for end in ("truenodeids", "falsenodeids"):
                columns[end][row] = grow(tree, depth + 1)
        else:
            for result in results:
                given = (tree, number, result, sign * float(np.float32(n.random.uniform(0.1, 1))))
                for name, one in zip(weights, given, strict=True):
                    weights[name].append(one)
        return number

    for tree in range(n.integer(1, 4)):
        grow(tree, 0)
    if n.chance(0.5):
        del columns["missing_value_tracks_true"]
    found = {f"nodes_{name}": column for name, column in columns.items()}
    found |= {"nodes_hitrates": [1.0] * len(columns["treeids"])} if n.chance(0.3) else {}
    return found | {f"{prefix}_{name}": column for name, column in weights.items()}


@draws(f"{CLASSICAL}.TreeEnsembleClassifier", styles=FLOAT)
def tree_ensemble_classifier(n: Network) -> None:
    x, classes = real(n, 2), n.choice((2, 3, 4))
    given = _trees(n, x.shape[1], "class", list(range(classes)) if classes > 2 else [0])
    given |= {"base_values": _numbers(n, classes)} if classes > 2 and n.chance(0.4) else {}
    _add(
        n, "TreeEnsembleClassifier", x, outputs=2,
        **given, **_labels(n, classes, "classlabels_int64s"), **_transform(n),
    )  # fmt: skip


@draws(f"{CLASSICAL}.TreeEnsembleRegressor", styles=FLOAT)
def tree_ensemble_regressor(n: Network) -> None:
    x, targets = real(n, 2), n.choice((1, 1, 2))
    given = _trees(n, x.shape[1], "target", list(range(targets))) | {"n_targets": targets}
    given |= {"base_values": _numbers(n, targets)} if n.chance(0.4) else {}
    if n.chance(0.6):
        given["aggregate_function"] = n.choice(("SUM", "AVERAGE", "MIN", "MAX"))
    _add(n, "TreeEnsembleRegressor", x, **given, **_transform(n))


@draws(f"{CLASSICAL}.Scaler", styles=FLOAT)
def scaler(n: Network) -> None:
    x = real(n, 2)
    count = n.choice((1, x.shape[1]))
    _add(n, "Scaler", x, offset=_numbers(n, count), scale=[0.5 + abs(v) for v in _numbers(n, count)])


@draws(f"{CLASSICAL}.Normalizer", styles=FLOAT)
def normalizer(n: Network) -> None:
    _add(n, "Normalizer", real(n, 2), **({"norm": n.choice(("MAX", "L1", "L2"))} if n.chance(0.8) else {}))


@draws(f"{CLASSICAL}.Imputer", styles=FLOAT)
def imputer(n: Network) -> None:
    if n.chance(0.3):
        x = n.fresh((1, n.integer(2, 9)), "int64")
        values = {
            "imputed_value_int64s": [int(v) for v in n.random.integers(-90, 90, n.choice((1, x.shape[1])))]
        }
        _add(
            n, "Imputer", x, **values, **({"replaced_value_int64": n.integer(-3, 3)} if n.chance(0.7) else {})
        )
        return
    x = n.input((n.random.integers(-3, 4, (n.integer(1, 4), n.integer(2, 9))) / 2).astype(np.float32))
    given: dict[str, Any] = {"imputed_value_floats": _numbers(n, n.choice((1, x.shape[1])))}
    _add(
        n, "Imputer", x, **given, **({"replaced_value_float": n.integer(-2, 2) / 2} if n.chance(0.7) else {})
    )


@draws(f"{CLASSICAL}.Binarizer", styles=FLOAT)
def binarizer(n: Network) -> None:
    given = {"threshold": float(np.float32(n.random.uniform(-1, 1)))} if n.chance(0.7) else {}
    _add(n, "Binarizer", real(n, 2), **given)


@draws(f"{CLASSICAL}.ArrayFeatureExtractor", styles=FLOAT)
def array_feature_extractor(n: Network) -> None:
    x = real(n, 1, 2, 3)
    places = n.constant(n.random.integers(0, x.shape[-1], n.integer(1, 5)))
    _add(n, "ArrayFeatureExtractor", x, places)


@draws(f"{CLASSICAL}.FeatureVectorizer", styles=FLOAT)
def feature_vectorizer(n: Network) -> None:
    x = real(n, 2)
    second = n.fresh((x.shape[0], n.integer(1, 4)))
    _add(n, "FeatureVectorizer", x, second, inputdimensions=[x.shape[1], second.shape[1]])


@draws(f"{CLASSICAL}.OneHotEncoder", styles=FLOAT)
def one_hot_encoder(n: Network) -> None:
    """Categories of whole numbers, of which the input has others, too; real numbers are cut."""
    values = n.random.integers(-6, 7, n.shape(2))
    x = n.input((values / 2).astype(np.float32) if n.chance(0.4) else values)
    categories = n.random.permutation(np.arange(-6, 7)).tolist()
    given = {"zeros": 0} if n.chance(0.3) else {}  # ONNX Runtime then refuses others at the run
    _add(n, "OneHotEncoder", x, cats_int64s=categories if given else categories[: n.integer(1, 8)], **given)


@draws(f"{CLASSICAL}.LabelEncoder", styles=FLOAT)
def label_encoder(n: Network) -> None:
    """Half of the elements are keys; values and the default one are of one type."""
    real_keys, real_values = n.chance(0.4), n.chance(0.5)
    x = n.input((n.random.integers(-6, 7, n.shape(2)) / (2 if real_keys else 1)).astype(
        np.float32 if real_keys else np.int64
    ))  # fmt: skip
    keys = n.random.permutation(np.arange(-6, 7))[: n.integer(1, 8)]
    values = (
        _numbers(n, keys.size, 2.0)
        if real_values
        else [int(v) for v in n.random.integers(-300, 300, keys.size)]
    )
    name = "floats" if real_values else "int64s"
    given: dict[str, Any] = {f"values_{name}": values}
    given |= {"keys_floats": [float(k) / 2 for k in keys]} if real_keys else {"keys_int64s": keys.tolist()}
    if n.chance(0.5):
        given |= {"default_float": 1.25} if real_values else {"default_int64": 77}
    _add(n, "LabelEncoder", x, **given)


@draws(f"{CLASSICAL}.TreeEnsemble", styles=FLOAT)
def tree_ensemble(n: Network) -> None:
    """Trees of one or three nodes, whose leaves are listed apart; members are whole numbers, as of classes."""
    if n.classical < 5:
        raise Unfit("TreeEnsemble in version 3")
    x = n.input(n.random.integers(-5, 6, n.shape(2)).astype(np.float32))
    mode = n.choice((0, 1, 2, 3, 4, 5, 6))
    count, targets = 3 * n.integer(1, 3), n.choice((1, 2))
    rows = np.arange(count).reshape(-1, 3)
    true, false = np.zeros((2, count), np.int64)
    true[rows[:, 0]], false[rows[:, 0]] = rows[:, 1], rows[:, 2]
    leaf = (np.arange(count) % 3 > 0).astype(np.int64)
    true[leaf == 1] = np.arange(leaf.sum()) * 2
    false[leaf == 1] = true[leaf == 1] + 1
    modes = np.where(n.random.random(count) < 0.7, mode, 0).astype(np.uint8)
    sets = [
        [*n.random.choice(np.arange(-5, 6), 3, replace=False).tolist(), np.nan] for _ in modes[modes == 6]
    ]
    weights = n.random.uniform(0.1, 1, 2 * int(leaf.sum())).astype(np.float32)
    given: dict[str, Any] = {
        "tree_roots": rows[:, 0].tolist(), "nodes_featureids": n.random.integers(0, x.shape[1], count).tolist(),
        "nodes_modes": numpy_helper.from_array(modes),
        "nodes_splits": numpy_helper.from_array((n.random.integers(-4, 4, count) + 0.5).astype(np.float32)),
        "nodes_truenodeids": true.tolist(), "nodes_trueleafs": leaf.tolist(),
        "nodes_falsenodeids": false.tolist(), "nodes_falseleafs": leaf.tolist(),
        "leaf_targetids": [i % targets for i in range(weights.size)],
        "leaf_weights": numpy_helper.from_array(weights), "n_targets": targets,
    }  # fmt: skip
    if sets:
        given["membership_values"] = numpy_helper.from_array(np.array(sets, np.float32).reshape(-1))
    if n.chance(0.5):
        given["nodes_missing_value_tracks_true"] = n.random.integers(0, 2, count).tolist()
    if n.chance(0.3):
        given["nodes_hitrates"] = numpy_helper.from_array(np.ones(count, np.float32))
    given |= {"aggregate_function": n.choice((0, 1))} if n.chance(0.6) else {}
    given |= {"post_transform": n.choice((0, 3))} if n.chance(0.4) else {}
    _add(n, "TreeEnsemble", x, **given)
