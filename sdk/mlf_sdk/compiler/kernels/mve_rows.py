# SPDX-License-Identifier: Apache-2.0
"""Convolution for cores with the vector extension (MVE, Helium) row by row, with the same in plain C.

Windows lie in padded rows in a ring. Those of one pixel need none: some pixels are a row, which is copied so that the
output may lie over the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, Overlaps, of_parts, tile_of
from mlf_sdk.compiler.kernels.mve import pointers_of_words, table_words
from mlf_sdk.compiler.kernels.mve_copies import INCLUDE, copy_function
from mlf_sdk.compiler.kernels.mve_row_code import record
from mlf_sdk.compiler.kernels.mve_row_tile import RowTile
from mlf_sdk.compiler.kernels.rows import copied_bytes, is_inside, ring_of_rows, rows_inside
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded

_LANES: Final = 16
_MOST_PIXELS: Final = 24  # of a row of windows of one pixel
_MOST_TWICE: Final = 16  # a pixel in so many may be computed twice
_ROW_COST: Final = 16  # instructions of a row for four channels beside its pairs of pixels
_PAIR: Final = 2  # pixels of a tile in such a row
_PAIR_COST: Final = 20  # of a pair beside its vectors, each of which takes 14


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D; None for a layer that this does not fit."""
    window, rescale = layer.window, layer.rescale() if layer.is_int8() else None
    if rescale is None or window.dilation != (1, 1):
        return None
    is_one = window.size == (1, 1) and is_inside(layer)
    pixels = layer.y.shape[1] * layer.y.shape[2]
    is_flat = window.is_pointwise(layer.x.shape, layer.y.shape)
    usual = RowTile(window.size, layer.x.shape[3], window.stride[1], layer.channels, not is_one)
    count = pixels_of_row(pixels, len(usual.steps())) if is_flat else layer.y.shape[2]
    tile = _best(usual, count)
    if tile is None:
        return None
    weights, table = tile.packed(layer.rows), tile.table(table_words(layer.starts(rescale), rescale))
    kh, kw = window.size
    name = (
        f"{'rows' if tile.is_copied else 'pixels'}_{kh}x{kw}x{tile.depth}_{tile.distance}_{layer.channels}"
        f"_{tile.pixels}_{label(rescale)}"
    )
    words, pointers = pointers_of_words(kh) if tile.has_words else ("", "rows")
    call = f"{words}        {name}({pointers}, p0, p1, y0 + @, {layer.channels}, {count // tile.pixels});\n"
    body, size_bytes, overlaps = _body(layer, tile, call, count if is_flat else 0)
    sizes = (copied_bytes(layer), count * tile.depth)
    copies = {f"copy_{size}_bytes": copy_function(f"copy_{size}_bytes", size) for size in sizes}
    texts: Mapping[str, str] = {
        "mve": INCLUDE,
        **{copy: text for copy, text in copies.items() if f"{copy}(" in body},
        **recorded(name, "mve", record, tile, Epilogue.of(rescale)),
    }
    constants = (weights, table)
    return layer.kernel(
        "conv_1x1" if is_one else "conv",
        body,
        texts,
        constants,
        overlaps,
        workspace_bytes=size_bytes,
        tile=tile_of(tile.width, tile.pixels),
    )


def _best(usual: RowTile, count: int) -> RowTile | None:
    """The tile with the fewest loads for rows of ``count`` pixels; None where none fits."""
    tiles = [usual] if not usual.is_copied else [usual, replace(usual, pixels=4)]
    fit = [tile for tile in tiles if count and count % tile.pixels == 0 and tile.fits()]
    return min(fit, key=lambda tile: len(tile.loads()) + tile.pixels, default=None)


def _body(layer: Contraction, tile: RowTile, call: str, flat: int) -> tuple[str, int, Overlaps]:
    """Body of a kernel, bytes of its buffer, and the overlaps.

    Args:
        call: of the function, with ``@`` for the place of its output.
        flat: pixels of a row, where rows are any pixels.
    """
    tail_bytes = -tile.size[1] * tile.depth % _LANES  # behind a row, whose weights are zeros
    if flat:
        return _flat_rows(layer, call, flat, tail_bytes)
    call = call.replace("@", f"oy * {layer.y.shape[2] * layer.channels}")
    if not (tile.is_copied or tail_bytes):
        return rows_inside(layer, call)
    body, ring_bytes, overlaps = ring_of_rows(layer, call, "copy_@_bytes")
    if tail_bytes:
        body = f"    memset((int8_t *)b0 + {ring_bytes}, 0, {tail_bytes});\n{body}"
    return body, ring_bytes + tail_bytes, overlaps


def pixels_of_row(pixels: int, steps: int) -> int:
    """Even number of neighbouring pixels that are a row; the last row overlaps the one before it.

    0 where too many would be computed twice.
    """
    pair = _PAIR_COST + 14 * steps
    sizes = range(_PAIR, min(pixels, _MOST_PIXELS) + 1, _PAIR)
    best = min(sizes, key=lambda n: -(-pixels // n) * (_ROW_COST + n // _PAIR * pair), default=0)
    return best if best and _MOST_TWICE * (-pixels % best) <= pixels else 0


def _flat_rows(layer: Contraction, call: str, count: int, tail_bytes: int) -> tuple[str, int, Overlaps]:
    """`_body` for rows of ``count`` pixels, which are copied before any output is written over them."""
    pixels, depth, channels = layer.y.shape[1] * layer.y.shape[2], layer.x.shape[3], layer.channels
    last, size_bytes = pixels - count, count * depth
    tail = f"    memset((int8_t *)b0 + {size_bytes}, 0, {tail_bytes});\n" if tail_bytes else ""
    body = f"""{tail}    for (int32_t t = 0; t < {pixels}; t += {count}) {{
        const int32_t at = t < {last} ? t : {last};
        const int8_t *rows[1];
        copy_{size_bytes}_bytes((int8_t *)b0, x0 + at * {depth});
        rows[0] = (const int8_t *)b0;
{call.replace("@", f"at * {channels}")}    }}
"""
    starts = np.minimum(np.arange(0, pixels, count), last)
    written = np.append(0, starts[:-1] + count)
    return body, size_bytes + tail_bytes, of_parts(layer.x, layer.y, starts * depth, written * channels)
