# SPDX-License-Identifier: Apache-2.0
"""Layers with weights in the least flash: one function for all of a model, their shapes beside their weights.

Convolutions, depthwise ones and matrix products differ in numbers alone, which stand before the biases of a
layer as 16-bit words. A channel takes a bias, a multiplier and a shift of one byte beside its weights; a
layer of one scale has a single multiplier.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import DSP, INCLUDE_ACLE
from mlf_sdk.compiler.kernels.contraction import Contraction, Kind
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type
from mlf_sdk.compiler.kernels.scaling import RESCALE_INT64
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.requantise import Multiplier

_HEAD: Final = 20  # 16-bit words
_MOST: Final = (1 << 15) - 1
_SCALE: Final = """static MLF_NOINLINE int32_t scale_rounded(int32_t a, int32_t q, int32_t shift)
{
    if (shift > 0) {
        a = (int32_t)((uint32_t)a << shift);
        shift = 0;
    }
    int32_t h = (int32_t)(((int64_t)a * q + ((int64_t)1 << 30)) >> 31);
    int32_t mask = (int32_t)((1u << -shift) - 1u);
    return (h >> -shift) + ((h & mask) > (mask >> 1) + (h < 0));
}
"""
_FOURS: Final = f"""#if {DSP}
                            int32_t offsets = (int32_t)((uint16_t)-h[15] * 0x10001u);
                            for (; k + 4 <= h[6]; k += 4) {{
                                uint32_t a, b;
                                memcpy(&a, v + k, 4);
                                memcpy(&b, w + k, 4);
                                sum = __smlad(__sxtab16(offsets, (int32_t)a), __sxtb16((int32_t)b), sum);
                                sum = __smlad(__sxtab16(offsets, (int32_t)(a >> 8)), __sxtb16((int32_t)(b >> 8)), sum);
                            }}
#endif
"""


def compact(layer: Contraction) -> Kernel | None:
    """Any layer of stored values; None for several images, groups and multiplied channels."""
    mixed = layer.multiplier != 1 if layer.kind is Kind.DEPTHWISE else layer.is_grouped
    if not layer.is_constant or layer.x.shape[0] != 1 or layer.y.dtype.kind == "f" or mixed:
        return None
    head, scales = _head(layer)
    shapes = (*layer.x.shape, *layer.y.shape)
    if min(shapes) < 1 or min(head) < -_MOST - 1 or max(head) > _MOST:  # more than 16 bits
        return None
    words: list[Array] = [
        np.array(head + [0] * (_HEAD - len(head)), np.int16),
        layer.bias.astype(np.uint32),
    ]
    if layer.has_wide_sums:
        words.append((layer.bias >> 32).astype(np.int32))
    words.append(np.array([m.value for m in scales], np.int32))
    words.append(np.array([m.shift for m in scales], np.int8))
    stream = b"".join(part.tobytes() for part in (*words, np.ascontiguousarray(layer.rows)))
    constants = (np.frombuffer(stream + bytes(-len(stream) % 4), np.int32),)
    name, text = _function(layer)
    scale = {"scale_wide": RESCALE_INT64} if layer.has_wide_sums else {"scale_rounded": _SCALE}
    point = layer.kind is Kind.CONVOLUTION and layer.window.size == (1, 1)
    return layer.kernel(
        "conv_1x1" if point else layer.kind.value,
        f"    {name}(x0, p0, y0);\n",
        {**scale, name: text},
        constants,
        layer.overlaps,
        variant="compact",
    )


def _head(layer: Contraction) -> tuple[list[int], tuple[Multiplier, ...]]:
    """Numbers of a layer, which its function reads, and its multipliers: one where all channels have the same."""
    window, read, outputs = layer.window, layer.x.shape[1:], layer.channels
    scales = layer.multipliers[:1] if layer.has_one_scale else layer.multipliers
    low, high = (int(limit) for limit in layer.clamp)
    first = [-before for before in window.before]  # row and column of the first window, in the input
    ends = [f + n * step for f, n, step in zip(first, layer.y.shape[1:3], window.stride, strict=True)]
    spans = [n * apart for n, apart in zip(window.size, window.dilation, strict=True)]
    numbers = [
        *read, *ends, outputs, layer.depth, *spans, *window.stride, *first,
        int(layer.depth < read[2]), len(scales), layer.x.zero_point, layer.y.zero_point, low, high,
        layer.weights.zero_point,
    ]  # fmt: skip
    return numbers, scales


def _function(layer: Contraction) -> tuple[str, str]:
    """Name and text of the function that computes all layers of these types and this dilation."""
    (down, across), offset = layer.window.dilation, layer.weights.zero_point != 0
    values, wide, wraps = (layer.x, layer.weights, layer.y), layer.has_wide_sums, layer.wraps
    x, w, y = (c_type(v.dtype) for v in values)
    types = "_".join(v.dtype.name for v in values)
    name = f"compact_{types}_{down}_{across}{'_offset' if offset else ''}{'_32' if wraps else ''}"
    start = f"{'(uint32_t)' if wraps else ''}p[{_HEAD // 2} + c]"
    if wide:
        high = f"p[{_HEAD // 2} + h[5] + c]"
        start = f"(int64_t)((uint64_t)(uint32_t){start} | (uint64_t)(uint32_t){high} << 32)"
    product = f"(v[k] - h[15]) * {'(w[k] - h[19])' if offset else 'w[k]'}"
    product, total = (f"(uint32_t)({product})", "(int32_t)sum") if wraps else (product, "sum")
    bytes_ = x == w == y == "int8_t" and not offset
    include, fours = (INCLUDE_ACLE, _FOURS) if bytes_ else ("", "")
    text = f"""{include}static void {name}(const {x} *x, const int32_t *p, {y} *y)
{{
    typedef int16_t MLF_MAY_ALIAS number_t; /* stands in words of another type */
    const number_t *h = (const number_t *)p;
    const int32_t *scales = p + {_HEAD // 2} + {"2 * " if wide else ""}h[5];
    const int8_t *shifts = (const int8_t *)(scales + h[14]);
    int32_t top = h[11];
    do {{
        int32_t left = h[12];
        do {{
            const {w} *w = (const {w} *)(shifts + h[14]);
            int32_t c = 0;
            do {{
                {layer.sum_type} sum = {start};
                int32_t iy = top;
                do {{
                    int32_t ix = left;
                    do {{
                        if ((uint32_t)iy < (uint32_t)h[0] && (uint32_t)ix < (uint32_t)h[1]) {{
                            const {x} *v = x + (iy * h[1] + ix) * h[2] + c * h[13];
                            int32_t k = 0;
{fours}                            for (; k < h[6]; ++k) {{
                                sum += {product};
                            }}
                        }}
                        w += h[6];
                        ix += {across};
                    }} while (ix != left + h[8]);
                    iy += {down};
                }} while (iy != top + h[7]);
                int32_t one = h[14] > 1 ? c : 0;
                int32_t value = {"scale_wide" if wide else "scale_rounded"}({total}, scales[one], shifts[one]) + h[16];
                *y++ = ({y})(value < h[17] ? h[17] : value > h[18] ? h[18] : value);
            }} while (++c != h[5]);
            left += h[10];
        }} while (left != h[4]);
        top += h[9];
    }} while (top != h[3]);
}}
"""
    return name, text
