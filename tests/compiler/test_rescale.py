# SPDX-License-Identifier: Apache-2.0
"""Sums at which results of a requantised layer begin, against all sums tried one by one."""

from __future__ import annotations

import numpy as np
import pytest

from mlf_sdk.compiler.kernels.layer_sums import Sums
from mlf_sdk.compiler.kernels.rescale import Form, choose_rescale, choose_short
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
    sums = Sums(multipliers=multipliers, zero_point=zero_point, bounds=bounds, clamp=clamp)
    found, lowest, constant = sums.starts, sums.ends[0], sums.constant
    assert found.shape == (CHANNELS, 255)
    for channel, multiplier in enumerate(multipliers):
        low, high = map(int, bounds[channel])
        results = np.clip(multiply(np.arange(low, high + 1), multiplier) + zero_point, *clamp)
        starts = low + np.searchsorted(results, np.arange(-127, 128))
        np.testing.assert_array_equal(found[channel], starts)
        assert lowest[channel] == results[0] and constant[channel] == (results[0] == results[-1])
    np.testing.assert_array_equal(choose_rescale(sums).constant, constant)


def test_no_channel_is_constant_where_only_the_general_form_is_exact() -> None:
    multipliers = (Multiplier.of(2.0), Multiplier.of(2.0**-30))
    bounds = np.array([[-10, 10], [-10, 10]])
    both = Sums(multipliers=multipliers, zero_point=0, bounds=bounds, clamp=(-128, 127))
    assert both.is_general and both.fixed.any() and not both.constant.any()
    assert choose_rescale(both).form is choose_short(both).form is Form.GENERAL
    small = Sums(multipliers=multipliers[1:], zero_point=0, bounds=bounds[1:], clamp=(-128, 127))
    assert small.constant.all() and choose_rescale(small).form is not Form.GENERAL


def test_no_channel_is_constant_whose_scaled_sums_wrap() -> None:
    """Scaled by a large factor the lowest sum wraps to the result of the highest, and others between them do not."""
    factor = Multiplier(1 << 30, 13)
    bounds = np.array([[-267_108, 247_227]])
    sums = Sums(multipliers=(factor,), zero_point=-32, bounds=bounds, clamp=(-32, 127))
    between = np.clip(multiply(np.arange(-1000, 1000), factor) - 32, *sums.limits)
    assert sums.ends[0] == sums.ends[1] == 127 and {*between} == {-32, 127}
    assert not sums.fixed.any() and choose_rescale(sums).form is Form.GENERAL
