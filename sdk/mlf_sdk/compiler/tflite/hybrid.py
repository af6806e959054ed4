# SPDX-License-Identifier: Apache-2.0
"""Weights of whole numbers beside real activations (dynamic-range quantisation): they become real.

TFLM refuses such layers. TensorFlow Lite rounds the activations of each run to 8 bits and multiplies whole
numbers, which only approximates what the file says: real weights, stored as whole numbers with a scale.
That is computed here, at four times the flash of the stored numbers.
"""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.tflite.context import Context
from mlf_sdk.compiler.tflite.file import RawOperator


def real_weights(context: Context, operator: RawOperator, x: Value, *weights: Value) -> list[Value]:
    """The weights of a layer, as real numbers where its activations are.

    Raises:
        UnsupportedError: they have no scale.
    """
    if x.dtype != np.float32:
        return list(weights)
    result = [_real(context, value) for value in weights]
    stored = [w for w, real in zip(weights, result, strict=True) if w is not real]
    if stored:
        context.note(
            operator,
            f"its weights are of {stored[0].dtype} beside real activations",
            "weights become float32, four times as large; convert the model with a representative data set "
            "for a layer of whole numbers",
        )
    return result


def _real(context: Context, value: Value) -> Value:
    if value.data is None or value.dtype.kind not in "iu" or value.dtype.itemsize > 2:
        return value
    if value.id in context.real_of:
        return context.values[context.real_of[value.id]]
    stated = value.quantisation
    if stated is None:
        refuse(f"the weights '{value.name}' of {value.dtype} have no scale beside real activations")
    shape = [1] * len(value.shape)
    if stated.axis is not None:
        shape[stated.axis] = -1
    scale, zero = (np.array(n).reshape(shape) for n in (stated.scale, stated.zero_point))
    centred = (value.data.astype(np.int64) - zero).astype(np.float32)
    real = context.add_constant(f"{value.name}_real", centred * scale.astype(np.float32))
    real = context.values[real.id]
    context.real_of[value.id] = real.id
    return real
