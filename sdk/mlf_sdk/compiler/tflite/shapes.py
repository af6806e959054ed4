# SPDX-License-Identifier: Apache-2.0
"""Shapes of tensors that a ``.tflite`` file leaves open: derived from extents of inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlf_sdk.compiler.graph import ShapeError
from mlf_sdk.compiler.tflite.context import Context
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.tensors import MAX_TENSOR_BYTES, RawTensor


def settle(context: Context, operator: RawOperator, error: ShapeError, before: Sequence[int]) -> bool:
    """Give an output the shape that follows from its operator, and take back what its builder has added.

    Args:
        before: how many values, operators, states and findings there were before the builder ran.

    Returns:
        False where the file states another extent, and where the shape was derived already.
    """
    written = {context.value_of.get(number): number for number in operator.outputs}
    number = written.get(error.value.id)
    if number is None or number in context.derived or not _is_open(context.raw.tensors[number], error.shape):
        return False
    context.derived[number] = error.shape
    values, operators, states, findings = before
    del context.values[values:], context.operators[operators:]
    del context.states[states:], context.findings[findings:]
    for ids, limit in (
        (context.value_of, values),
        (context.real_of, values),
        (context.variables, states),
        (context.handles, states),
    ):
        for key in [key for key, place in ids.items() if place >= limit]:
            del ids[key]
    return True


def _is_open(tensor: RawTensor, shape: tuple[int, ...]) -> bool:
    """True where a tensor may have the shape: it differs from the stated one in open extents alone."""
    if (
        tensor.dtype is None
        or not len(tensor.open) == len(tensor.shape) == len(shape)
        or min(shape, default=1) < 1
    ):
        return False
    stated = zip(tensor.shape, shape, tensor.open, strict=True)
    fits = math.prod(shape) * tensor.dtype.itemsize <= MAX_TENSOR_BYTES
    return fits and all(one == other or is_open for one, other, is_open in stated)
