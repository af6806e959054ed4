# SPDX-License-Identifier: Apache-2.0
"""Trees of TreeEnsembleClassifier and TreeEnsembleRegressor, checked and put in preorder."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.classical import Condition
from mlf_sdk.compiler.graph import refuse
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
