# SPDX-License-Identifier: Apache-2.0
"""Operators of constants are computed by the reference."""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.passes.rewrite import Rewrite, has_effect
from mlf_sdk.compiler.reference import evaluate_one


def fold_constants(graph: Graph) -> Graph:
    """Compute what is made of constants alone, where it is no larger than they are in elements."""
    rewrite = Rewrite(graph)
    for position, operator in enumerate(graph.operators):
        reads, written = rewrite.read(operator), rewrite.written(operator)
        data = [v.data for v in reads if v.data is not None]
        grows = sum(v.elements for v in written) > sum(a.size for a in data)
        edge = any(v.id in graph.outputs for v in written)
        if len(data) < len(reads) or not data or grows or edge or has_effect(operator):
            continue
        if not operator.has_meaning:
            continue
        for value, array in zip(written, evaluate_one(rewrite.values, operator, data), strict=True):
            known = np.ascontiguousarray(array.astype(value.dtype).reshape(value.shape))
            rewrite.values[value.id] = dataclasses.replace(value, data=known)
        rewrite.put(position, None)
    return rewrite.finish()
