# SPDX-License-Identifier: Apache-2.0
"""Convolution and matrix products of int8 values in tiles of pixels."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET
from mlf_sdk.compiler.kernels.conv_1ch_int8 import best_tile, tile_times_channels, widen
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.overlap import Overlaps, of_parts, window_starts
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, choose_fine, choose_rescale, low_words, sum_bounds
from mlf_sdk.compiler.kernels.spill import weights_of
from mlf_sdk.compiler.operators import Array, Conv2D, Window
from mlf_sdk.compiler.requantise import Multiplier
from mlf_sdk.compiler.scales import channel_multipliers

UNROLL = 36


def tiled(graph: Graph, operator: Conv2D, pixels: int = 0) -> Kernel | None:
    """CONV_2D by tiles of up to five pixels; None for a layer that this does not fit.

    Args:
        pixels: of a tile; 0: the best by rule.
    """
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    if not is_plain_int8(x, weights):
        return None
    channels = y.shape[3]
    layout = Layout(x, weights, y, operator.window, pixels)
    most = MAX_OFFSET // channels + 1
    if not pixels and layout.pixels > most:
        layout = Layout(x, weights, y, operator.window, most)
    split = weights_of(weights, layout.quads)
    if split is None or layout.unfit or channels * (layout.pixels - 1) > MAX_OFFSET:
        return None
    main, spill = split
    flat = layout.padded(main).reshape(channels, -1)
    if spill is not None:
        flat = np.concatenate([flat, spill.weights], axis=1)
    multipliers = channel_multipliers(x, weights, y, channels)
    rescale = rescale_of(flat, graph.bias(operator), x, y, multipliers, operator.clamp)
    if rescale.form is Form.GENERAL:
        return None
    stream = pack(flat, graph.bias(operator), x.zero_point, rescale)
    short = (
        spill is None
        and layout.spare == 3
        and rescale.is_fine
        and layout.quads <= UNROLL
        and layout.row_quads <= 8
    )
    if short:  # the last word of each row holds nothing
        layout.buffer_bytes -= 4 * layout.rows * layout.pixels
    tile, helpers = tile_times_channels(
        layout.pixels,
        layout.quads + (spill.quads if spill else 0),
        channels,
        rescale,
        unroll=UNROLL,
        short=layout.row_quads if short else 0,
    )
    fast, text = widen(
        layout.pixels, layout.distance, layout.rows, layout.row_quads, fine=rescale.is_fine, short=short
    )
    helpers = {**helpers, fast: text}
    if spill is not None:
        layout.buffer_bytes += 8 * spill.quads * layout.pixels
        fast, text = spill.widen(
            fast, layout.pixels, layout.distance, layout.used, layout.quads, fine=rescale.is_fine
        )
        helpers = {**helpers, fast: text}
    call = f"{tile}(b0, p0, {{}}, {channels})"
    return layout.kernel(graph, operator, call, fast, helpers, (stream,))


def is_plain_int8(x: Value, weights: Value) -> bool:
    """True for a convolution of one int8 image without groups."""
    return x.dtype == np.int8 and x.shape[0] == 1 and weights.shape[3] == x.shape[3]


def rescale_of(
    rows: Array,
    bias: Array,
    x: Value,
    y: Value,
    multipliers: tuple[Multiplier, ...],
    clamp: tuple[float, float],
) -> Rescale:
    """Requantisation of a layer whose weights are ``rows``, a row a channel."""
    bounds = sum_bounds(rows, bias, -128 - x.zero_point, 127 - x.zero_point)
    fine = choose_fine(multipliers, y.zero_point, bounds, clamp) if rows.min(initial=0) > -128 else None
    return fine or choose_rescale(multipliers, y.zero_point, bounds, clamp)


def pack(rows: Array, bias: Array, zero_point: int, rescale: Rescale) -> Array:
    """Stream of all channels: bias, words of four weights, requantisation."""
    biases, words = biases_of(rows, bias, zero_point, rescale), quads_of(rows, rescale)
    return np.concatenate([biases[:, None], words, rescale.rows], axis=1).reshape(-1)


def quads_of(rows: Array, rescale: Rescale) -> Array:
    """Words of four weights: bytes, or (FINE) the numbers 256 * k1 + k0 and 256 * k3 + k2."""
    if not rescale.is_fine:
        return np.ascontiguousarray(rows).view(np.int32)
    wide = rows.astype(np.int32)
    return np.ascontiguousarray((256 * wide[:, 1::2] + wide[:, 0::2]).astype(np.int16)).view(np.int32)


def biases_of(rows: Array, bias: Array, zero_point: int, rescale: Rescale) -> Array:
    """Biases with what the zero point contributes, as the sums of the inner loops need them."""
    found = rescale.folded(bias, rows, zero_point)
    if rescale.is_fine:
        found += 127 * rows[:, 1::2].sum(axis=1, dtype=np.int64)
    return low_words(found * rescale.unit)


class Layout:
    """Places of a tile: windows of the input as columns."""

    def __init__(
        self, x: Value, weights: Value, y: Value, window: Window, pixels: int = 0, quad: int = 4
    ) -> None:
        """Lay out the windows.

        Args:
            pixels: most pixels of a tile; 0: the best for `conv_1ch_int8`.
            quad: number of bytes that a row of a window is filled up to a multiple of.
        """
        _, self.ih, self.iw, self.ic = x.shape
        _, self.oh, self.ow, _ = y.shape
        self.window = window
        self.zero_point = x.zero_point
        kh, kw = window.size
        self.pointwise = window.is_pointwise(x.shape, y.shape)
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
        self.patch_columns = (self.pixels - 1) * window.stride[1] + kw
        self.spare = quad * self.row_quads - self.used  # bytes read past a row of the window

    @property
    def _buffer_words(self) -> int:
        """Words of the buffer, behind which the copy of a tile's windows begins."""
        return -(-self.buffer_bytes // 4)

    @property
    def patch_bytes(self) -> int:
        """Bytes of a copy of a tile's windows, for those that reach over the border of the input."""
        if self.inside:
            return 0
        return self.rows * self.patch_columns * self.ic + self.spare

    @property
    def inside(self) -> bool:
        """True when no tile's windows reach over the border of the input, nor past its end."""
        window = self.window
        below = (self.oh - 1) * window.stride[0] + (self.rows - 1) * window.dilation[0]
        right = (self.ow - self.pixels) * window.stride[1] + self.patch_columns
        end = (below * self.iw + right) * self.ic + self.spare
        fits = below < self.ih and right <= self.iw and end <= self.ih * self.iw * self.ic
        return fits and not any(window.before)

    @property
    def unfit(self) -> bool:
        """True when the instructions can't reach every place of a tile."""
        far = self.distance * (self.pixels - 1) + 4 * min(8, self.row_quads)
        return self.window.dilation[1] != 1 or far > MAX_OFFSET or self.quads > 8000

    def _overlaps(self, x: Value, y: Value) -> Overlaps:
        """Distance at which every tile reads its windows before other tiles write over them."""
        first = np.minimum(np.arange(0, self.ow, self.pixels), self.ow - self.pixels)
        window = self.window
        rows = window_starts(np.arange(self.oh), window.stride[0], window.before[0], self.ih)
        columns = window_starts(first, window.stride[1], window.before[1], self.iw)
        read_from = (rows[:, None] * self.iw + columns) * self.ic
        ends = (np.arange(self.oh)[:, None] * self.ow + first + self.pixels) * y.shape[3]
        return of_parts(x, y, read_from.reshape(-1), np.append(0, ends.reshape(-1)[:-1]))

    def padded(self, weights: Array) -> Array:
        """Weights with each row of the window filled up to fours with zeros."""
        rows = weights.reshape(weights.shape[0], self.rows, self.used)
        return np.pad(rows, ((0, 0), (0, 0), (0, self.spare)))

    def kernel(
        self,
        graph: Graph,
        operator: Conv2D,
        tile: str,
        fast: str,
        helpers: dict[str, str],
        constants: tuple[Array, ...],
        suffix: str = "",
    ) -> Kernel:
        """The kernel of a layer, once ``buffer_bytes`` are those of its tiles.

        Args:
            tile: call for a tile, with ``{}`` for the place of its output.
            fast: function ``(input, buffer, row_bytes)`` that lays out the windows of a tile.
            suffix: of the family.
        """
        x, (y,) = graph.read(operator)[0], graph.written(operator)
        return Kernel(
            family=("conv_1x1" if self.pointwise else "conv") + suffix,
            parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
            body=self._body(tile, fast, y.shape[3]),
            helpers=helpers,
            constants=constants,
            workspace_bytes=self.buffer_bytes if self.inside else 4 * self._buffer_words + self.patch_bytes,
            overlaps=self._overlaps(x, y),
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
        if self.inside:
            return f"""    for (int32_t oy = 0; oy < {self.oh}; ++oy)
    for (int32_t t = 0; t < {self.ow}; t += {self.pixels}) {{
        int32_t ox = t < {tail} ? t : {tail};
        {fast}(x0 + oy * {window.stride[0] * self.iw * self.ic} + ox * {self.distance}, b0, {self.row_bytes});
        {call}
    }}
"""
        last_row = (self.ih - 1) * self.iw * self.ic
        return f"""    int8_t *patch = (int8_t *)(b0 + {self._buffer_words});
    for (int32_t oy = 0; oy < {self.oh}; ++oy)
    for (int32_t t = 0; t < {self.ow}; t += {self.pixels}) {{
        int32_t ox = t < {tail} ? t : {tail};
        int32_t iy = oy * {window.stride[0]} - {window.before[0]};
        int32_t ix = ox * {window.stride[1]} - {window.before[1]};
        int32_t below = iy + {(self.rows - 1) * window.dilation[0]};
        int32_t right = ix + {self.patch_columns};
        if (iy >= 0 && ix >= 0 && below < {self.ih} && right <= {self.iw}
            && below * {self.iw * self.ic} + right * {self.ic} + {self.spare} <= {last_row + self.iw * self.ic}) {{
            {fast}(x0 + (iy * {self.iw} + ix) * {self.ic}, b0, {self.row_bytes});
        }} else {{
            int32_t from = ix < 0 ? 0 : ix;
            int32_t to = right < {self.iw} ? right : {self.iw};
            memset(patch, {self.zero_point}, {self.patch_bytes});
            for (int32_t r = 0; r < {self.rows}; ++r, iy += {window.dilation[0]}) {{
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
