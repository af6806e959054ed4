# SPDX-License-Identifier: Apache-2.0
"""Convolution of small images for cores with the vector extension (MVE, Helium), with the same in plain C.

The image is copied between its padding. The windows of some pixels are copied from there, one after the other, each
filled up to whole vectors: they are the pixels of a layer with windows of one pixel (`mve_rows`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, tile_of
from mlf_sdk.compiler.kernels.mve import table_words
from mlf_sdk.compiler.kernels.mve_copies import INCLUDE, copy_function
from mlf_sdk.compiler.kernels.mve_row_code import record
from mlf_sdk.compiler.kernels.mve_row_tile import LANES, RowTile
from mlf_sdk.compiler.kernels.mve_rows import pixels_of_row
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded

_MOST_BYTES: Final = 2048  # of an image with its padding
_MOST_ROWS: Final = 16  # of a window, each copied by a line of code


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D of a small image; None for a layer that this does not fit."""
    window, rescale = layer.window, layer.rescale() if layer.is_int8() else None
    (kh, kw), (down, across), (above, left) = window.size, window.stride, window.before
    _, ih, iw, channels = layer.x.shape
    _, oh, ow, _ = layer.y.shape
    height, width = max((oh - 1) * down + kh, above + ih), max((ow - 1) * across + kw, left + iw)
    image_bytes, used = height * width * channels, kw * channels
    padded = -(-kh * used // LANES) * LANES
    tile = RowTile((1, 1), padded, 1, layer.channels, is_copied=False)
    if rescale is None or window.dilation != (1, 1) or kh > _MOST_ROWS or image_bytes > _MOST_BYTES:
        return None
    pixels = oh * ow
    count = pixels_of_row(pixels, padded // LANES)
    if window.size == (1, 1) or not count or not tile.fits():
        return None
    rows = np.pad(layer.rows, ((0, 0), (0, padded - kh * used)))
    name = f"pixels_1x1x{padded}_{padded}_{layer.channels}_2_{label(rescale)}"
    copied = [iw * channels, *([used] if used >= LANES else [])]
    copies = {f"copy_{n}_bytes": copy_function(f"copy_{n}_bytes", n) for n in copied}
    image_bytes += -image_bytes % LANES
    row = width * channels
    copy = f"copy_{used}_bytes(d + @, s + $)" if used >= LANES else f"memcpy(d + @, s + $, {used})"
    lines = (copy.replace("@", str(k * used)).replace("$", str(k * row)) for k in range(kh))
    windows = "".join(f"            {line};\n" for line in lines)
    body = f"""    int8_t *image = (int8_t *)b0;
    int8_t *windows = image + {image_bytes};
    memset(image, {layer.x.zero_point}, {height * row});
    memset(windows, 0, {count * padded});
    for (int32_t i = 0; i < {ih}; ++i) {{
        copy_{iw * channels}_bytes(image + (i + {above}) * {row} + {left * channels}, x0 + i * {iw * channels});
    }}
    for (int32_t t = 0; t < {pixels}; t += {count}) {{
        const int32_t at = t < {pixels - count} ? t : {pixels - count};
        for (int32_t i = 0; i < {count}; ++i) {{
            const int8_t *s = image + (at + i) / {ow} * {down * row} + (at + i) % {ow} * {across * channels};
            int8_t *d = windows + i * {padded};
{windows}        }}
        const int8_t *rows[1];
        rows[0] = windows;
        {name}(rows, p0, p1, y0 + at * {layer.channels}, {layer.channels}, {count // tile.pixels});
    }}
"""
    return layer.kernel(
        "conv",
        body,
        {"mve": INCLUDE, **copies, **recorded(name, "mve", record, tile, Epilogue.of(rescale))},
        (tile.packed(rows), tile.table(table_words(layer.starts(rescale), rescale))),
        {0: 0},  # all of the input is read first
        workspace_bytes=image_bytes + count * padded,
        tile=tile_of(tile.width, tile.pixels),
    )
