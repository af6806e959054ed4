# SPDX-License-Identifier: Apache-2.0
"""Sums at which results of a requantised layer begin, against all sums tried one by one."""

from __future__ import annotations

import numpy as np
import pytest

from mlf_sdk.compiler.kernels.rescale import choose_rescale, constant_results, result_starts
from mlf_sdk.compiler.requantise import Multiplier, multiply

CHANNELS = 12


@pytest.mark.parametrize("seed", range(40))
def test_results_begin_where_the_reference_reaches_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    multipliers = tuple(Multiplier.of(float(x)) for x in 2.0 ** random.uniform(-14, -1, CHANNELS))
    zero_point = int(random.integers(-128, 128))
    clamp = (-128, 127) if seed % 2 else (int(random.integers(-128, 20)), int(random.integers(21, 128)))
    bounds = np.sort(random.integers(-20_000, 20_000, (CHANNELS, 2)), axis=1)
    bounds[0] = bounds[0, 0]  # a single sum
    values, shifts = (np.array([getattr(m, name) for m in multipliers]) for name in ("value", "shift"))
    found = result_starts(values, shifts, zero_point, bounds, clamp)
    assert found.shape == (CHANNELS, 255)
    lowest, constant = constant_results(multipliers, zero_point, bounds, clamp)
    for channel, multiplier in enumerate(multipliers):
        low, high = map(int, bounds[channel])
        results = np.clip(multiply(np.arange(low, high + 1), multiplier) + zero_point, *clamp)
        starts = low + np.searchsorted(results, np.arange(-127, 128))
        np.testing.assert_array_equal(found[channel], starts)
        assert lowest[channel] == results[0] and constant[channel] == (results[0] == results[-1])
    np.testing.assert_array_equal(choose_rescale(multipliers, zero_point, bounds, clamp).constant, constant)


def test_no_channel_is_constant_where_only_the_general_form_is_exact() -> None:
    multipliers = (Multiplier.of(2.0), Multiplier.of(2.0**-30))
    bounds = np.array([[-10, 10], [-10, 10]])
    assert not constant_results(multipliers, 0, bounds, (-128, 127))[1].any()
    assert constant_results(multipliers[1:], 0, bounds[1:], (-128, 127))[1].all()
