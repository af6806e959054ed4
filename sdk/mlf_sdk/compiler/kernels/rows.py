# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution with any window, in plain C: padded rows of the input in a ring, no tests inside."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.overlap import Overlaps, of_parts, window_starts
from mlf_sdk.compiler.kernels.rescale import Form, choose_rescale, sum_bounds
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.kernels.split import Chooser, choose_short
from mlf_sdk.compiler.operators import DepthwiseConv2D, Window
from mlf_sdk.compiler.scales import channel_multipliers


def depthwise(graph: Graph, operator: DepthwiseConv2D, choose: Chooser = choose_rescale) -> Kernel | None:
    """DEPTHWISE_CONV_2D of int8 values; None for a layer that this does not fit."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    window = operator.window
    (kh, kw), across = window.size, window.stride[1]
    fits = x.dtype == np.int8 and weights.dtype == np.int8 and window.dilation == (1, 1)
    if not fits or x.shape[0] != 1 or weights.data is None:
        return None
    channels, outputs, ow = x.shape[3], y.shape[3], y.shape[2]
    flat = weights.data.reshape(kh * kw, outputs).T
    bias = graph.bias(operator)
    bounds = sum_bounds(flat, bias, -128 - x.zero_point, 127 - x.zero_point)
    rescale = choose(channel_multipliers(x, weights, y, outputs), y.zero_point, bounds, operator.clamp)
    if rescale.form is Form.GENERAL:
        return None
    folded = rescale.folded(bias, flat, x.zero_point)
    words = np.concatenate([folded[:, None], rescale.rows], axis=1).astype(np.int32)
    constants = (np.ascontiguousarray(flat).reshape(-1), np.ascontiguousarray(words).reshape(-1))
    sums = "".join(f" + r[{j * channels}] * w[{j}]" for j in range(kw))
    each = (
        f"\n            for (int32_t k = 0; k < {operator.multiplier}; ++k, p += 4)"
        if operator.multiplier > 1
        else ""
    )
    body, ring_bytes, overlaps = ring_of_rows(
        x,
        y,
        window,
        f"""        for (int32_t ox = 0; ox < {ow}; ++ox) {{
            const int8_t *w = p0;
            const int32_t *p = p1;
            for (int32_t c = ox * {across * channels}, end = c + {channels}; c < end; ++c{"" if each else ", p += 4"}){each} {{
                int32_t sum = p[0];
                for (int32_t i = 0; i < {kh}; ++i, w += {kw}) {{
                    const int8_t *r = rows[i] + c;
                    sum += {sums.removeprefix(" + ")};
                }}
                *y0++ = (int8_t){expression(rescale, "sum", "p + 1")};
            }}
        }}
""",
    )
    return Kernel(
        family="depthwise",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers=helpers(rescale.form),
        constants=constants,
        workspace_bytes=ring_bytes,
        overlaps=overlaps,
    )


def ring_of_rows(
    x: Value, y: Value, window: Window, compute: str, copy: str = "memcpy"
) -> tuple[str, int, Overlaps]:
    """Body of a kernel that keeps the padded rows of a window in a ring; its bytes in ``b0``, and the overlaps.

    Args:
        compute: C text for a row of the output; ``rows`` has the rows of the window.
        copy: function that copies a row.
    """
    _, ih, iw, channels = x.shape
    _, oh, ow, _ = y.shape
    (kh, kw), (down, across) = window.size, window.stride
    columns = (ow - 1) * across + kw
    row = columns * channels
    written = ow * y.shape[3]
    left = window.before[1] * channels
    inner = min(iw, columns - window.before[1]) * channels
    body = f"""    int8_t *ring = (int8_t *)b0;
    int32_t loaded = 0;
    for (int32_t oy = 0; oy < {oh}; ++oy) {{
        for (; loaded < oy * {down} + {kh}; ++loaded) {{
            int32_t iy = loaded - {window.before[0]};
            int8_t *r = ring + loaded % {kh} * {row};
            memset(r, {x.zero_point}, {row});
            if (iy >= 0 && iy < {ih}) {{
                {copy}(r + {left}, x0 + iy * {iw * channels}, {inner});
            }}
        }}
        const int8_t *rows[{kh}];
        for (int32_t i = 0; i < {kh}; ++i) {{
            rows[i] = ring + (oy * {down} + i) % {kh} * {row};
        }}
{compute}    }}
"""
    starts = window_starts(np.arange(1, oh) * down + kh - down, 1, window.before[0], ih)
    read_from = np.append(0, starts) * (iw * channels)
    return body, kh * row, of_parts(x, y, read_from, np.arange(oh) * written)


def short_depthwise(graph: Graph, operator: DepthwiseConv2D) -> Kernel | None:
    """`depthwise` for cores without long products."""
    return depthwise(graph, operator, choose_short)
