# SPDX-License-Identifier: Apache-2.0
"""General kernels of layers with weights: any type, window, stride, dilation and group, in plain C."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type
from mlf_sdk.compiler.kernels.overlap import of_parts, of_windows
from mlf_sdk.compiler.kernels.rescale import SATURATE
from mlf_sdk.compiler.operators import Array, Conv2D, DepthwiseConv2D, FullyConnected, TransposeConv
from mlf_sdk.compiler.requantise import Multiplier
from mlf_sdk.compiler.scales import channel_multipliers, dense_multipliers

RESCALE_INT32 = """static inline int32_t scale_sum(int32_t a, int32_t q, int32_t shift)
{
    int32_t left = shift > 0 ? shift : 0;
    int32_t right = shift < 0 ? -shift : 0;
    int64_t product = (int64_t)(int32_t)((uint32_t)a << left) * q;
    int32_t h = (int32_t)((product + ((int64_t)1 << 30)) >> 31);
    if (right > 0) {
        h = (int32_t)(((int64_t)h + (h >> 31) + ((int64_t)1 << (right - 1))) >> right);
    }
    return h;
}
"""
RESCALE_INT64 = """static inline int32_t scale_wide(int64_t a, int32_t q, int32_t shift)
{
    int64_t reduced = q < 0x7FFF0000 ? (q + (1 << 15)) >> 16 : 0x7FFF;
    int32_t total = 15 - shift;
    return (int32_t)((a * reduced + ((int64_t)1 << (total - 1))) >> total);
}
"""


class Arithmetic:
    """C texts of the sums and results of a layer, by the type of its activations."""

    def __init__(self, x: Value, weights: Value, y: Value, multipliers: tuple[Multiplier, ...]) -> None:
        self.real = y.dtype.kind == "f"
        self.wide = y.dtype == np.int16
        self.sum = "float" if self.real else "int64_t" if self.wide else "int32_t"
        self.x = "{}" if self.real or not x.zero_point else f"({{}} - ({x.zero_point}))"
        self.w = "{}" if self.real or not weights.zero_point else f"({{}} - ({weights.zero_point}))"
        self.zero_point = y.zero_point
        self.multipliers = multipliers

    def constants(self, bias: Array | None, channels: int) -> Array:
        """Words of every channel: bias, multiplier and shift; bias alone for floats."""
        if self.real:
            return np.zeros(channels, np.float32) if bias is None else bias.astype(np.float32)
        words = np.zeros((channels, 4 if self.wide else 3), np.int64)
        values = np.zeros(channels, np.int64) if bias is None else bias.astype(np.int64)
        if self.wide:
            words[:, 0], words[:, 1] = values & 0xFFFFFFFF, values >> 32
        else:
            words[:, 0] = values
        words[:, -2] = [m.value for m in self.multipliers]
        words[:, -1] = [m.shift for m in self.multipliers]
        return np.ascontiguousarray(words.astype(np.uint32).view(np.int32).reshape(-1))

    def start(self, channel: str) -> str:
        """Expression of the bias of a channel."""
        if self.real:
            return f"p1[{channel}]"
        if self.wide:
            return f"(int64_t)((uint64_t)(uint32_t)p1[4 * {channel}] | (uint64_t)(uint32_t)p1[4 * {channel} + 1] << 32)"
        return f"p1[3 * {channel}]"

    def result(self, sum_: str, channel: str, clamp: tuple[float, float]) -> str:
        """Expression of the stored value of a sum."""
        if self.real:
            return limited(sum_, clamp)
        width = 4 if self.wide else 3
        scale = "scale_wide" if self.wide else "scale_sum"
        row = f"p1 + {width} * {channel} + {width - 2}"
        value = f"{scale}({sum_}, ({row})[0], ({row})[1])"
        return f"saturate({value} + ({self.zero_point}), {int(clamp[0])}, {int(clamp[1])})"

    @property
    def helpers(self) -> dict[str, str]:
        """Static functions of the expressions."""
        if self.real:
            return {}
        scale = {"scale_wide": RESCALE_INT64} if self.wide else {"scale_sum": RESCALE_INT32}
        return {"saturate": SATURATE, **scale}


def limited(value: str, clamp: tuple[float, float]) -> str:
    """Expression of a float within a range."""
    text = value
    if clamp[0] > -np.inf:
        text = f"fmaxf({text}, {clamp[0]!r}f)"
    if clamp[1] < np.inf:
        text = f"fminf({text}, {clamp[1]!r}f)"
    return text


def convolution(graph: Graph, operator: Conv2D | DepthwiseConv2D) -> Kernel:
    """CONV_2D and DEPTHWISE_CONV_2D."""
    x, weights, *bias = graph.read(operator)
    (y,) = graph.written(operator)
    n, ih, iw, ic = x.shape
    _, oh, ow, oc = y.shape
    window = operator.window
    real = y.dtype.kind == "f"
    arithmetic = Arithmetic(x, weights, y, () if real else channel_multipliers(x, weights, y, oc))
    depthwise = isinstance(operator, DepthwiseConv2D)
    per_group = 1 if depthwise else weights.shape[3]
    channels_a_group = oc // (ic // per_group)
    data = weights.constant[0].transpose(2, 0, 1) if depthwise else weights.constant
    constants = (
        np.ascontiguousarray(data).reshape(-1),
        arithmetic.constants(bias[0].data if bias else None, oc),
    )
    kh, kw = window.size
    first = f"c / {channels_a_group} * {per_group}" if per_group < ic else "0"
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox)
    for (int32_t c = 0; c < {oc}; ++c) {{
        {arithmetic.sum} sum = {arithmetic.start("c")};
        for (int32_t i = 0; i < {kh}; ++i) {{
            int32_t iy = oy * {window.stride[0]} - {window.before[0]} + i * {window.dilation[0]};
            if (iy < 0 || iy >= {ih}) {{
                continue;
            }}
            for (int32_t j = 0; j < {kw}; ++j) {{
                int32_t ix = ox * {window.stride[1]} - {window.before[1]} + j * {window.dilation[1]};
                if (ix < 0 || ix >= {iw}) {{
                    continue;
                }}
                const {c_type(x.dtype)} *v = x0 + ((b * {ih} + iy) * {iw} + ix) * {ic} + {first};
                const {c_type(weights.dtype)} *w = p0 + ((c * {kh} + i) * {kw} + j) * {per_group};
                for (int32_t k = 0; k < {per_group}; ++k) {{
                    sum += {arithmetic.x.format("v[k]")} * {arithmetic.w.format("w[k]")};
                }}
            }}
        }}
        y0[((b * {oh} + oy) * {ow} + ox) * {oc} + c] = ({c_type(y.dtype)}){arithmetic.result("sum", "c", operator.clamp)};
    }}
"""
    return Kernel(
        family="depthwise" if depthwise else "conv",
        parameters=arguments(graph, operator, reads=1, constants=constants),
        body=body,
        helpers=arithmetic.helpers,
        constants=constants,
        overlaps=of_windows(x, y, window, oc - 1),
    )


