# SPDX-License-Identifier: Apache-2.0
"""References of support vector machines, in double precision, and of ensembles of decision trees."""

from __future__ import annotations

import itertools
import operator as functions
from typing import Final

import numpy as np

from mlf_sdk.compiler.classical import (
    LEAST_PROBABILITY,
    MAX_SWEEPS,
    Aggregate,
    PairCoupling,
    PairVotes,
    SupportVectors,
    SvmKernel,
    TreeEnsemble,
    least_change,
)
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reference import States, reference


@reference(SupportVectors)
def support_vectors(graph: Graph, operator: SupportVectors, inputs: list[Array], _: States) -> list[Array]:
    """Kernel functions of one row at a time, then their sums."""
    rows, vectors = inputs[0].astype(np.float64), operator.vectors.astype(np.float64)
    values = np.tile(operator.bias.astype(np.float64), (len(rows), 1))
    group = np.repeat(np.arange(len(operator.counts)), operator.counts)
    for row, result in zip(rows, values, strict=True):
        products = operator.coefficients * _kernel(operator, row, vectors)[:, np.newaxis]
        np.add.at(result, operator.places[group], products)
    return [values]


def _kernel(operator: SupportVectors, row: Array, vectors: Array) -> Array:
    """Kernel function of a row and all vectors."""
    if operator.kernel is SvmKernel.RBF:
        return np.asarray(np.exp(-operator.gamma * np.square(vectors - row).sum(axis=1)))
    inner = operator.gamma * (vectors @ row) + operator.offset
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(np.tanh(inner) if operator.kernel is SvmKernel.SIGMOID else inner**operator.degree)


@reference(PairVotes)
def pair_votes(graph: Graph, operator: PairVotes, inputs: list[Array], _: States) -> list[Array]:
    """Votes of all pairs, and the first largest number of them."""
    votes = np.zeros((len(inputs[0]), operator.classes), np.int64)
    for pair, (first, second) in enumerate(itertools.combinations(range(operator.classes), 2)):
        above = inputs[0][:, pair] > 0
        votes[:, first] += above
        votes[:, second] += ~above
    return [votes.argmax(axis=1)]


@reference(PairCoupling)
def pair_coupling(graph: Graph, operator: PairCoupling, inputs: list[Array], _: States) -> list[Array]:
    """One row after the other."""
    with np.errstate(over="ignore"):
        pairs = 1 / (1 + np.exp(inputs[0].astype(np.float64) * operator.a + operator.b))
    pairs = np.clip(pairs, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return [np.stack([_coupled(row, operator.classes) for row in pairs])]


def _coupled(pairs: Array, classes: int) -> Array:
    """Minimum of a quadratic form, one class after the other, until all residues are small."""
    form = np.zeros((classes, classes))
    for value, (i, j) in zip(pairs, itertools.combinations(range(classes), 2), strict=True):
        form[i, j] = form[j, i] = -value * (1 - value)
        form[i, i] += (1 - value) ** 2
        form[j, j] += value**2
    result = np.full(classes, 1 / classes)
    for _ in range(max(MAX_SWEEPS, classes)):
        products = form @ result
        total = result @ products
        if np.abs(products - total).max() < least_change(classes):
            break
        for i in range(classes):
            step = (total - products[i]) / form[i, i]
            result[i] += step
            total = (total + step * (step * form[i, i] + 2 * products[i])) / (1 + step) ** 2
            products = (products + step * form[i]) / (1 + step)
            result = result / (1 + step)
    return result


_CONDITIONS: Final = (
    functions.le, functions.lt, functions.ge, functions.gt, functions.eq, functions.ne,
)  # fmt: skip
_AGGREGATES: Final = {Aggregate.SUM: np.add, Aggregate.MIN: np.minimum, Aggregate.MAX: np.maximum}


def _holds(operator: TreeEnsemble, nodes: Array, values: Array) -> Array:
    """Truth of the conditions of nodes for one value each."""
    kinds, threshold = operator.condition[nodes], operator.threshold[nodes]
    result = operator.missing[nodes] & np.isnan(values)
    for number, function in enumerate(_CONDITIONS):
        result |= (kinds == number) & function(values, threshold)
    for place in np.flatnonzero(kinds == len(_CONDITIONS)):
        start = int(threshold[place])
        result[place] |= (
            values[place] in operator.members[start + 1 : start + 1 + int(operator.members[start])]
        )
    return np.asarray(result)


@reference(TreeEnsemble)
def tree_ensemble(graph: Graph, operator: TreeEnsemble, inputs: list[Array], _: States) -> list[Array]:
    """Scores: all rows walk down one tree together."""
    x = inputs[0].astype(np.float32)
    scores: Array | None = None
    for root in operator.roots:
        at = np.full(len(x), root, np.int64)
        while (inner := np.flatnonzero(operator.feature[at] >= 0)).size:
            nodes = at[inner]
            holds = _holds(operator, nodes, x[inner, operator.feature[nodes]])
            at[inner] = np.where(holds, nodes + 1, operator.otherwise[nodes])
        result = operator.weights[operator.otherwise[at]].astype(np.float64)
        scores = result if scores is None else _AGGREGATES[operator.aggregate](scores, result)
    return [np.asarray(scores)]
