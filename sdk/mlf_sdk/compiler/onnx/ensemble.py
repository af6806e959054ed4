# SPDX-License-Identifier: Apache-2.0
"""TreeEnsemble, which states leaves apart from nodes, as the regressor of the former versions."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.classical import Condition
from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.steps import Steps
from mlf_sdk.compiler.operators import Array

_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS: Final = {0: "NONE", 3: "SOFTMAX_ZERO", 4: "PROBIT"}
_MODES: Final = tuple(f"BRANCH_{condition.name}" for condition in Condition)


def tree_ensemble(steps: Steps) -> None:
    """TreeEnsemble: nodes and leaves of every tree from its root on, each leaf a node of its own."""
    aggregate = int(steps.node.attribute("aggregate_function", 1))
    transform = int(steps.node.attribute("post_transform", 0))
    if not 0 <= aggregate < len(_AGGREGATES):
        refuse(f"the aggregate {aggregate} is not known")
    if transform not in _TRANSFORMS:
        refuse(f"post_transform {transform}: ONNX and ONNX Runtime differ in its meaning; put it behind")
    nodes = _Nodes(steps)
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for tree, root in enumerate(steps.node.integers("tree_roots")):
        nodes.walk(tree, root, columns)
    targets, weights = nodes.whole("leaf_targetids"), nodes.reals("leaf_weights")
    if targets.size != weights.size:
        refuse(f"{targets.size} targets of {weights.size} leaves")
    leaves = [
        i - nodes.count
        for i, mode in zip(columns["nodeids"], columns["modes"], strict=True)
        if mode == "LEAF"
    ]
    if any(not 0 <= leaf < weights.size for leaf in leaves):
        refuse(f"a node is followed by a leaf outside of {weights.size}")
    leaf_trees = [t for t, mode in zip(columns["treeids"], columns["modes"], strict=True) if mode == "LEAF"]
    attributes: dict[str, Any] = {f"nodes_{name}": column for name, column in columns.items()}
    attributes |= {
        "target_treeids": leaf_trees, "target_nodeids": [leaf + nodes.count for leaf in leaves],
        "target_ids": targets[leaves].tolist(), "target_weights": weights[leaves],
        "n_targets": steps.node.attribute("n_targets", 1),
        "aggregate_function": _AGGREGATES[aggregate], "post_transform": _TRANSFORMS[transform],
        "membership_values": nodes.members,
    }  # fmt: skip
    kind = "ai.onnx.ml.TreeEnsembleRegressor"
    steps.nodes.append(dataclasses.replace(steps.raw, kind=kind, attributes=attributes, proto=None))


_COLUMNS: Final = (
    "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
    "missing_value_tracks_true",
)  # fmt: skip


class _Nodes:
    """Attributes of all nodes; ``members`` holds the sets that they ask for, each behind its size."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.features = self.whole("nodes_featureids")
        self.count = self.features.size
        names = (
            "nodes_modes",
            "nodes_truenodeids",
            "nodes_trueleafs",
            "nodes_falsenodeids",
            "nodes_falseleafs",
        )
        self.modes, self.true, self.true_leaf, self.false, self.false_leaf = map(self.whole, names)
        self.splits = self.reals("nodes_splits").copy()
        self.missing = self.whole("nodes_missing_value_tracks_true", [0] * self.count)
        sizes = {
            a.size for a in (self.modes, self.true, self.true_leaf, self.false, self.false_leaf, self.splits)
        }
        if sizes | {self.missing.size} != {self.count} or not self.count:
            refuse(f"{self.count} nodes, and attributes of {sorted(sizes)} elements")
        if ((self.modes < 0) | (self.modes >= len(_MODES))).any():
            refuse("the mode of a node is not known")
        self.members = self._sets()

    def whole(self, name: str, default: Any = None) -> Array:  # noqa: ANN401 - an attribute
        """Whole numbers of an attribute."""
        attribute = self.steps.node.attribute(name, default)
        if attribute is None:
            refuse(f"the attribute {name} is missing")
        return np.asarray(attribute).reshape(-1).astype(np.int64)

    def reals(self, name: str) -> Array:
        """Real numbers of an attribute."""
        return self.steps.numbers(name)

    def _sets(self) -> Array:
        """Sets behind each other, which NaN ends in the file; the split of a node becomes its set's place."""
        values = np.asarray(self.steps.node.attribute("membership_values", ()), np.float32).reshape(-1)
        parts = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
        asking = np.flatnonzero(self.modes == len(_MODES) - 1)
        if len([p for p in parts if p.size]) != asking.size or (values.size and not np.isnan(values[-1])):
            refuse(f"{len(parts) - 1} sets of members for {asking.size} nodes")
        result: list[float] = []
        for node, part in zip(asking, parts, strict=False):
            self.splits[node] = len(result)
            result += [part.size - 1, *part[:-1].tolist()]
        return np.array(result, np.float32)

    def walk(self, tree: int, root: int, columns: dict[str, list[Any]]) -> None:
        """Add the nodes of one tree to the columns; leaves are numbered behind the nodes."""
        if not 0 <= root < self.count:
            refuse(f"the root of tree {tree} isn't there: {root}")
        waiting, seen = [root], 0
        while waiting:
            number = waiting.pop()
            seen += 1
            if seen > 2 * self.count + 1:
                refuse(f"the nodes of tree {tree} form a cycle, or follow two nodes")
            if number < self.count:
                number = self._alone(number)
            if number >= self.count:
                row: tuple[Any, ...] = (tree, number, 0, 0.0, "LEAF", 0, 0, 0)
            else:
                ends = self._ends(number)
                row = (
                    tree, number, int(self.features[number]), float(self.splits[number]),
                    _MODES[self.modes[number]], *map(self._alone, ends), int(self.missing[number]),
                )  # fmt: skip
                waiting += ends[::-1]
            for name, one in zip(_COLUMNS, row, strict=True):
                columns[name].append(one)

    def _alone(self, number: int) -> int:
        """The leaf that a node stands for where both of its ends are the same one."""
        if not 0 <= number < self.count:
            return number
        ends = self._ends(number)
        return ends[0] if ends[0] == ends[1] and ends[0] >= self.count else number

    def _ends(self, number: int) -> list[int]:
        """Nodes that follow one; a leaf's number is behind those of the nodes."""
        if not 0 <= number < self.count:
            refuse(f"a node is followed by one that isn't there: {number}")
        pairs = ((self.true, self.true_leaf), (self.false, self.false_leaf))
        result = []
        for ids, leaf in pairs:
            one = int(ids[number])
            if one < 0 or (not leaf[number] and one >= self.count):
                refuse(f"a node is followed by one that isn't there: {one}")
            result.append(one + self.count if leaf[number] else one)
        return result