def transpose_conv(graph: Graph, operator: TransposeConv) -> Kernel:
    """TRANSPOSE_CONV: every output gathers the inputs that reach it."""
    x, weights, *bias = graph.read(operator)
    (y,) = graph.written(operator)
    n, ih, iw, ic = x.shape
    _, oh, ow, oc = y.shape
    window = operator.window
    real = y.dtype.kind == "f"
    arithmetic = Arithmetic(x, weights, y, () if real else channel_multipliers(x, weights, y, oc))
    constants = (weights.constant.reshape(-1), arithmetic.constants(bias[0].data if bias else None, oc))
    kh, kw = window.size
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox)
    for (int32_t c = 0; c < {oc}; ++c) {{
        {arithmetic.sum} sum = {arithmetic.start("c")};
        for (int32_t i = 0; i < {kh}; ++i) {{
            int32_t ty = oy + {window.before[0]} - i;
            if (ty < 0 || ty % {window.stride[0]} != 0 || ty / {window.stride[0]} >= {ih}) {{
                continue;
            }}
            for (int32_t j = 0; j < {kw}; ++j) {{
                int32_t tx = ox + {window.before[1]} - j;
                if (tx < 0 || tx % {window.stride[1]} != 0 || tx / {window.stride[1]} >= {iw}) {{
                    continue;
                }}
                const {c_type(x.dtype)} *v = x0 + ((b * {ih} + ty / {window.stride[0]}) * {iw} + tx / {window.stride[1]}) * {ic};
                const {c_type(weights.dtype)} *w = p0 + ((c * {kh} + i) * {kw} + j) * {ic};
                for (int32_t k = 0; k < {ic}; ++k) {{
                    sum += {arithmetic.x.format("v[k]")} * {arithmetic.w.format("w[k]")};
                }}
            }}
        }}
        y0[((b * {oh} + oy) * {ow} + ox) * {oc} + c] = ({c_type(y.dtype)}){arithmetic.result("sum", "c", operator.clamp)};
    }}
"""
    return Kernel(
        family="transpose_conv",
        parameters=arguments(graph, operator, reads=1, constants=constants),
        body=body,
        helpers=arithmetic.helpers,
        constants=constants,
    )


def of_few_outputs(graph: Graph, operator: FullyConnected) -> Kernel | None:
    """`fully_connected` of int8 values for one or two outputs, which do not pay for a widened input; else None."""
    x, weights = graph.read(operator)[:2]
    return fully_connected(graph, operator) if x.dtype == np.int8 and weights.shape[0] <= 2 else None


def fully_connected(graph: Graph, operator: FullyConnected) -> Kernel:
    """FULLY_CONNECTED."""
    x, weights, *bias = graph.read(operator)
    (y,) = graph.written(operator)
    oc, ic = weights.shape
    rows = x.elements // ic
    real = y.dtype.kind == "f"
    arithmetic = Arithmetic(x, weights, y, () if real else dense_multipliers(x, weights, y, oc))
    constants = (weights.constant.reshape(-1), arithmetic.constants(bias[0].data if bias else None, oc))
    body = f"""    for (int32_t r = 0; r < {rows}; ++r)
    for (int32_t c = 0; c < {oc}; ++c) {{
        const {c_type(x.dtype)} *v = x0 + r * {ic};
        const {c_type(weights.dtype)} *w = p0 + c * {ic};
        {arithmetic.sum} sum = {arithmetic.start("c")};
        for (int32_t k = 0; k < {ic}; ++k) {{
            sum += {arithmetic.x.format("v[k]")} * {arithmetic.w.format("w[k]")};
        }}
        y0[r * {oc} + c] = ({c_type(y.dtype)}){arithmetic.result("sum", "c", operator.clamp)};
    }}
"""
    return Kernel(
        family="dense",
        parameters=arguments(graph, operator, reads=1, constants=constants),
        body=body,
        helpers=arithmetic.helpers,
        constants=constants,
        overlaps=of_parts(x, y, np.arange(rows) * ic, np.arange(1, rows + 1) * oc - 1),
    )
