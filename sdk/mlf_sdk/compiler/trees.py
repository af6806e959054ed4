# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees as an operator."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mlf_sdk.compiler.operators import Array, Operator


class Condition(enum.Enum):
    """Comparison of a feature with the threshold of a node; the value is C's operator."""

    LEQ = "<="
    LT = "<"
    GTE = ">="
    GT = ">"
    EQ = "=="
    NEQ = "!="
    MEMBER = "in"  # of a set: the threshold is its place in `TreeEnsemble.members`


class Aggregate(enum.Enum):
    """Function of what the trees give."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEnsemble(Operator):
    """Scores (n, targets) of rows of features (n, features): an aggregate of one leaf of every tree.

    Nodes lie in preorder: where the condition of one holds, the next node follows.

    Attributes:
        feature: of each node; -1 of a leaf.
        threshold: of each node.
        condition: of each node, its place in `Condition`.
        missing: of each node, true where NaN counts as the condition.
        otherwise: of each node, the one that follows where the condition doesn't hold; of a leaf, its row of
            the weights.
        roots: first node of each tree.
        members: sets of numbers, each behind its size.
        weights: (leaves, targets); a target that a leaf doesn't have is the aggregate's neutral element.
    """

    feature: Array = field(repr=False, compare=False)
    threshold: Array = field(repr=False, compare=False)
    condition: Array = field(repr=False, compare=False)
    missing: Array = field(repr=False, compare=False)
    otherwise: Array = field(repr=False, compare=False)
    roots: Array = field(repr=False, compare=False)
    weights: Array = field(repr=False, compare=False)
    members: Array = field(repr=False, compare=False)
    aggregate: Aggregate = Aggregate.SUM
