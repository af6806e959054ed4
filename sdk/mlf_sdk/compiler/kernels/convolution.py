# SPDX-License-Identifier: Apache-2.0
"""Convolution and matrix products of int8 values in tiles of pixels."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.gemm import best_tile, rows_times_vector, tile_times_channels, widen
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, choose_rescale, sum_bounds
from mlf_sdk.compiler.operators import Array, Conv2D, FullyConnected, Window
from mlf_sdk.compiler.scales import channel_multipliers, dense_multipliers

MAX_OFFSET = 4095  # of a load or store with a constant offset, in bytes
UNROLL = 12


def tiled(graph: Graph, operator: Conv2D) -> Kernel | None:
    """CONV_2D by tiles of up to five pixels; None for a layer that this does not fit."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    if x.dtype != np.int8 or weights.dtype != np.int8 or x.shape[0] != 1 or weights.shape[3] != x.shape[3]:
        return None
    layout = _Layout(x, weights, y, operator.window)
    if layout.unfit:
        return None
    channels = y.shape[3]
    flat = weights.constant.reshape(channels, -1)
    start = graph.bias(operator)
    bounds = sum_bounds(flat, start, -128 - x.zero_point, 127 - x.zero_point)
    rescale = choose_rescale(
        channel_multipliers(x, weights, y, channels), y.zero_point, bounds, operator.clamp
    )
    if rescale.form is Form.GENERAL:
        return None
    doubled = layout.quads * 2 < channels
    stream = pack(layout.padded(weights.constant), start * (2 if doubled else 1), rescale)
    tile, helpers = tile_times_channels(
        layout.pixels, layout.quads, channels, rescale, doubled=doubled, unroll=UNROLL
    )
    fast, text = widen(layout.pixels, layout.distance, layout.rows, layout.row_quads, doubled=doubled)
    helpers[fast] = text
    constants = (stream,)
    return Kernel(
        family="conv_1x1" if layout.pointwise else "conv",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=layout.body(tile, fast, channels, doubled=doubled),
        helpers=helpers,
        constants=constants,
        workspace_bytes=layout.quads * 8 * layout.pixels + layout.patch_bytes,
        macs=y.elements * flat.shape[1],
    )


def pack(rows: Array, bias: Array, rescale: Rescale) -> Array:
    """Stream of all channels: bias, words of four weights, requantisation."""
    words = np.ascontiguousarray(rows.reshape(rows.shape[0], -1)).view(np.int32)
    stream = np.concatenate([rescale.bias(bias)[:, None].astype(np.int32), words, rescale.rows], axis=1)
    return np.ascontiguousarray(stream.reshape(-1))


