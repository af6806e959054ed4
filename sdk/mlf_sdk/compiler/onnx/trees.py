# SPDX-License-Identifier: Apache-2.0
"""TreeEnsembleClassifier and TreeEnsembleRegressor as one operator, and standard nodes behind it."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.classical import Aggregate, TreeEnsemble
from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.forest import LEAF, Forest, always_scored
from mlf_sdk.compiler.onnx.steps import Steps
from mlf_sdk.compiler.operators import Array

_AGGREGATES: Final = {
    "SUM": Aggregate.SUM, "AVERAGE": Aggregate.SUM, "MIN": Aggregate.MIN, "MAX": Aggregate.MAX,
}  # fmt: skip
_NEUTRAL: Final = {Aggregate.SUM: 0.0, Aggregate.MIN: np.inf, Aggregate.MAX: -np.inf}


def tree_ensemble_regressor(steps: Steps) -> None:
    """TreeEnsembleRegressor."""
    if not steps.is_rows():
        return
    count = steps.node.integers("n_targets")[0]
    function = steps.node.attribute("aggregate_function", "SUM")
    if function not in _AGGREGATES:
        refuse(f"the aggregate {function} is not known")
    aggregate = _AGGREGATES[function]
    forest = Forest(steps, steps.node.input().shape[1])
    weights, has = forest.weights("target", count, _NEUTRAL[aggregate])
    always = always_scored(forest, has)
    if aggregate is not Aggregate.SUM and not always:
        refuse(f"the aggregate {function} of a result that no tree may give")
    if function == "AVERAGE":
        weights = weights / np.float32(len({*forest.trees}))
    scores = _based(steps, _ensemble(steps, forest, weights, aggregate), count, always=always)
    steps.transformed(scores, count)


def tree_ensemble_classifier(steps: Steps) -> None:
    """TreeEnsembleClassifier; of two classes with weights of one, both scores follow from that one's."""
    if not steps.is_rows():
        return
    labels = steps.labels("classlabels_int64s", "classlabels_strings")
    if labels.size < 2:
        refuse(f"{labels.size} classes; two or more are supported")
    forest = Forest(steps, steps.node.input().shape[1])
    weights, has = forest.weights("class", labels.size, 0.0)
    if labels.size == 2:
        _two_classes(steps, forest, weights, has, labels)
        return
    always = always_scored(forest, has)
    if not always and (weights < 0).any():
        refuse("weights below 0 where a class may get none: its score of 0 is not defined")
    scores = _based(steps, _ensemble(steps, forest, weights, Aggregate.SUM), labels.size, always=always)
    if steps.wants(1):
        steps.transformed(scores, labels.size)
    steps.largest(scores, labels)


def _two_classes(steps: Steps, forest: Forest, weights: Array, has: Array, labels: Array) -> None:
    """Scores and label of two classes; those with weights of both are ambiguous in the standard."""
    given = np.flatnonzero(has.any(axis=0))
    if given.size != 1:
        refuse("of two classes, trees must have weights of one; ONNX doesn't say what weights of both mean")
    column = int(given[0])
    positive = not (weights < 0).any()
    scores = _ensemble(steps, forest, weights[:, column : column + 1], Aggregate.SUM)
    always = always_scored(forest, has[:, column : column + 1])
    if column == 1:
        if len(steps.node.attribute("base_values", ())) or not always:
            refuse("base values, or leaves without a weight, where the weights are of the second class alone")
        if steps.wants(1):
            zero = steps.add("Mul", scores, steps.constant(0))
            steps.transformed(steps.add("Concat", zero, scores, axis=1), 2)
    else:
        scores = _based(steps, scores, 1, always=always)
        if steps.wants(1):
            steps.two_classes(scores, complement=positive)
    steps.above(scores, 0.5 if positive else 0.0, labels)


def _based(steps: Steps, scores: str, count: int, *, always: bool) -> str:
    """Scores with the base values added."""
    base = steps.numbers("base_values", default=())
    if base.size not in (0, count):
        refuse(f"{base.size} base values for {count} results")
    if not base.size:
        return scores
    if not always and base.any():
        refuse("base values of a result that no tree may give")
    return steps.add("Add", scores, steps.constant(base))


def _ensemble(steps: Steps, forest: Forest, weights: Array, aggregate: Aggregate) -> str:
    """Add the operator; the name of its scores."""
    order, roots = forest.preorder()
    place = {node: number for number, node in enumerate(order)}
    leaf = forest.kinds[order] == LEAF
    rows = np.cumsum(leaf) - 1
    false = np.array([place[forest.children[node][1]] for node in order], np.int64)
    context = steps.context
    source = steps.node.input()
    value = context.value(source)
    name = steps.name()
    _, y = context.output(name, FLOAT32, (source.shape[0], weights.shape[1]))
    context.emit(
        TreeEnsemble(
            **context.common(steps.kind, [value], y),
            feature=np.where(leaf, -1, forest.features[order]),
            threshold=forest.values[order],
            condition=np.maximum(forest.kinds[order], 0),
            missing=forest.missing[order],
            otherwise=np.where(leaf, rows, false),
            roots=np.array([place[root] for root in roots], np.int64),
            weights=weights[order][leaf],
            members=forest.members,
            aggregate=aggregate,
        )
    )
    return name
