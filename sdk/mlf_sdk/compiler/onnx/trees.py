# SPDX-License-Identifier: Apache-2.0
"""TreeEnsembleClassifier and TreeEnsembleRegressor as one operator, and standard nodes behind it.

Trees are checked and put in preorder.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.classical import Aggregate, Condition, TreeEnsemble
from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.steps import Steps
from mlf_sdk.compiler.operators import Array

_CONDITIONS: Final = {f"BRANCH_{c.name}": number for number, c in enumerate(Condition)}
_MAX_WEIGHTS: Final = 1 << 24
LEAF: Final = -1
_MEMBER: Final = list(Condition).index(Condition.MEMBER)


class Forest:
    """Nodes of all trees as the attributes describe them.

    Raises:
        UnsupportedError: they are no trees over the features.
    """

    def __init__(self, steps: Steps, features: int) -> None:
        self.steps = steps
        trees, ids = self._whole("nodes_treeids"), self._whole("nodes_nodeids")
        self.count = len(trees)
        names = [
            n.decode("ascii", "replace") if isinstance(n, bytes) else str(n)
            for n in steps.node.attribute("nodes_modes", ())
        ]
        self._same("nodes_nodeids", len(ids))
        self._same("nodes_modes", len(names))
        unknown = sorted({*names} - {*_CONDITIONS, "LEAF"})
        if unknown:
            refuse(f"the mode {unknown[0][:40]} of a node is not known")
        self.kinds = np.array([_CONDITIONS.get(name, LEAF) for name in names], np.int64)
        self.places = {key: place for place, key in enumerate(zip(trees, ids, strict=True))}
        if len(self.places) != self.count or not self.count:
            refuse("there are no nodes" if not self.count else "two nodes have the same number")
        self.trees = trees
        self.features = np.array(self._sized("nodes_featureids"), np.int64)
        inner = self.kinds != LEAF
        if ((self.features < 0) | (self.features >= features))[inner].any():
            refuse(f"a node asks for a feature outside of {features}")
        values = steps.numbers("nodes_values")
        self._same("nodes_values", values.size)
        self.values = values
        self.members = np.asarray(steps.node.attribute("membership_values", ()), np.float32).reshape(-1)
        self._check_sets()
        missing = steps.node.attribute("nodes_missing_value_tracks_true", ())
        if len(missing):
            self._same("nodes_missing_value_tracks_true", len(missing))
        self.missing = np.array([bool(m) for m in missing] or [False] * self.count)
        self.children = self._children()

    def _whole(self, name: str) -> list[int]:
        return [int(v) for v in self.steps.node.attribute(name, ())]

    def _sized(self, name: str) -> list[int]:
        result = self._whole(name)
        self._same(name, len(result))
        return result

    def _same(self, name: str, size: int) -> None:
        if size != self.count:
            refuse(f"{self.count} nodes, and {size} elements in the attribute {name}")

    def _check_sets(self) -> None:
        """Refuse nodes that ask for a set which isn't there."""
        for start in self.values[self.kinds == _MEMBER]:
            inside = float(start).is_integer() and 0 <= start < self.members.size
            size = self.members[int(start)] if inside else -1
            if not (size >= 0 and float(size).is_integer() and start + size < self.members.size):
                refuse("a node asks for a set of members that isn't there")

    def _children(self) -> list[tuple[int, int]]:
        """Nodes that follow each, where its condition holds and where not; of a leaf its own place."""
        ends = zip(self._sized("nodes_truenodeids"), self._sized("nodes_falsenodeids"), strict=True)
        result = []
        for place, (tree, pair) in enumerate(zip(self.trees, ends, strict=True)):
            if self.kinds[place] == LEAF:
                result.append((place, place))
                continue
            both = [self.places.get((tree, child), LEAF) for child in pair]
            if LEAF in both:
                refuse(f"a node of tree {tree} is followed by one that isn't there")
            result.append((both[0], both[1]))
        return result

    def preorder(self) -> tuple[list[int], list[int]]:
        """Nodes of all trees in preorder, and the roots."""
        below = {c for place, pair in enumerate(self.children) for c in pair if c != place}
        roots = [place for place in range(self.count) if place not in below]
        if len({self.trees[r] for r in roots}) != len(roots) or len(roots) != len({*self.trees}):
            refuse("a tree doesn't have one root")
        order, seen = [], set()
        waiting = roots[::-1]
        while waiting:
            place = waiting.pop()
            if place in seen:
                refuse(f"a node of tree {self.trees[place]} follows two nodes, or itself")
            seen.add(place)
            order.append(place)
            if self.kinds[place] != LEAF:
                waiting += self.children[place][::-1]
        if len(order) != self.count:
            refuse("the nodes of a tree form a cycle")
        return order, roots

    def weights(self, prefix: str, targets: int, neutral: float) -> tuple[Array, Array]:
        """Weights (nodes of the file, targets), and whether a leaf has one."""
        trees, nodes, ids = (self._whole(f"{prefix}_{n}") for n in ("treeids", "nodeids", "ids"))
        values = self.steps.numbers(f"{prefix}_weights")
        if not len(trees) == len(nodes) == len(ids) == values.size:
            refuse(f"the attributes {prefix}_treeids, _nodeids, _ids and _weights differ in their lengths")
        if targets < 1 or any(not 0 <= i < targets for i in ids):
            refuse(f"a weight is for a result outside of {targets}")
        if self.count * targets > _MAX_WEIGHTS:
            refuse(f"{self.count} nodes with {targets} results are more than is supported")
        result = np.full((self.count, targets), neutral, np.float32)
        has = np.zeros(result.shape, np.bool_)
        for tree, node, number, value in zip(trees, nodes, ids, values, strict=True):
            place = self.places.get((tree, node), LEAF)
            if place == LEAF or self.kinds[place] != LEAF:
                refuse(f"a weight is for node {node} of tree {tree}, which is no leaf")
            if has[place, number]:
                refuse(f"node {node} of tree {tree} has two weights for one result")
            result[place, number], has[place, number] = value, True
        return result, has


def always_scored(forest: Forest, has: Array) -> bool:
    """True where every result gets a weight whatever the features are."""
    leaves = forest.kinds == LEAF
    trees = np.unique(np.array(forest.trees), return_inverse=True)[1]
    lacking = np.zeros((trees.max() + 1, has.shape[1]), np.bool_)
    np.logical_or.at(lacking, trees[leaves], ~has[leaves])
    return bool((~lacking).any(axis=0).all())


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
    source = steps.node.input()
    shape = (source.shape[0], weights.shape[1])
    result = steps.emit(
        TreeEnsemble, steps.context.value(source), shape, FLOAT32,
        feature=np.where(leaf, -1, forest.features[order]),
        threshold=forest.values[order],
        condition=np.maximum(forest.kinds[order], 0),
        missing=forest.missing[order],
        otherwise=np.where(leaf, rows, false),
        roots=np.array([place[root] for root in roots], np.int64),
        weights=weights[order][leaf],
        members=forest.members,
        aggregate=aggregate,
    )  # fmt: skip
    return result.name