class _Layout:
    """Places of a tile: windows of the input as columns."""

    def __init__(self, x: Value, weights: Value, y: Value, window: Window) -> None:
        _, self.ih, self.iw, self.ic = x.shape
        _, self.oh, self.ow, _ = y.shape
        self.window = window
        self.zero_point = x.zero_point
        kh, kw = window.size
        self.pointwise = window.size == (1, 1) and window.stride == (1, 1)
        if self.pointwise:
            self.oh, self.ow = 1, self.oh * self.ow
            self.ih, self.iw = 1, self.ih * self.iw
        self.pixels = best_tile(self.ow)
        self.rows = kh
        self.used = kw * self.ic  # bytes of a row of the window
        self.row_quads = -(-self.used // 4)
        self.quads = kh * self.row_quads
        self.row_bytes = self.iw * self.ic * window.dilation[0]
        self.distance = window.stride[1] * self.ic
        self.patch_columns = (self.pixels - 1) * window.stride[1] + kw
        self.spare = 4 * self.row_quads - self.used  # bytes read past a row of the window

    @property
    def patch_bytes(self) -> int:
        """Bytes of a copy of a tile's windows, for those that reach over the border of the input."""
        if self.pointwise and not self.spare:
            return 0
        return self.rows * self.patch_columns * self.ic + self.spare

    @property
    def unfit(self) -> bool:
        """True when the instructions can't reach every place of a tile."""
        far = self.distance * (self.pixels - 1) + 4 * min(8, self.row_quads)
        return self.window.dilation[1] != 1 or far > MAX_OFFSET or self.quads > 8000

    def padded(self, weights: Array) -> Array:
        """Weights with each row of the window filled up to fours with zeros."""
        rows = weights.reshape(weights.shape[0], self.rows, self.used)
        return np.pad(rows, ((0, 0), (0, 0), (0, self.spare)))

    def body(self, tile: str, fast: str, channels: int, *, doubled: bool) -> str:
        """Loops over the tiles of every row."""
        packed = (-self.zero_point & 0xFFFF) * 0x10001
        tail = self.ow - self.pixels
        window = self.window
        call = f"{tile}(b0, p0, y0 + (oy * {self.ow} + ox) * {channels}, {channels});"
        if self.pointwise and not self.spare:
            return f"""    const int32_t oy = 0;
    for (int32_t t = 0; t < {self.ow}; t += {self.pixels}) {{
        int32_t ox = t < {tail} ? t : {tail};
        {fast}(x0 + ox * {self.ic}, b0, 0x{packed:08x}u, 0);
        {call}
    }}
"""
        last_row = (self.ih - 1) * self.iw * self.ic
        return f"""    int8_t *patch = (int8_t *)(b0 + {self.quads * 2 * self.pixels});
    for (int32_t oy = 0; oy < {self.oh}; ++oy)
    for (int32_t t = 0; t < {self.ow}; t += {self.pixels}) {{
        int32_t ox = t < {tail} ? t : {tail};
        int32_t iy = oy * {window.stride[0]} - {window.before[0]};
        int32_t ix = ox * {window.stride[1]} - {window.before[1]};
        int32_t below = iy + {(self.rows - 1) * window.dilation[0]};
        int32_t right = ix + {self.patch_columns};
        if (iy >= 0 && ix >= 0 && below < {self.ih} && right <= {self.iw}
            && below * {self.iw * self.ic} + right * {self.ic} + {self.spare} <= {last_row + self.iw * self.ic}) {{
            {fast}(x0 + (iy * {self.iw} + ix) * {self.ic}, b0, 0x{packed:08x}u, {self.row_bytes});
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
            {fast}(patch, b0, 0x{packed:08x}u, {self.patch_columns * self.ic});
        }}
        {call}
    }}
"""


def dense(graph: Graph, operator: FullyConnected) -> Kernel | None:
    """FULLY_CONNECTED of one row: four outputs at a time, the input widened once."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    if (
        x.dtype != np.int8
        or weights.dtype != np.int8
        or weights.data is None
        or x.elements != weights.shape[1]
    ):
        return None
    outputs, inputs = weights.shape
    start = graph.bias(operator)
    bounds = sum_bounds(weights.data, start, -128 - x.zero_point, 127 - x.zero_point)
    rescale = choose_rescale(dense_multipliers(x, weights, y, outputs), y.zero_point, bounds, operator.clamp)
    if rescale.form is Form.GENERAL:
        return None
    quads = -(-inputs // 4)
    groups = -(-outputs // 4)
    padded = np.pad(weights.data, ((0, 4 * groups - outputs), (0, 4 * quads - inputs)))
    words = padded.view(np.int32).reshape(groups, 4, quads).transpose(0, 2, 1).reshape(groups, -1)
    biases = np.pad(rescale.bias(start), (0, 4 * groups - outputs)).reshape(groups, 4).astype(np.int32)
    rows = np.pad(rescale.rows, ((0, 4 * groups - outputs), (0, 0)), mode="edge").reshape(groups, 12)
    constants = (np.ascontiguousarray(np.concatenate([biases, words, rows], axis=1).reshape(-1)),)
    name, helpers = rows_times_vector(quads, rescale, unroll=UNROLL)
    body = f"""    int16_t *v = (int16_t *)b0;
    memset(v, 0, {8 * quads});
    for (int32_t i = 0; i < {inputs}; ++i) {{
        v[i / 4 * 4 + i % 2 * 2 + i % 4 / 2] = (int16_t)(x0[i] - ({x.zero_point}));
    }}
    {name}(b0, p0, y0, {outputs});
"""
    return Kernel(
        family="dense",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers=helpers,
        constants=constants,
        workspace_bytes=8 * quads,
        macs=outputs * inputs,
    )
