# SPDX-License-Identifier: Apache-2.0
"""Convolution in tiles of two channels: what kernels with weights of 8 and of 16 bits share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.operators import Array


def layout_of(layer: Contraction, most: int, cost: Callable[[Layout, int], float]) -> Layout | None:
    """Layout of the cheapest tiles; None for a layer that these do not fit.

    Args:
        most: pixels of a tile.
        cost: of a row of the output by tiles of so many pixels.
    """
    if not layer.is_int8() or layer.channels % 2:
        return None
    usual = Layout(layer)
    layout = Layout(layer, min(range(1, min(most, usual.ow) + 1), key=lambda pixels: cost(usual, pixels)))
    return None if layout.exceeds_offset_range or layer.channels * layout.pixels > MAX_OFFSET else layout


def stream_of(starts: Array, words: Array, rescale: Rescale) -> Array:
    """Two channels after the other: biases, words of the weights side by side, requantisations."""
    groups = len(starts) // 2
    parts = (
        starts.reshape(groups, 2),
        words.reshape(groups, 2, -1).transpose(0, 2, 1).reshape(groups, -1),
        rescale.rows.reshape(groups, -1),
    )
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))
