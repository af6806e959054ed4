# SPDX-License-Identifier: Apache-2.0
"""Weights and inputs of the largest magnitude: no sum in part of a register may run over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.operators import Conv2D, Window
from one_operator import Values, compare, fields

POINT = Window(size=(1, 1), stride=(1, 1))


@pytest.mark.parametrize("depth", [256, 700])
def test_a_sum_of_the_lowest_weights_and_inputs(depth: int, tmp_path: Path) -> None:
    """256 products of -128 and -128 are 2^22, one more than the lower sum of a pair of pixels holds."""
    v = Values()
    x, y = v.add("int8", (1, 1, 4, depth), 0.01), v.add("int8", (1, 1, 4, 3), 0.016 * depth)
    weights = np.full((3, 1, 1, depth), -128)
    weights[1] = 127
    given = v.add("int8", weights.shape, 0.01, data=weights), v.add("int32", (3,), data=np.arange(3))
    runs = [np.full((1, 1, 4, depth), extreme, np.int8) for extreme in (-128, 127)]
    compare(v.checks(Conv2D(**fields((x, *given), y), window=POINT, clamp=(-128, 127)), *runs), tmp_path)
