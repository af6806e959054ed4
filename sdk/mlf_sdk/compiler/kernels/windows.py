# SPDX-License-Identifier: Apache-2.0
"""Convolution and matrix products for cores without the DSP extension's kernels: windows as bytes.

What differs between cores is how a tile's windows are laid out in a buffer, how weights are packed, and the
function that multiplies the two: a `Tile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.kernel import Kernel, tile_of
from mlf_sdk.compiler.kernels.rescale import Chooser, Rescale, choose_rescale
from mlf_sdk.compiler.operators import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Code and constants for the tiles of a layer.

    Attributes:
        widen: function ``(input, buffer, row_bytes)`` that lays out the windows of a tile.
        call: of the function that computes a tile, with ``{}`` for the place of its output.
        buffer_bytes: of the windows.
        channels: that are computed at once.
    """

    widen: str
    call: str
    helpers: dict[str, str]
    constants: tuple[Array, ...]
    buffer_bytes: int
    channels: int = 1


TileMaker = Callable[[Layout, Array, Array, Rescale], Tile | None]
"""Makes a tile of a layout, the weights (a row a channel), the biases and a requantisation; None: it does not fit."""


def convolution(
    pixels: int, make: TileMaker, choose: Chooser = choose_rescale, *, instead_of: int = 0
) -> Callable[[Contraction], Kernel | None]:
    """Kernel of CONV_2D with tiles of at most ``pixels`` pixels.

    Args:
        pixels: most pixels of a tile.
        make: maker of a tile.
        choose: choice of a requantisation.
        instead_of: pixels of tiles whose pairs of pixels take about 5 % more; None for a layer where these
            tiles compute so many more pairs that the others take less.
    """

    def kernel(layer: Contraction) -> Kernel | None:
        if not layer.is_int8() or layer.window.dilation[1] != 1:
            return None
        layout = Layout(layer, pixels, 1)
        if instead_of and 20 * _pairs(layout.ow, pixels) > 21 * _pairs(layout.ow, instead_of):
            return None
        rescale = layer.rescale(choose)
        if rescale is None:
            return None
        tile = make(layout, layer.rows, layer.starts(rescale), rescale)
        if tile is None:
            return None
        layout.buffer_bytes = tile.buffer_bytes
        return layout.kernel(tile.call, tile.widen, tile.helpers, tile.constants, channels=tile.channels)

    return kernel


def _pairs(width: int, pixels: int) -> int:
    """Pairs of pixels that tiles of at most ``pixels`` compute for a row of outputs."""
    tile = min(pixels, width)
    return -(-width // tile) * -(-tile // 2)


def dense(
    make: TileMaker, choose: Chooser = choose_rescale, *, one: bool = False
) -> Callable[[Contraction], Kernel | None]:
    """Kernel of FULLY_CONNECTED of one row; ``one``: with one requantisation for a layer of one scale."""

    def kernel(layer: Contraction) -> Kernel | None:
        if not layer.is_int8() or not layer.is_one_pixel:
            return None
        of_all = one and layer.has_one_scale
        rescale = layer.rescale_of_all(choose) if of_all else layer.rescale(choose)
        if rescale is None:
            return None
        layout = Layout(layer, 1, 1)
        layout.distance = 0
        tile = make(layout, layer.rows, layer.starts(rescale), rescale)
        if tile is None:
            return None
        body = f"    {tile.widen}(x0, b0, 0);\n    {tile.call.format('y0')};\n"
        read_first = {0: 0}
        return layer.kernel(
            "dense", body, tile.helpers, tile.constants, read_first, workspace_bytes=tile.buffer_bytes,
            tile=tile_of(tile.channels),
        )  # fmt: skip

    return kernel
