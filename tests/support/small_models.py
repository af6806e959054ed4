# SPDX-License-Identifier: Apache-2.0
"""Small .tflite models with what few others have: a state, floats at the edges, an operator of the user's."""

from __future__ import annotations

import numpy as np

from tflite_models import Maker, OperatorSpec

OWN = "void Twice(const void *const inputs[], void *const outputs[], const uint8_t *options, uint32_t size)"
TWICE = f"""#include <stdint.h>
{OWN}
{{
    const int8_t *x = inputs[0];
    int8_t *y = outputs[0];
    for (int i = 0; i < 8; i++) {{
        y[i] = (int8_t)(x[i] / 2 * options[size - 1]);
    }}
}}
"""


def svdf(
    seed: int, size: int, filters: int, rank: int, memory: int, batches: int, kind: str, weights: str = "int8"
) -> bytes:
    """A model of one SVDF with random weights."""
    m = Maker(seed)
    r, tensor = m.random, m.spec.tensor
    x = tensor("x", "int8", (batches, size), scale=(0.05,), zero_point=(int(r.integers(-90, 90)),))
    m.spec.inputs.append(x)
    data = r.integers(-127, 128, (filters, size)).astype(weights)
    features = tensor("features", weights, data.shape, scale=(0.01,), zero_point=(0,), data=data)
    scale = 0.002 if kind == "int16" else 0.05
    limit = np.iinfo(kind).max // 2
    data = r.integers(-limit, limit + 1, (filters, memory)).astype(kind)
    times = tensor("times", kind, data.shape, scale=(scale,), zero_point=(0,), data=data)
    units = filters // rank
    # The bias counts in the scale of the sums: both scales of the second part.
    data = r.integers(-2000, 2000, units).astype(np.int32)
    bias = tensor("bias", "int32", (units,), scale=(scale * scale,), zero_point=(0,), data=data)
    state = tensor("line", kind, (batches, filters * memory), scale=(scale,), zero_point=(0,), variable=True)
    out = float(np.float32(scale * scale * limit * limit / 40))
    y = tensor("y", "int8", (batches, units), scale=(out,), zero_point=(int(r.integers(-20, 20)),))
    fields = {"Rank": rank, "FusedActivationFunction": seed % 2}
    m.spec.add("SVDF", (x, features, times, bias, state), y, ("SVDFOptions", fields))
    return m.finish(y)


def floats_at_the_edges() -> bytes:
    """A convolution between QUANTIZE and DEQUANTIZE."""
    m = Maker(9)
    x = m.spec.tensor("x", "float32", (1, 6, 6, 4))
    m.spec.inputs.append(x)
    inner = m.spec.add("QUANTIZE", (x,), m.activation((1, 6, 6, 4), "inner"))
    y = m.conv(inner, 4, (3, 3), 1, same=True)
    return m.finish(m.spec.add("DEQUANTIZE", (y,), m.spec.tensor("y", "float32", (1, 6, 6, 4))))


def two_layers() -> bytes:
    """Two layers of eight."""
    m = Maker(5)
    return m.finish(m.dense(m.dense(m.input((1, 8)), 8), 8))


def own_operator() -> bytes:
    """The operator Twice between two layers."""
    m = Maker(5)
    x = m.dense(m.input((1, 8)), 8)
    y = m.activation((1, 8), "twice")
    m.spec.operators.append(OperatorSpec("CUSTOM:Twice", (x,), (y,), custom=bytes([1])))
    return m.finish(m.dense(y, 8))
