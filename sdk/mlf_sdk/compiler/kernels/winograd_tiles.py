# SPDX-License-Identifier: Apache-2.0
"""Convolution with 3x3 windows at stride 1 by Winograd's algorithm, for cores with many registers and no SIMD.

A block of the output is up to four squares. Their transformed inputs serve all channels, four at a time; of each
place of the squares sixteen sums of products stay in registers. Transformed weights have 16 bits: they take 3.6
times (F(2x2)) or 8 times (F(4x4)) the flash of bytes, and a block's transformed input 32 or 72 bytes a square and channel.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction, Kind
from mlf_sdk.compiler.kernels.conv_4x4 import groups_of
from mlf_sdk.compiler.kernels.conv_pairs_2ch import least_instructions
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.winograd_code import (
    SQUARES,
    TAPS,
    Squares,
    record_input,
    record_outputs,
    record_products,
)
from mlf_sdk.compiler.microkernels import epilogue32
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded

_CHANNELS: Final = 4  # of a tile of sums
_TILES: Final = 4
_MOST_OFFSET: Final = 2047  # of a load or store, bytes
_INPUT: Final = {2: 80, 4: 330}  # instructions of a square and channel of the input, and of one of the output
_OUTPUT: Final = {2: 95, 4: 350}
_CALLS: Final = 120  # instructions of a group of channels


class _Block(msgspec.Struct, frozen=True):
    """Squares of outputs that are computed at once: rows and columns of them."""

    squares: Squares
    rows: int
    columns: int

    @property
    def tiles(self) -> int:
        return self.rows * self.columns

    @property
    def lines(self) -> int:
        """Rows of the output."""
        return self.rows * self.squares.outputs

    @property
    def pixels(self) -> int:
        """Pixels of a row of the output."""
        return self.columns * self.squares.outputs

    def instructions(self, layer: Contraction) -> float:
        """Estimate for the layer."""
        _, oh, ow, oc = layer.y.shape
        tiles, places, m = self.tiles, self.squares.places, self.squares.outputs
        product = 2 + (tiles + _CHANNELS + 1) / (tiles * _CHANNELS)
        group = tiles * _CHANNELS * (places * (layer.depth * product + 1) + _OUTPUT[m]) + _CALLS
        block = -(-oc // _CHANNELS) * group + tiles * layer.depth * _INPUT[m]
        return -(-oh // self.lines) * -(-ow // self.pixels) * block


def _best(layer: Contraction) -> _Block | None:
    """Block that takes the fewest instructions; None where none fits."""
    _, oh, ow, _ = layer.y.shape
    blocks = [
        block
        for squares in SQUARES.values()
        for rows in range(1, _TILES + 1)
        for columns in range(1, _TILES // rows + 1)
        if (block := _Block(squares, rows, columns)).lines <= oh and block.pixels <= ow
    ]
    return min(blocks, key=lambda block: block.instructions(layer), default=None)


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D with 3x3 windows at stride 1; None for a layer that this does not fit, or where others take less."""
    shape = layer.window.size, layer.window.stride, layer.window.dilation
    if layer.kind is not Kind.CONVOLUTION or not layer.is_int8() or layer.weights.zero_point:
        return None
    ic, oc = layer.depth, layer.channels
    if shape != ((3, 3), (1, 1), (1, 1)) or ic % TAPS or ic < 2 * TAPS or oc < _CHANNELS:
        return None
    block = _best(layer)
    if block is None or block.instructions(layer) >= least_instructions(layer):
        return None
    squares, tiles = block.squares, block.tiles
    rescale = layer.rescale(fine=True)
    result = None if rescale is None else epilogue32.words(layer, rescale, scaled=True)
    largest = 128 * int(np.abs(layer.rows.astype(np.int64)).sum(axis=1).max())  # sum of bytes times weights
    if rescale is None or result is None or largest << squares.bits >= 1 << 31:
        return None
    if squares.side * max(ic, oc) > _MOST_OFFSET:
        return None
    layout = Layout(layer, block.pixels, 1, lines=block.lines)
    input_bytes = 2 * squares.places * tiles * ic
    layout.buffer_bytes = input_bytes + 4 * squares.places * tiles * _CHANNELS

    epilogue = Epilogue.of(rescale)
    m = squares.outputs
    square, products = f"winograd_{m}_square_{tiles}x{ic}", f"winograd_{m}_products_{tiles}"
    outputs = f"winograd_{m}_outputs_{tiles}x{block.columns}_{oc}_{label(rescale)}"
    row = layout.ow * oc
    name, widen = f"{outputs}_of_{ic}_{row}", f"winograd_{m}_input_{block.rows}x{block.columns}x{ic}"
    texts = {
        **recorded(square, "rv32im", record_input, m, tiles, ic),
        **recorded(products, "rv32im", record_products, m, tiles, _CHANNELS),
        **recorded(outputs, "rv32im", record_outputs, m, tiles, block.columns, _CHANNELS, oc, epilogue),
        widen: _input(widen, square, block, ic),
        name: _tile(name, (products, outputs), block, (ic, oc, row), epilogue),
    }
    rows = squares.transformed(layer.weights.constant).reshape(oc, -1)
    words = np.concatenate([result[0][:, None], result[1]], axis=1)
    constants = groups_of(rows, _CHANNELS).reshape(-1), groups_of(words, _CHANNELS).reshape(-1)
    kernel = layout.kernel(
        f"{name}(b0, p0, p1, {{}})", widen, texts, constants, "_winograd", channels=_CHANNELS
    )
    return dataclasses.replace(kernel, variant=f"F({m}x{m}, 3x3)")


def _input(name: str, square: str, block: _Block, ic: int) -> str:
    """Function ``(input, buffer, row_bytes)`` that transforms the squares of a block."""
    m = block.squares.outputs
    return f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    int16_t *v = (int16_t *)(void *)b;
    for (int32_t r = 0; r < {block.rows}; ++r, x += {m} * row_bytes)
    for (int32_t c = 0; c < {block.columns}; ++c, ++v) {{
        {square}(x + c * {m * ic}, v, (uint32_t)row_bytes);
    }}
}}
"""


def _tile(
    name: str, calls: tuple[str, str], block: _Block, sizes: tuple[int, int, int], epilogue: Epilogue
) -> str:
    """Function ``(buffer, weights, words, output)`` of a block, four channels at a time.

    The second four may begin within the first.
    """
    (products, outputs), (ic, oc, row) = calls, sizes
    squares, tiles = block.squares, block.tiles
    size = 2 * squares.places * tiles * ic
    first = (oc - 1) % _CHANNELS + 1
    return f"""static void {name}(int32_t *b, const int16_t *w, const int32_t *p, int8_t *y)
{{
    int32_t *sums = b + {size // 4};
    int32_t channel = 0;
    do {{
        {products}((const int16_t *)(void *)b, w, sums, {size});
        for (int32_t r = 0; r < {block.rows}; ++r) {{
            {outputs}(sums + r * {block.columns}, p, y + r * {squares.outputs * row} + channel, {row});
        }}
        channel += channel ? {_CHANNELS} : {first};
        w += {squares.places * _CHANNELS * ic};
        p += {_CHANNELS * (1 + epilogue.words)};
    }} while (channel < {oc});
}}
"""
