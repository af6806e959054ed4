# SPDX-License-Identifier: Apache-2.0
"""Support vector machines as operators: decision values, votes of pairs of classes, coupled probabilities."""

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
