# SPDX-License-Identifier: Apache-2.0
"""Convolution and matrix products for cores without the DSP extension's kernels: windows as bytes.

What differs between cores is how a tile's windows are laid out in a buffer, how weights are packed, and the
function that multiplies the two: a `Tile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.convolution import Layout, is_plain_int8
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, choose_rescale, low_words, sum_bounds
from mlf_sdk.compiler.kernels.split import Chooser
from mlf_sdk.compiler.operators import Array, Conv2D, FullyConnected
from mlf_sdk.compiler.requantise import Multiplier
from mlf_sdk.compiler.scales import channel_multipliers, dense_multipliers


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Code and constants for the tiles of a layer.

    Attributes:
        widen: function ``(input, buffer, row_bytes)`` that lays out the windows of a tile.
        call: of the function that computes a tile, with ``{}`` for the place of its output.
        buffer_bytes: of the windows.
    """

    widen: str
    call: str
    helpers: dict[str, str]
    constants: tuple[Array, ...]
    buffer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Shape of a layer's tiles: the windows of ``pixels`` pixels, ``distance`` bytes apart."""

    pixels: int
    rows: int
    used: int
    distance: int
    channels: int

    @property
    def depth(self) -> int:
        """Weights of a channel."""
        return self.rows * self.used


TileMaker = Callable[[Shape, Array, Array, Rescale], Tile | None]
"""Makes a tile of a shape, the weights (a row a channel), the biases and a requantisation; None: it does not fit."""


def convolution(
    pixels: int, make: TileMaker, choose: Chooser = choose_rescale, *, instead_of: int = 0
) -> Callable[[Graph, Conv2D], Kernel | None]:
    """Kernel of CONV_2D with tiles of at most ``pixels`` pixels.

    Args:
        pixels: most pixels of a tile.
        make: maker of a tile.
        choose: choice of a requantisation.
        instead_of: pixels of tiles whose pairs of pixels take about 5 % more; None for a layer where these
            tiles compute so many more pairs that the others take less.
    """

    def kernel(graph: Graph, operator: Conv2D) -> Kernel | None:
        x, weights = graph.read(operator)[:2]
        (y,) = graph.written(operator)
        if not is_plain_int8(x, weights) or weights.dtype != np.int8:
            return None
        layout = Layout(x, weights, y, operator.window, pixels, 1)
        if instead_of and 20 * _pairs(layout.ow, pixels) > 21 * _pairs(layout.ow, instead_of):
            return None
        channels = y.shape[3]
        rows = weights.constant.reshape(channels, -1)
        multipliers = channel_multipliers(x, weights, y, channels)
        found = _rescaled(graph, operator, rows, multipliers, choose)
        if found is None or operator.window.dilation[1] != 1:
            return None
        rescale, bias = found
        shape = Shape(
            pixels=layout.pixels, rows=layout.rows, used=layout.used, distance=layout.distance,
            channels=channels,
        )  # fmt: skip
        tile = make(shape, rows, bias, rescale)
        if tile is None:
            return None
        layout.buffer_bytes = tile.buffer_bytes
        return layout.kernel(graph, operator, tile.call, tile.widen, tile.helpers, tile.constants)

    return kernel


def _pairs(width: int, pixels: int) -> int:
    """Pairs of pixels that tiles of at most ``pixels`` compute for a row of outputs."""
    tile = min(pixels, width)
    return -(-width // tile) * -(-tile // 2)


def dense(
    make: TileMaker, choose: Chooser = choose_rescale, *, one: bool = False
) -> Callable[[Graph, FullyConnected], Kernel | None]:
    """Kernel of FULLY_CONNECTED of one row; ``one``: with one requantisation for a layer of one scale."""

    def kernel(graph: Graph, operator: FullyConnected) -> Kernel | None:
        x, weights = graph.read(operator)[:2]
        (y,) = graph.written(operator)
        if x.dtype != np.int8 or weights.dtype != np.int8 or weights.data is None:
            return None
        outputs, inputs = weights.shape
        if x.elements != inputs:
            return None
        multipliers = dense_multipliers(x, weights, y, outputs)
        alone = one and len(set(multipliers)) == 1
        found = _rescaled(graph, operator, weights.data, multipliers, choose, one=alone)
        if found is None:
            return None
        rescale, bias = found
        shape = Shape(pixels=1, rows=1, used=inputs, distance=0, channels=outputs)
        tile = make(shape, weights.data, bias, rescale)
        if tile is None:
            return None
        return Kernel(
            family="dense",
            parameters=arguments(graph, operator, reads=1, constants=tile.constants, workspace="int32_t"),
            body=f"    {tile.widen}(x0, b0, 0);\n    {tile.call.format('y0')};\n",
            helpers=tile.helpers,
            constants=tile.constants,
            workspace_bytes=tile.buffer_bytes,
            overlaps={0: 0},  # all of the input is read first
        )

    return kernel


def _rescaled(
    graph: Graph,
    operator: Conv2D | FullyConnected,
    rows: Array,
    multipliers: tuple[Multiplier, ...],
    choose: Chooser,
    *,
    one: bool = False,
) -> tuple[Rescale, Array] | None:
    """Requantisation, and biases with what the zero point of the input contributes; None: no cheap form.

    Args:
        one: prefer words that are exact for the sums of all outputs.
    """
    bias, clamp = graph.bias(operator), operator.clamp
    x_zero, y_zero = graph.read(operator)[0].zero_point, graph.written(operator)[0].zero_point
    bounds = sum_bounds(rows, bias, -128 - x_zero, 127 - x_zero)
    widest = np.array([[bounds[:, 0].min(), bounds[:, 1].max()]]).repeat(len(bounds), axis=0)
    rescale = choose(multipliers, y_zero, widest if one else bounds, clamp)
    if one and rescale.form is Form.GENERAL:
        rescale = choose(multipliers, y_zero, bounds, clamp)
    if rescale.form is Form.GENERAL:
        return None
    return rescale, low_words(rescale.folded(bias, rows, x_zero))
