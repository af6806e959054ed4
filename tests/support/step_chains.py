# SPDX-License-Identifier: Apache-2.0
"""Models of many small steps in a row, for what must not grow with the square of their number."""

from __future__ import annotations

from tflite_models import Maker


def residual_chain(steps: int) -> bytes:
    """A .tflite model of residual blocks: a product with itself, and its sum with what went in."""
    maker = Maker(1)
    spec = maker.spec
    x = spec.tensor("input", "float32", (1, 2, 2, 2))
    spec.inputs.append(x)
    for number in range(steps // 2):
        product = spec.add("MUL", (x, x), spec.tensor(f"product{number}", "float32", (1, 2, 2, 2)))
        x = spec.add("ADD", (x, product), spec.tensor(f"sum{number}", "float32", (1, 2, 2, 2)))
    return maker.finish(x)
