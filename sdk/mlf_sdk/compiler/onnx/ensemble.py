# SPDX-License-Identifier: Apache-2.0
"""TreeEnsemble, which states leaves apart from nodes, as the regressor of the former versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
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
    targets, weights = _whole(steps, "leaf_targetids"), steps.numbers("leaf_weights")
    if targets.size != weights.size:
        refuse(f"{targets.size} targets of {weights.size} leaves")
    nodes = _Nodes(steps, targets.size)
    pairs = [
        (tree, number)
        for tree, root in enumerate(steps.node.integers("tree_roots"))
        for number in nodes.reached(tree, root)
    ]
    trees, ids = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    at, leaf = np.minimum(ids, nodes.count - 1), ids >= nodes.count
    columns: dict[str, Any] = {
        "treeids": trees,
        "nodeids": ids,
        "featureids": np.where(leaf, 0, nodes.features[at]),
        "values": np.where(leaf, 0, nodes.splits[at]),
        "modes": [
            "LEAF" if is_leaf else _MODES[mode] for is_leaf, mode in zip(leaf, nodes.modes[at], strict=True)
        ],
        "truenodeids": np.where(leaf, 0, nodes.ends[at, 0]),
        "falsenodeids": np.where(leaf, 0, nodes.ends[at, 1]),
        "missing_value_tracks_true": np.where(leaf, 0, nodes.missing[at]),
    }
    leaves = ids[leaf] - nodes.count
    attributes: dict[str, Any] = {f"nodes_{name}": list(column) for name, column in columns.items()}
    attributes |= {
        "target_treeids": trees[leaf].tolist(), "target_nodeids": ids[leaf].tolist(),
        "target_ids": targets[leaves].tolist(), "target_weights": weights[leaves],
        "n_targets": steps.node.attribute("n_targets", 1),
        "aggregate_function": _AGGREGATES[aggregate], "post_transform": _TRANSFORMS[transform],
        "membership_values": nodes.members,
    }  # fmt: skip
    kind = "ai.onnx.ml.TreeEnsembleRegressor"
    steps.nodes.append(dataclasses.replace(steps.raw, kind=kind, attributes=attributes, proto=None))


def _whole(steps: Steps, name: str, default: Any = None) -> Array:  # noqa: ANN401 - an attribute
    """Whole numbers of an attribute."""
    attribute = steps.node.attribute(name, default)
    if attribute is None:
        refuse(f"the attribute {name} is missing")
    return np.asarray(attribute).reshape(-1).astype(np.int64)


class _Nodes:
    """Attributes of all nodes; leaves are numbered behind them.

    Attributes:
        ends: numbers that follow each node, where its condition holds and where not; shape (nodes, 2).
        splits: limits that features are compared with; of a node that asks for a set, the set's place.
        members: the sets that nodes ask for, each behind its size.
    """

    def __init__(self, steps: Steps, leaves: int) -> None:
        self.features = _whole(steps, "nodes_featureids")
        self.count = self.features.size
        names = ("modes", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
        self.modes, true, false, true_leaf, false_leaf = (_whole(steps, f"nodes_{name}") for name in names)
        self.splits = steps.numbers("nodes_splits").copy()
        self.missing = _whole(steps, "nodes_missing_value_tracks_true", [0] * self.count)
        arrays = (self.modes, true, false, true_leaf, false_leaf, self.splits, self.missing)
        sizes = {a.size for a in arrays}
        if sizes != {self.count} or not self.count:
            refuse(f"{self.count} nodes, and attributes of {sorted(sizes)} elements")
        if ((self.modes < 0) | (self.modes >= len(_MODES))).any():
            refuse("the mode of a node is not known")
        ends, is_leaf = np.stack([true, false], axis=1), np.stack([true_leaf, false_leaf], axis=1) != 0
        wrong = (ends < 0) | (ends >= np.where(is_leaf, leaves, self.count))
        if wrong.any():
            refuse(f"a node is followed by a node or leaf that isn't there: {ends[wrong][0]}")
        ends = ends + np.where(is_leaf, self.count, 0)
        # A node whose ends are the same leaf stands for that leaf: a tree of nothing else is stated so.
        self.alone = np.arange(self.count + leaves)
        same = (ends[:, 0] == ends[:, 1]) & is_leaf[:, 0]
        self.alone[: self.count][same] = ends[same, 0]
        self.ends = self.alone[ends]
        self.members = self._sets(steps)

    def _sets(self, steps: Steps) -> Array:
        """Sets behind each other, which NaN ends in the file; the split of a node becomes its set's place."""
        values = np.asarray(steps.node.attribute("membership_values", ()), np.float32).reshape(-1)
        parts = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
        asking = np.flatnonzero(self.modes == len(_MODES) - 1)
        if len([p for p in parts if p.size]) != asking.size or (values.size and not np.isnan(values[-1])):
            refuse(f"{len(parts) - 1} sets of members for {asking.size} nodes")
        result: list[float] = []
        for node, part in zip(asking, parts, strict=False):
            self.splits[node] = len(result)
            result += [part.size - 1, *part[:-1].tolist()]
        return np.array(result, np.float32)

    def reached(self, tree: int, root: int) -> Iterator[int]:
        """Numbers of a tree's nodes and leaves from its root on."""
        if not 0 <= root < self.count:
            refuse(f"the root of tree {tree} isn't there: {root}")
        waiting, seen = [int(self.alone[root])], 0
        while waiting:
            number, seen = waiting.pop(), seen + 1
            if seen > 2 * self.count + 1:
                refuse(f"the nodes of tree {tree} form a cycle, or follow two nodes")
            yield number
            if number < self.count:
                waiting += self.ends[number, ::-1].tolist()
