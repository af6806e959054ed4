# SPDX-License-Identifier: Apache-2.0
"""Operators of the domain ``ai.onnx.ml`` as standard nodes; ONNX Runtime's results are what is meant.

A device has no strings: a label that is one becomes the place of its class, as int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx import encoder, ensemble, qonnx, svm, trees
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.raw import RawNode
from mlf_sdk.compiler.onnx.steps import Steps

DOMAIN: Final = "ai.onnx.ml."


def expand_operator(context: Context, raw: RawNode) -> Sequence[RawNode] | None:
    """Nodes that stand for an operator of this domain or of QONNX; None for any other one.

    Raises:
        UnsupportedError: its attributes don't fit each other or its input.
    """
    expand = EXPANSIONS.get(raw.kind) or qonnx.EXPANSIONS.get(raw.kind)
    if expand is None:
        return None
    steps = Steps(context, raw)
    expand(steps)
    context.replace_reader(raw, steps.nodes)
    return steps.nodes


def _scaler(steps: Steps) -> None:
    x, features = steps.real(), steps.node.input().shape[-1]
    offset, scale = steps.numbers("offset"), steps.numbers("scale")
    if offset.size != scale.size or scale.size not in (1, features):
        refuse(f"{offset.size} offsets and {scale.size} scales of {features} features")
    moved = steps.add("Sub", x, steps.constant(offset))
    steps.add("Mul", moved, steps.constant(scale), output=steps.raw.outputs[0])


_LENGTHS: Final = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}


def _normalizer(steps: Steps) -> None:
    x, kind = steps.real(), steps.node.attribute("norm", "MAX")
    if kind not in _LENGTHS:
        refuse(f"the norm {kind} is not known")
    length = steps.add(_LENGTHS[kind], x, axes=[-1], keepdims=1)
    empty = steps.add("Equal", length, steps.constant(0))
    length = steps.add("Where", empty, steps.constant(1), length)
    steps.add("Div", x, length, output=steps.raw.outputs[0])


def _products(steps: Steps, count: int) -> str:
    """Scores (n, count) of a linear model."""
    x, features = steps.rows()
    weights = steps.numbers("coefficients")
    if count < 1 or weights.size != count * features:
        refuse(f"{weights.size} coefficients for {count} results of {features} features")
    scores = steps.add("MatMul", x, steps.constant(weights.reshape(count, features).T))
    added = steps.numbers("intercepts", default=())
    if added.size not in (0, count):
        refuse(f"{added.size} intercepts for {count} results")
    return steps.add("Add", scores, steps.constant(added)) if added.size else scores


def _linear_regressor(steps: Steps) -> None:
    count = int(steps.node.attribute("targets", 1))
    steps.transformed(_products(steps, count), count)


def _linear_classifier(steps: Steps) -> None:
    count = steps.numbers("intercepts").size
    labels = steps.labels("classlabels_ints", "classlabels_strings")
    scores = _products(steps, count)
    if count == 1 and labels.size == 2:
        if steps.wants(1):
            steps.two_classes(scores, complement=True)
        steps.above(scores, 0.0, labels)
        return
    if labels.size != count or count < 2:
        refuse(f"{labels.size} classes and {count} intercepts")
    if steps.wants(1):
        steps.transformed(scores, count)
    steps.largest(scores, labels)


def _zip_map(steps: Steps) -> None:
    """Probabilities in the order of the classes: a device has no dictionaries."""
    steps.add("Identity", steps.raw.inputs[0], output=steps.raw.outputs[0])


def _imputer(steps: Steps) -> None:
    x, name = steps.node.input(), steps.raw.inputs[0]
    if x.dtype.kind == "f":
        new = steps.numbers("imputed_value_floats")
        old = float(steps.node.attribute("replaced_value_float", 0))
    elif x.dtype == np.int64:
        new = np.asarray(steps.node.integers("imputed_value_int64s"), np.int64)
        old = int(steps.node.attribute("replaced_value_int64", 0))
    else:
        refuse(f"reads {x.dtype}; float and int64 are supported")
    if new.size not in (1, x.shape[-1]):
        refuse(f"{new.size} values for {x.shape[-1]} features")
    kind = new.dtype.type
    missing = (
        steps.add("IsNaN", name) if math.isnan(old) else steps.add("Equal", name, steps.constant(old, kind))
    )
    steps.add("Where", missing, steps.constant(new, kind), name, output=steps.raw.outputs[0])


def _binarizer(steps: Steps) -> None:
    limit = steps.constant(float(steps.node.attribute("threshold", 0.0)))
    steps.add("Cast", steps.add("Greater", steps.real(), limit), output=steps.raw.outputs[0], to=1)


def _array_feature_extractor(steps: Steps) -> None:
    x, places = steps.node.input(), steps.node.input(1)
    name, wanted = steps.raw.inputs[:2]
    if places.dtype != np.int64 or not places.elements or x.rank < 1:
        refuse(f"places {places.dtype} {places.shape} of features {x.shape}")
    known = places.known
    if known is not None and (known.min() < 0 or known.max() >= x.shape[-1]):
        refuse(f"places {known.reshape(-1)[:8].tolist()} of {x.shape[-1]} features")
    if x.rank == 1:
        name = steps.add("Reshape", name, steps.constant((1, *x.shape), np.int64))
    wanted = steps.add("Reshape", wanted, steps.constant((-1,), np.int64))
    steps.add("Gather", name, wanted, output=steps.raw.outputs[0], axis=-1)


def _feature_vectorizer(steps: Steps) -> None:
    sizes = steps.node.integers("inputdimensions")
    if len(sizes) != len(steps.raw.inputs):
        refuse(f"{len(sizes)} extents of {len(steps.raw.inputs)} inputs")
    parts = []
    for position, size in enumerate(sizes):
        x = steps.node.input(position)
        rows = x.shape[0] if x.rank > 1 else 1
        if not x.rank or x.elements != rows * size:
            refuse(f"input {position} has the shape {x.shape}; rows of {size} features are stated")
        parts.append(steps.add("Reshape", steps.real(position), steps.constant((rows, size), np.int64)))
    steps.add("Concat", *parts, output=steps.raw.outputs[0], axis=1)


EXPANSIONS: Final[dict[str, Callable[[Steps], None]]] = {
    DOMAIN + "ArrayFeatureExtractor": _array_feature_extractor,
    DOMAIN + "Binarizer": _binarizer,
    DOMAIN + "FeatureVectorizer": _feature_vectorizer,
    DOMAIN + "Imputer": _imputer,
    DOMAIN + "LabelEncoder": encoder.label_encoder,
    DOMAIN + "LinearClassifier": _linear_classifier,
    DOMAIN + "LinearRegressor": _linear_regressor,
    DOMAIN + "Normalizer": _normalizer,
    DOMAIN + "OneHotEncoder": encoder.one_hot_encoder,
    DOMAIN + "Scaler": _scaler,
    DOMAIN + "SVMClassifier": svm.svm_classifier,
    DOMAIN + "SVMRegressor": svm.svm_regressor,
    DOMAIN + "TreeEnsemble": ensemble.tree_ensemble,
    DOMAIN + "TreeEnsembleClassifier": trees.tree_ensemble_classifier,
    DOMAIN + "TreeEnsembleRegressor": trees.tree_ensemble_regressor,
    DOMAIN + "ZipMap": _zip_map,
}
