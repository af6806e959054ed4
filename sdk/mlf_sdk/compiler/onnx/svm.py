# SPDX-License-Identifier: Apache-2.0
"""SVMClassifier and SVMRegressor: decision values as one operator; votes and probabilities behind it.

Machines with a linear kernel are one matrix product: their support vectors are summed when the model is read.
"""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from mlf_sdk.compiler.classical import PairCoupling, PairVotes, SupportVectors, SvmKernel
from mlf_sdk.compiler.graph import FLOAT32, Value, refuse
from mlf_sdk.compiler.onnx.steps import Steps
from mlf_sdk.compiler.operators import UNLIMITED, Array, FullyConnected

_KERNELS: Final = {
    "LINEAR": None, "POLY": SvmKernel.POLY, "RBF": SvmKernel.RBF, "SIGMOID": SvmKernel.SIGMOID,
}  # fmt: skip
_MAX_CLASSES: Final = 256
_INT64: Final = np.dtype(np.int64)


def svm_regressor(steps: Steps) -> None:
    """SVMRegressor; ONNX Runtime ignores its ``post_transform``. Without support vectors it is linear."""
    if not steps.is_rows():
        return
    count = int(steps.node.attribute("n_supports", 0))
    factors, bias = steps.numbers("coefficients"), steps.numbers("rho")[:1]
    features = steps.node.input().shape[1]
    if not bias.size or factors.size < (count or features):
        refuse(f"{factors.size} coefficients, {bias.size} elements of rho, {count} support vectors")
    if count > 0:
        places = np.zeros((1, 1), np.int64)
        one = _decision(steps, (count,), factors[:count, np.newaxis], places, bias)
    elif factors.size == features:
        one = _product(steps, factors[np.newaxis], bias)
    else:
        refuse(f"{factors.size} coefficients of {features} features")
    result = steps.raw.outputs[0]
    if not steps.node.attribute("one_class", 0):
        steps.add("Identity", one.name, output=result)
        return
    above = steps.add("Greater", one.name, steps.constant(0))
    steps.add("Where", above, steps.constant(1), steps.constant(-1), output=result)


def svm_classifier(steps: Steps) -> None:
    """SVMClassifier: a vote of all pairs of classes; without support vectors a linear score of each class."""
    if not steps.is_rows():
        return
    labels = steps.labels("classlabels_ints", "classlabels_strings")
    counts = steps.node.integers("vectors_per_class", ())
    if not counts:
        _linear_classifier(steps, labels)
        return
    classes = len(counts)
    if labels.size != classes or not 1 < classes <= _MAX_CLASSES or min(counts) < 0 or not sum(counts):
        refuse(f"{labels.size} classes and {str(counts)[:80]} support vectors; 2 to {_MAX_CLASSES} classes")
    pairs = {pair: place for place, pair in enumerate(itertools.combinations(range(classes), 2))}
    factors, bias = steps.numbers("coefficients"), steps.numbers("rho")
    if factors.size != (classes - 1) * sum(counts) or bias.size != len(pairs):
        refuse(
            f"{factors.size} coefficients and {bias.size} elements of rho for {len(pairs)} pairs of classes"
        )
    places = np.array(
        [[pairs[min(c, d), max(c, d)] for d in range(classes) if d != c] for c in range(classes)], np.int64
    )
    values = _decision(steps, counts, factors.reshape(classes - 1, -1).T, places, bias)
    place = steps.emit(PairVotes, values, (values.shape[0],), _INT64, classes=classes)
    steps.chosen(place.name, labels)
    if steps.wants(1):
        _scores(steps, values, classes, len(pairs))


