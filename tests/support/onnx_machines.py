# SPDX-License-Identifier: Apache-2.0
"""Attributes of random support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np


def machine(
    random: np.random.Generator, classes: int, kernel: str, *, features: int = 3, calibrated: bool = False
) -> dict[str, Any]:
    """Attributes of SVMClassifier; for one class those of SVMRegressor.

    Args:
        calibrated: with probabilities.
    """

    def numbers(*shape: int, scale: float = 1.0) -> list[float]:
        return [float(v) for v in (random.standard_normal(shape) * scale).astype(np.float32).ravel()]

    counts = [int(n) for n in random.integers(1, 5, classes)]
    pairs = max(1, classes * (classes - 1) // 2)
    given: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.3, float(random.integers(1, 5))],
        "support_vectors": numbers(sum(counts), features),
        "coefficients": numbers(max(1, classes - 1), sum(counts)),
        "rho": numbers(pairs, scale=0.3),
    }
    if classes == 1:
        return given | {"n_supports": sum(counts)}
    given |= {"vectors_per_class": counts, "classlabels_ints": [10 + 3 * c for c in range(classes)]}
    if calibrated:
        given |= {"prob_a": [-abs(v) for v in numbers(pairs)], "prob_b": numbers(pairs, scale=0.3)}
    return given
