# SPDX-License-Identifier: Apache-2.0
"""Layers with weights in the least flash: one function for all of a model, their shapes beside their weights.

Convolutions, depthwise ones and matrix products differ in numbers alone, which stand before the biases of a
layer as 16-bit words. A channel takes a bias, a multiplier and a shift of one byte beside its weights; a
layer of one scale has a single multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.assembly import DSP, INCLUDE_ACLE
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type
from mlf_sdk.compiler.kernels.overlap import Overlaps, of_parts, of_windows
from mlf_sdk.compiler.kernels.scaling import RESCALE_INT64
from mlf_sdk.compiler.operators import Array, Conv2D, DepthwiseConv2D, FullyConnected, Window
from mlf_sdk.compiler.requantise import Multiplier
from mlf_sdk.compiler.scales import channel_multipliers, dense_multipliers, has_wide_sums

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


def convolution(graph: Graph, operator: Conv2D | DepthwiseConv2D) -> Kernel | None:
    """CONV_2D and DEPTHWISE_CONV_2D; None for floats, several images, groups and multiplied channels."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    n, _, _, channels = x.shape
    outputs = y.shape[3]
    depthwise = isinstance(operator, DepthwiseConv2D)
    if weights.data is None or n != 1 or y.dtype.kind == "f":
        return None
    if outputs != channels if depthwise else weights.shape[3] != channels:
        return None
    data = weights.data.reshape(-1, outputs).T if depthwise else weights.data
    wide, depth = has_wide_sums(graph, operator), 1 if depthwise else channels
    layer = _Layer(x, weights, y, wide, operator.window, x.shape[1:], y.shape[1:], depth)
    return layer.kernel(
        graph,
        operator,
        "depthwise" if depthwise else "conv_1x1" if operator.window.size == (1, 1) else "conv",
        data,
        channel_multipliers(x, weights, y, outputs),
        of_windows(x, y, operator.window, outputs - 1),
    )


def fully_connected(graph: Graph, operator: FullyConnected) -> Kernel | None:
    """FULLY_CONNECTED; None for floats."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    if weights.data is None or y.dtype.kind == "f":
        return None
    outputs, inputs = weights.shape
    rows = x.elements // inputs
    point = Window(size=(1, 1), stride=(1, 1), dilation=(1, 1), before=(0, 0))
    wide = has_wide_sums(graph, operator)
    layer = _Layer(x, weights, y, wide, point, (1, rows, inputs), (1, rows, outputs), inputs)
    overlaps = of_parts(x, y, np.arange(rows) * inputs, np.arange(1, rows + 1) * outputs - 1)
    multipliers = dense_multipliers(x, weights, y, outputs)
    return layer.kernel(graph, operator, "dense", weights.data, multipliers, overlaps)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Numbers of a layer, and the function that reads them.

    Attributes:
        wide: sums have 64 bits.
        read, written: height, width and channels of the input and of the output.
        depth: channels of the input that one of the output reads.
    """

    x: Value
    weights: Value
    y: Value
    wide: bool
    window: Window
    read: tuple[int, ...]
    written: tuple[int, ...]
    depth: int

    @property
    def wraps(self) -> bool:
        """True for sums of 16-bit values in 32 bits, which wrap."""
        return self.y.dtype == np.int16 and not self.wide

    def kernel(
        self,
        graph: Graph,
        operator: Conv2D | DepthwiseConv2D | FullyConnected,
        family: str,
        weights: Array,
        multipliers: tuple[Multiplier, ...],
        overlaps: Overlaps,
    ) -> Kernel | None:
        """The kernel; None where a number takes more than 16 bits.

        Args:
            weights: those of an output channel side by side.
        """
        low, high = (int(limit) for limit in operator.clamp)
        scales = multipliers[:1] if len(set(multipliers)) == 1 else multipliers
        window, places, outputs = self.window, self.written[:2], self.written[2]
        first = [-before for before in window.before]  # row and column of the first window, in the input
        ends = [f + n * step for f, n, step in zip(first, places, window.stride, strict=True)]
        spans = [n * apart for n, apart in zip(window.size, window.dilation, strict=True)]
        numbers = [
            *self.read, *ends, outputs, self.depth, *spans, *window.stride, *first,
            int(self.depth < self.read[2]), len(scales), self.x.zero_point, self.y.zero_point, low, high,
            self.weights.zero_point,
        ]  # fmt: skip
        if min(*self.read, *self.written) < 1 or min(numbers) < -_MOST - 1 or max(numbers) > _MOST:
            return None
        bias = graph.bias(operator)
        words: list[Array] = [
            np.array(numbers + [0] * (_HEAD - len(numbers)), np.int16),
            bias.astype(np.uint32),
        ]
        if self.wide:
            words.append((bias >> 32).astype(np.int32))
        words.append(np.array([m.value for m in scales], np.int32))
        words.append(np.array([m.shift for m in scales], np.int8))
        stream = b"".join(part.tobytes() for part in (*words, np.ascontiguousarray(weights)))
        constants = (np.frombuffer(stream + bytes(-len(stream) % 4), np.int32),)
        name, text = self.function()
        scale = {"scale_wide": RESCALE_INT64} if self.wide else {"scale_rounded": _SCALE}
        return Kernel(
            family=family,
            variant="compact",
            parameters=arguments(graph, operator, reads=1, constants=constants),
            body=f"    {name}(x0, p0, y0);\n",
            helpers={**scale, name: text},
            constants=constants,
            overlaps=overlaps,
        )

    def function(self) -> tuple[str, str]:
        """Name and text of the function that computes all layers of these types and this dilation."""
        (down, across), offset = self.window.dilation, self.weights.zero_point != 0
        x, w, y = (c_type(v.dtype) for v in (self.x, self.weights, self.y))
        types = "_".join(v.dtype.name for v in (self.x, self.weights, self.y))
        name = f"compact_{types}_{down}_{across}{'_offset' if offset else ''}{'_32' if self.wraps else ''}"
        wide, sum_ = self.wide, "int64_t" if self.wide else "uint32_t" if self.wraps else "int32_t"
        start = f"{'(uint32_t)' if self.wraps else ''}p[{_HEAD // 2} + c]"
        if wide:
            high = f"p[{_HEAD // 2} + h[5] + c]"
            start = f"(int64_t)((uint64_t)(uint32_t){start} | (uint64_t)(uint32_t){high} << 32)"
        product = f"(v[k] - h[15]) * {'(w[k] - h[19])' if offset else 'w[k]'}"
        product, total = (f"(uint32_t)({product})", "(int32_t)sum") if self.wraps else (product, "sum")
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
                {sum_} sum = {start};
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
