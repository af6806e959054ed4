# SPDX-License-Identifier: Apache-2.0
"""Small .tflite models with a state: one LSTM with random weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tflite_models import Maker


def lstm(
    seed: int, kind: str = "int8", *, shape: tuple[int, int, int] = (1, 4, 9), units: int = 7,
    time_major: bool = False, clip: float = 0.0, change: Callable[[Maker, list[int]], None] | None = None,
) -> bytes:  # fmt: skip
    """A model of one LSTM with random weights."""
    m = Maker(seed)
    r = m.random
    real, tensor = kind == "float32", m.spec.tensor

    def value(
        name: str, dtype: str, extents: tuple[int, ...], scale: float, zero: int = 0, **more: object
    ) -> int:
        quantised = {} if real else {"scale": (float(np.float32(scale)),), "zero_point": (zero,)}
        return tensor(name, dtype, extents, **quantised, **more)

    zero = int(r.integers(-100, 100)) if kind == "int8" else 0
    x = value("x", kind, shape, 0.05 if kind == "int8" else 2e-4, zero)
    weights = []
    for gate in range(8):
        extents = (units, shape[2] if gate < 4 else units)
        data = (
            r.normal(0, 0.4, extents).astype(np.float32)
            if real
            else r.integers(-127, 128, extents).astype(np.int8)
        )
        weights.append(
            value(f"w{gate}", "float32" if real else "int8", extents, r.uniform(0.002, 0.01), data=data)
        )
    bias = {"int8": "int32", "int16": "int64"}.get(kind, kind)
    biases = [
        value(f"b{g}", bias, (units,), 1e-4, data=r.integers(-900, 900, units).astype(bias)) for g in range(4)
    ]
    if real:
        for number in biases:
            m.spec.tensors[number].data = r.normal(0, 0.3, units).astype(np.float32)
    batches = shape[1 if time_major else 0]
    point = int(r.integers(-20, 20)) if kind == "int8" else 0
    scale = 1 / 120 if kind == "int8" else 1 / 32768
    hidden = value("hidden", kind, (batches, units), scale, point, variable=True)
    cell_scale = 2.0 ** -int(r.integers(9, 14))
    cell = value("cell", "float32" if real else "int16", (batches, units), cell_scale, variable=True)
    y = value("y", kind, (*shape[:2], units), scale, point)
    inputs = [x, *weights, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
    m.spec.inputs.append(x)
    if change:
        change(m, inputs)
    fields = {"FusedActivationFunction": 4, "CellClip": clip, "TimeMajor": time_major}
    m.spec.add(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", tuple(inputs), y, ("UnidirectionalSequenceLSTMOptions", fields)
    )
    return m.finish(y)