def _scores(steps: Steps, values: Value, classes: int, pairs: int) -> None:
    """Second output: probabilities where there is calibration, decision values otherwise."""
    a, b = steps.numbers("prob_a", default=()), steps.numbers("prob_b", default=())
    if a.size != b.size or a.size not in (0, pairs):
        refuse(f"{a.size} elements of prob_a and {b.size} of prob_b for {pairs} pairs of classes")
    if a.size:
        shape = (values.shape[0], classes)
        result = steps.emit(PairCoupling, values, shape, FLOAT32, classes=classes, a=a, b=b)
        steps.transformed(result.name, classes)
    elif classes == 2:
        kind = steps.node.attribute("post_transform", "NONE")
        steps.two_classes(values.name, complement=kind in ("SOFTMAX", "SOFTMAX_ZERO"))
    else:
        steps.transformed(values.name, pairs)


def _linear_classifier(steps: Steps, labels: Array) -> None:
    """Scores of all classes, with one bias; of two classes, the second one is taken above a limit as well."""
    features, count = steps.node.input().shape[1], labels.size
    factors, bias = steps.numbers("coefficients"), steps.numbers("rho")
    if factors.size != count * features or not bias.size:
        refuse(f"{factors.size} coefficients and {bias.size} elements of rho for {count} classes")
    scores = _product(steps, factors.reshape(count, features), np.repeat(bias[:1], count)).name
    if steps.wants(1):
        steps.transformed(scores, count)
    if count == 2:
        positive = not (factors < 0).any()
        most = steps.add("ReduceMax", scores, axes=[1], keepdims=0)
        kind, limit = ("GreaterOrEqual", 0.5) if positive else ("Greater", 0.0)
        above = steps.add(kind, most, steps.constant(limit))
        place = steps.add("ArgMax", scores, axis=1, keepdims=0)
        steps.chosen(steps.add("Where", above, steps.constant(1, np.int64), place), labels)
    else:
        steps.largest(scores, labels)


def _decision(steps: Steps, counts: tuple[int, ...], factors: Array, places: Array, bias: Array) -> Value:
    """Decision values of rows.

    Args:
        counts: support vectors of each class.
        factors: (vectors, r).
        places: (classes, r).
    """
    kind, features = str(steps.node.attribute("kernel_type", "LINEAR")), steps.node.input().shape[1]
    given = steps.numbers("support_vectors")
    if kind not in _KERNELS:
        refuse(f"the kernel {kind[:40]} is not known")
    if given.size != sum(counts) * features:
        refuse(f"{given.size} elements of {sum(counts)} support vectors with {features} features")
    vectors, kernel = given.reshape(-1, features), _KERNELS[kind]
    if kernel is None:
        whole = np.zeros((bias.size, features))
        group = np.repeat(np.arange(len(counts)), counts)
        for column in range(factors.shape[1]):
            np.add.at(
                whole, places[group, column], factors[:, column, np.newaxis] * vectors.astype(np.float64)
            )
        return _product(steps, whole, bias)
    parameters = steps.numbers("kernel_params")
    if parameters.size != 3:
        refuse(f"{parameters.size} elements of kernel_params; gamma, coef0 and degree are needed")
    gamma, offset, degree = (float(p) for p in parameters)
    shape = (steps.node.input().shape[0], bias.size)
    return steps.emit(
        SupportVectors, steps.context.value(steps.node.input()), shape, FLOAT32,
        kernel=kernel, gamma=gamma, offset=offset, degree=degree, vectors=vectors, counts=counts,
        coefficients=factors, places=places, bias=bias,
    )  # fmt: skip


def _product(steps: Steps, weights: Array, bias: Array) -> Value:
    """Rows times constant weights (values, features), plus a bias."""
    context, name = steps.context, steps.name()
    x = context.value(steps.node.input())
    inputs = [
        x,
        context.add_constant(f"{name}_weights", weights.astype(np.float32)),
        context.add_constant(f"{name}_bias", bias.astype(np.float32)),
    ]
    _, y = context.output(name, FLOAT32, (x.shape[0], bias.size))
    context.emit(FullyConnected(**context.common(steps.kind, inputs, y), clamp=UNLIMITED))
    return y
