# SPDX-License-Identifier: Apache-2.0
"""Convolution and matrix products of int8 values in tiles of pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.conv_1ch_int8 import best_tile, tile_times_channels
from mlf_sdk.compiler.kernels.kernel import Kernel, Overlaps, of_parts, tile_of, window_starts
from mlf_sdk.compiler.kernels.rescale import Rescale, low_words
from mlf_sdk.compiler.kernels.widening import weights_of, widen
from mlf_sdk.compiler.operators import Array

UNROLL: Final = 36
_MAX_QUADS_OF_SHORT: Final = 8  # of a row of the window whose last word holds one byte


def tiled(layer: Contraction, pixels: int = 0) -> Kernel | None:
    """CONV_2D by tiles of up to five pixels; None for a layer that this does not fit.

    Args:
        pixels: of a tile; 0: the best by rule.
    """
    if not layer.is_int8(unsigned=True):
        return None
    channels = layer.channels
    layout = Layout(layer, pixels)
    most = MAX_OFFSET // channels + 1
    if not pixels and layout.pixels > most:
        layout = Layout(layer, most)
    split = weights_of(layer.weights, layout.quads)
    if split is None or layout.exceeds_offset_range or channels * (layout.pixels - 1) > MAX_OFFSET:
        return None
    main, spill = split
    rescale = layer.rescale(fine=fits_fine(main))
    if rescale is None:
        return None
    flat = layout.padded(main)
    if spill is not None:
        flat = np.concatenate([flat, spill.weights], axis=1)
    parts = [starts_of(layer, flat, rescale)[:, None], quads_of(flat, rescale), rescale.rows]
    stream = np.concatenate(parts, axis=1).reshape(-1)
    short = spill is None and rescale.is_fine and layout.quads <= UNROLL and layout.shortened()
    tile, helpers = tile_times_channels(
        layout.pixels,
        layout.quads + (spill.quads if spill else 0),
        channels,
        rescale,
        unroll=UNROLL,
        short=layout.row_quads if short else 0,
    )
    fast, more = widen(
        layout.pixels, layout.distance, layout.rows, layout.row_quads, fine=rescale.is_fine, short=short
    )
    helpers = {**helpers, **more}
    if spill is not None:
        layout.buffer_bytes += 8 * spill.quads * layout.pixels
        fast, text = spill.widen(
            fast, layout.pixels, layout.distance, layout.used, layout.quads, fine=rescale.is_fine
        )
        helpers = {**helpers, fast: text}
    return layout.kernel(f"{tile}(b0, p0, {{}}, {channels})", fast, helpers, (stream,))


def small_tile_first(layer: Contraction, usual: Kernel) -> tuple[Kernel, ...]:
    """The usual kernel, behind one with tiles of two pixels where that takes less scratch."""
    smaller = tiled(layer, 2)
    less = smaller is not None and smaller.workspace_bytes < usual.workspace_bytes
    return (smaller, usual) if smaller is not None and less else (usual,)


def fits_fine(rows: Array) -> bool:
    """Return whether words of weights can be made for sums times 256, where they hold two numbers."""
    return bool(rows.min(initial=0) > -128)


def quads_of(rows: Array, rescale: Rescale) -> Array:
    """Words of four weights: bytes, or (FINE) the numbers 256 * k1 + k0 and 256 * k3 + k2."""
    if not rescale.is_fine:
        return np.ascontiguousarray(rows).view(np.int32)
    wide = rows.astype(np.int32)
    return np.ascontiguousarray((256 * wide[:, 1::2] + wide[:, 0::2]).astype(np.int16)).view(np.int32)


def starts_of(layer: Contraction, rows: Array, rescale: Rescale) -> Array:
    """Words that the sums of channels start with, as words of weights (`quads_of`) need them."""
    starts = layer.starts(rescale)
    if not rescale.is_fine:
        return starts
    return low_words(starts + 127 * rescale.unit * rows[:, 1::2].sum(axis=1, dtype=np.int64))


class Layout:
    """Places of a tile: windows of the input as columns."""

    def __init__(self, layer: Contraction, pixels: int = 0, quad: int = 4, *, lines: int = 1) -> None:
        """Lay out the windows.

        Args:
            pixels: most pixels of a tile; 0: the best for `conv_1ch_int8`.
            quad: number of bytes that a row of a window is filled up to a multiple of.
            lines: rows of the output that a tile is of; several where windows are dense and have stride 1.
        """
        _, self.ih, self.iw, self.ic = layer.x.shape
        _, self.oh, self.ow, _ = layer.y.shape
        self.layer = layer
        self.channels = layer.channels
        self.window = window = layer.window
        kh, kw = window.size
        self.pointwise = window.is_pointwise(layer.x.shape, layer.y.shape)
        if self.pointwise:
            self.oh, self.ow = 1, self.oh * self.ow
            self.ih, self.iw = 1, self.ih * self.iw
        self.pixels = min(pixels, self.ow) or best_tile(self.ow)
        self.rows = kh
        self.used = kw * self.ic  # bytes of a row of the window
        self.row_quads = -(-self.used // quad)
        self.quads = kh * self.row_quads
        self.row_bytes = self.iw * self.ic * window.dilation[0]
        self.distance = window.stride[1] * self.ic
        self.buffer_bytes = 8 * self.quads * self.pixels
        self.lines = lines
        self.patch_rows = kh + lines - 1
        self.patch_columns = (self.pixels - 1) * window.stride[1] + kw
        self.overread_bytes = quad * self.row_quads - self.used  # bytes read past a row of the window
        self.patch_overlaid = False  # the copy of a tile's windows ends in the buffer, see `overlay_patch`

    @property
    def depth(self) -> int:
        """Weights of a channel."""
        return self.rows * self.used

    @property
    def _patch_word(self) -> int:
        """Word of the workspace at which the copy of a tile's windows begins: behind the buffer, or in it."""
        bytes_before = self._least_lead() if self.patch_overlaid else self.buffer_bytes
        return -(-bytes_before // 4)

    def overlay_patch(self) -> None:
        """Let the copy of a tile's windows lie in the buffer's last part, where it is read before it is replaced.

        For buffers that `widening.widen` fills: a row of the windows after the other, all pixels of four bytes at
        a time, which it has read before it writes them.
        """
        self.patch_overlaid = True

    def _least_lead(self) -> int:
        """Bytes from the buffer's start to the copy's such that nothing is written over what is yet to be read."""
        row = self.buffer_bytes // self.rows  # of the buffer
        copied = self.patch_columns * self.ic
        ends = [(n * row, n * copied) for n in range(1, self.rows)]  # written, next read
        last = self.row_quads - 1  # fours of a row before its last
        ends += [(n * row + 8 * self.pixels * last, n * copied + 4 * last) for n in range(self.rows)]
        return max(0, *(written - read for written, read in ends))

    @property
    def patch_bytes(self) -> int:
        """Bytes of a copy of a tile's windows, for those that reach over the border of the input."""
        if self.inside:
            return 0
        return self.patch_rows * self.patch_columns * self.ic + self.overread_bytes

    @property
    def inside(self) -> bool:
        """True when no tile's windows reach over the border of the input, nor past its end."""
        window = self.window
        below = (self.oh - 1) * window.stride[0] + (self.rows - 1) * window.dilation[0]
        right = (self.ow - self.pixels) * window.stride[1] + self.patch_columns
        end = (below * self.iw + right) * self.ic + self.overread_bytes
        fits = below < self.ih and right <= self.iw and end <= self.ih * self.iw * self.ic
        return fits and not any(window.before)

    @property
    def exceeds_offset_range(self) -> bool:
        """True when the instructions can't reach every place of a tile."""
        far = self.distance * (self.pixels - 1) + 4 * min(8, self.row_quads)
        return self.window.dilation[1] != 1 or far > MAX_OFFSET or self.quads > 8000

    def shortened(self) -> bool:
        """Leave out the last word of each row of the windows where it would hold nothing; whether that is so."""
        if self.overread_bytes != 3 or self.row_quads > _MAX_QUADS_OF_SHORT:
            return False
        self.buffer_bytes -= 4 * self.rows * self.pixels
        return True

    def _overlaps(self) -> Overlaps:
        """Distance at which every tile reads its windows before other tiles write over them."""
        tops = np.minimum(np.arange(0, self.oh, self.lines), self.oh - self.lines)[:, None]
        lefts = np.minimum(np.arange(0, self.ow, self.pixels), self.ow - self.pixels)
        window = self.window
        rows = window_starts(tops, window.stride[0], window.before[0], self.ih)
        columns = window_starts(lefts, window.stride[1], window.before[1], self.iw)
        read_from = (rows * self.iw + columns) * self.ic
        ends = ((tops + self.lines - 1) * self.ow + lefts + self.pixels) * self.channels
        written = np.maximum.accumulate(np.append(0, ends.reshape(-1)[:-1]))
        return of_parts(self.layer.x, self.layer.y, read_from.reshape(-1), written)

    def padded(self, weights: Array) -> Array:
        """Weights, a row a channel, with each row of the window filled up to fours with zeros."""
        rows = weights.reshape(-1, self.rows, self.used)
        return np.pad(rows, ((0, 0), (0, 0), (0, self.overread_bytes))).reshape(len(rows), -1)

    def kernel(
        self,
        tile: str,
        fast: str,
        helpers: Mapping[str, str],
        constants: tuple[Array, ...],
        suffix: str = "",
        *,
        channels: int = 1,
    ) -> Kernel:
        """The kernel of a layer, once ``buffer_bytes`` are those of its tiles.

        Args:
            tile: call for a tile, with ``{}`` for the place of its output.
            fast: function ``(input, buffer, row_bytes)`` that lays out the windows of a tile.
            suffix: of the family.
            channels: of a tile.
        """
        return self.layer.kernel(
            ("conv_1x1" if self.pointwise else "conv") + suffix,
            self._body(tile, fast, self.channels),
            helpers,
            constants,
            self._overlaps(),
            workspace_bytes=self.buffer_bytes
            if self.inside
            else max(self.buffer_bytes, 4 * self._patch_word + self.patch_bytes),
            tile=tile_of(channels, self.pixels, self.lines),
        )

    def _body(self, tile: str, fast: str, channels: int) -> str:
        """Loops over the tiles of every row; arguments as of `kernel`."""
        tail = self.ow - self.pixels
        window = self.window
        call = tile.format(f"y0 + (oy * {self.ow} + ox) * {channels}") + ";"
        if self.pointwise and self.inside:
            return f"""    const int32_t oy = 0;
    for (int32_t t = 0; t < {self.ow}; t += {self.pixels}) {{
        int32_t ox = t < {tail} ? t : {tail};
        {fast}(x0 + ox * {self.ic}, b0, 0);
        {call}
    }}
"""
        last = self.oh - self.lines
        head = f"    for (int32_t oy = 0; oy < {self.oh}; ++oy)\n"
        place = f"        int32_t ox = t < {tail} ? t : {tail};\n"
        if self.lines > 1:
            head = f"    for (int32_t s = 0; s < {self.oh}; s += {self.lines})\n"
            place = f"        int32_t oy = s < {last} ? s : {last};\n{place}"
        head += f"    for (int32_t t = 0; t < {self.ow}; t += {self.pixels}) {{\n{place}"
        if self.inside:
            return f"""{head}        {fast}(x0 + oy * {window.stride[0] * self.iw * self.ic} + ox * {self.distance}, b0, {self.row_bytes});
        {call}
    }}
"""
        row = self.iw * self.ic
        beyond = (
            f"\n            && below * {row} + right * {self.ic} + {self.overread_bytes} <= {self.ih * row}"
        )
        return f"""    int8_t *patch = (int8_t *)(b0 + {self._patch_word});
{head}        int32_t iy = oy * {window.stride[0]} - {window.before[0]};
        int32_t ix = ox * {window.stride[1]} - {window.before[1]};
        int32_t below = iy + {(self.patch_rows - 1) * window.dilation[0]};
        int32_t right = ix + {self.patch_columns};
        if (iy >= 0 && ix >= 0 && below < {self.ih} && right <= {self.iw}{beyond if self.overread_bytes else ""}) {{
            {fast}(x0 + (iy * {self.iw} + ix) * {self.ic}, b0, {self.row_bytes});
        }} else {{
            int32_t from = ix < 0 ? 0 : ix;
            int32_t to = right < {self.iw} ? right : {self.iw};
            memset(patch, {self.layer.x.zero_point}, {self.patch_bytes});
            for (int32_t r = 0; r < {self.patch_rows}; ++r, iy += {window.dilation[0]}) {{
                if (iy >= 0 && iy < {self.ih} && from < to) {{
                    memcpy(patch + r * {self.patch_columns * self.ic} + (from - ix) * {self.ic},
                           x0 + (iy * {self.iw} + from) * {self.ic}, (size_t)((to - from) * {self.ic}));
                }}
            }}
            {fast}(patch, b0, {self.patch_columns * self.ic});
        }}
        {call}
    }}
"""
