# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution with any window, in plain C without tests inside.

Rows of the input are read where they lie, or, where the window covers padding, from a ring of padded ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.depthwise_taps import row_kernel
from mlf_sdk.compiler.kernels.kernel import Kernel, Overlaps, of_parts, window_starts
from mlf_sdk.compiler.kernels.rescale import Chooser, choose_rescale, choose_short
from mlf_sdk.compiler.kernels.scaling import expression, helpers


def depthwise(layer: Contraction, choose: Chooser = choose_rescale) -> Kernel | None:
    """DEPTHWISE_CONV_2D of int8 values; None for a layer that this does not fit."""
    window = layer.window
    (kh, kw), across = window.size, window.stride[1]
    apart = window.dilation[0] != 1 or (window.dilation[1] != 1 and kw != 1)
    if not layer.is_int8() or (apart and not is_inside(layer)) or (window.dilation[1] != 1 and kw != 1):
        return None
    rescale = layer.rescale(choose)
    if rescale is None:
        return None
    channels, ow = layer.x.shape[3], layer.y.shape[2]
    words = np.concatenate([layer.starts(rescale)[:, None], rescale.rows], axis=1)
    constants = (np.ascontiguousarray(layer.rows).reshape(-1), words.reshape(-1))
    sums = "".join(f" + r[{j * channels}] * w[{j}]" for j in range(kw))
    each = (
        f"\n            for (int32_t k = 0; k < {layer.multiplier}; ++k, p += 4)"
        if layer.multiplier > 1
        else ""
    )
    rows_of = rows_inside if is_inside(layer) else ring_of_rows
    body, ring_bytes, overlaps = rows_of(
        layer,
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
    texts = helpers(rescale.form)
    kernel = layer.kernel("depthwise", body, texts, constants, overlaps, workspace_bytes=ring_bytes)
    return replace(kernel, of_row=row_kernel(layer, rescale, constants))


def is_inside(layer: Contraction) -> bool:
    """True for windows that cover no padding."""
    window, extents = layer.window, zip(layer.x.shape[1:3], layer.y.shape[1:3], strict=True)
    ends = [
        (extent - 1) * step + (size - 1) * apart < given
        for (given, extent), step, size, apart in zip(
            extents, window.stride, window.size, window.dilation, strict=True
        )
    ]
    return window.before == (0, 0) and all(ends)


def rows_inside(layer: Contraction, compute: str) -> tuple[str, int, Overlaps]:
    """Body of a kernel whose windows cover no padding, no bytes, and the overlaps; ``compute`` as below."""
    x, y, window = layer.x, layer.y, layer.window
    (kh, _), (down, _), apart = window.size, window.stride, window.dilation[0]
    oh, row = y.shape[1], x.shape[2] * x.shape[3]
    body = f"""    for (int32_t oy = 0; oy < {oh}; ++oy) {{
        const int8_t *rows[{kh}];
        for (int32_t i = 0; i < {kh}; ++i) {{
            rows[i] = x0 + (oy * {down} + i * {apart}) * {row};
        }}
{compute}    }}
"""
    rows = np.arange(oh)
    return body, 0, of_parts(x, y, rows * (down * row), (rows + 1) * (y.shape[2] * y.shape[3]))


def ring_of_rows(
    layer: Contraction, compute: str, copy: str = "memcpy", fill: str = "memset"
) -> tuple[str, int, Overlaps]:
    """Body of a kernel that keeps the padded rows of a window in a ring; its bytes in ``b0``, and the overlaps.

    Args:
        compute: C text for a row of the output; ``rows`` has the rows of the window.
        copy, fill: functions that copy a row and fill one, with a byte without its sign unless it is ``memset``;
            ``@`` in the name of the former stands for the bytes of a row, which it is not given then.
    """
    x, y, window = layer.x, layer.y, layer.window
    _, ih, iw, channels = x.shape
    _, oh, ow, _ = y.shape
    (kh, kw), (down, across) = window.size, window.stride
    columns = (ow - 1) * across + kw
    row = columns * channels
    written = ow * y.shape[3]
    left = window.before[1] * channels
    inner = copied_bytes(layer)
    size = "" if "@" in copy else f", {inner}"
    fill_value = x.zero_point if fill == "memset" else x.zero_point & 255
    body = f"""    int8_t *ring = (int8_t *)b0;
    int32_t loaded = 0;
    {fill}(ring, {fill_value}, {kh * row});
    for (int32_t oy = 0; oy < {oh}; ++oy) {{
        for (; loaded < oy * {down} + {kh}; ++loaded) {{
            int32_t iy = loaded - {window.before[0]};
            int8_t *r = ring + loaded % {kh} * {row};
            if (iy >= 0 && iy < {ih}) {{
                {copy.replace("@", str(inner))}(r + {left}, x0 + iy * {iw * channels}{size});
            }} else {{
                {fill}(r, {fill_value}, {row});
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


def copied_bytes(layer: Contraction) -> int:
    """Bytes of a row of the input that `ring_of_rows` copies."""
    _, _, width, channels = layer.x.shape
    columns = (layer.y.shape[2] - 1) * layer.window.stride[1] + layer.window.size[1]
    return int(min(width, columns - layer.window.before[1]) * channels)


def short_depthwise(layer: Contraction) -> Kernel | None:
    """`depthwise` for cores without long products."""
    return depthwise(layer, choose_short)
