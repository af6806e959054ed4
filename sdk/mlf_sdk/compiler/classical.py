# SPDX-License-Identifier: Apache-2.0
"""Classical models as operators: support vector machines (values, votes, coupled probabilities), trees."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mlf_sdk.compiler.operators import Array, Operator


class SvmKernel(enum.Enum):
    """Kernel function of a row x and a support vector s; ``LINEAR`` needs none: it is a matrix product."""

    POLY = "poly"  # (gamma * (x . s) + offset) ** degree
    RBF = "rbf"  # exp(-gamma * |x - s| ** 2)
    SIGMOID = "sigmoid"  # tanh(gamma * (x . s) + offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportVectors(Operator):
    """Decision values (n, values) of rows (n, features): weighted sums of kernel functions, plus a bias.

    Attributes:
        gamma, offset, degree: of the kernel function.
        vectors: (vectors, features), those of each class behind each other.
        counts: vectors of each class.
        coefficients: (vectors, r), factors of a vector's kernel function in r decision values.
        places: (classes, r), the decision values that the vectors of a class add to.
        bias: (values,).
    """

    kernel: SvmKernel
    gamma: float
    offset: float
    degree: float
    vectors: Array = field(repr=False, compare=False)
    counts: tuple[int, ...]
    coefficients: Array = field(repr=False, compare=False)
    places: Array = field(repr=False, compare=False)
    bias: Array = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVotes(Operator):
    """Class (n,) with the most votes, of equal ones the first; each decision value (n, pairs) is a vote.

    Pairs are (0, 1), (0, 2)... (1, 2)...; the first class of a pair gets the vote where the value is above 0.
    """

    classes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCoupling(Operator):
    """Probabilities (n, classes) that fit best to those of all pairs, by decision values (n, pairs).

    The first class of a pair has 1 / (1 + exp(a * value + b)) (Platt), between 1e-7 and 1 - 1e-7. All classes
    together are coupled as libsvm does it (the second method of Wu, Lin and Weng), in at most
    `MAX_SWEEPS` sweeps.

    Attributes:
        a, b: (pairs,).
    """

    classes: int
    a: Array = field(repr=False, compare=False)
    b: Array = field(repr=False, compare=False)


LEAST_PROBABILITY = 1e-7
MAX_SWEEPS = 100


def least_change(classes: int) -> float:
    """Limit of the residues of a coupling: it ends below it."""
    return 0.005 / classes


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
