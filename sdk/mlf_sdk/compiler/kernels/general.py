# SPDX-License-Identifier: Apache-2.0
"""General kernels of layers with weights: any type, window, stride, dilation and group, in plain C."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type
from mlf_sdk.compiler.kernels.overlap import of_parts, of_windows
from mlf_sdk.compiler.kernels.scaling import RESCALE_INT64, SATURATE, SCALING, limited, saturated
from mlf_sdk.compiler.operators import Array, Conv2D, DepthwiseConv2D, FullyConnected, TransposeConv
from mlf_sdk.compiler.scales import channel_multipliers, dense_multipliers, has_wide_sums

Layer = Conv2D | DepthwiseConv2D | TransposeConv | FullyConnected


class LayerText:
    """C texts of the sums and results of a layer, by the type of its activations."""

    def __init__(self, graph: Graph, operator: Layer) -> None:
        x, weights, *bias = graph.read(operator)
        (self.y,) = graph.written(operator)
        self.clamp = operator.clamp
        self.real = self.y.dtype.kind == "f"
        self.wide = has_wide_sums(graph, operator)
        self.wraps = self.y.dtype == np.int16 and not self.wide  # sums of int16 values in 32 bits may
        self.sum = (
            "float" if self.real else "int64_t" if self.wide else "uint32_t" if self.wraps else "int32_t"
        )
        self.x = "{}" if self.real or not x.zero_point else f"({{}} - ({x.zero_point}))"
        self.w = "{}" if self.real or not weights.zero_point else f"({{}} - ({weights.zero_point}))"
        self.constants = self._constants(graph, operator, bias[0].data if bias else None)

    def _constants(self, graph: Graph, operator: Layer, bias: Array | None) -> Array:
        """Words of every channel: bias, multiplier and shift; bias alone for floats."""
        x, weights = graph.read(operator)[:2]
        channels = weights.shape[0] if isinstance(operator, FullyConnected) else self.y.shape[3]
        if self.real:
            return np.zeros(channels, np.float32) if bias is None else bias.astype(np.float32)
        find = dense_multipliers if isinstance(operator, FullyConnected) else channel_multipliers
        multipliers = find(x, weights, self.y, channels)
        words = np.zeros((channels, 4 if self.wide else 3), np.int64)
        values = np.zeros(channels, np.int64) if bias is None else bias.astype(np.int64)
        if self.wide:
            words[:, 0], words[:, 1] = values & 0xFFFFFFFF, values >> 32
        else:
            words[:, 0] = values
        words[:, -2] = [m.value for m in multipliers]
        words[:, -1] = [m.shift for m in multipliers]
        return np.ascontiguousarray(words.astype(np.uint32).view(np.int32).reshape(-1))

    @property
    def product(self) -> str:
        """Expression of the product of an input and a weight."""
        value = f"{self.x.format('v[k]')} * {self.w.format('w[k]')}"
        return f"(uint32_t)({value})" if self.wraps else value

    @property
    def start(self) -> str:
        """Expression of the bias of channel ``c``."""
        if self.real:
            return "p1[c]"
        if self.wide:
            return "(int64_t)((uint64_t)(uint32_t)p1[4 * c] | (uint64_t)(uint32_t)p1[4 * c + 1] << 32)"
        return "(uint32_t)p1[3 * c]" if self.wraps else "p1[3 * c]"

    @property
    def result(self) -> str:
        """Expression of the stored value of ``sum``, that of channel ``c``."""
        if self.real:
            return f"({c_type(self.y.dtype)}){limited('sum', self.clamp)}"
        width, scale = (4, "scale_wide") if self.wide else (3, "scale_sum")
        row = f"p1 + {width} * c + {width - 2}"
        sum_ = "(int32_t)sum" if self.wraps else "sum"
        value = saturated(f"{scale}({sum_}, ({row})[0], ({row})[1])", self.y, self.clamp)
        return f"({c_type(self.y.dtype)}){value}"

    @property
    def helpers(self) -> dict[str, str]:
        """Static functions of the expressions."""
        if self.real:
            return {}
        return {"saturate": SATURATE, "scale_wide": RESCALE_INT64} if self.wide else SCALING


def convolution(graph: Graph, operator: Conv2D | DepthwiseConv2D) -> Kernel:
    """CONV_2D and DEPTHWISE_CONV_2D."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    n, ih, iw, ic = x.shape
    _, oh, ow, oc = y.shape
    window = operator.window
    text = LayerText(graph, operator)
    depthwise = isinstance(operator, DepthwiseConv2D)
    per_group = 1 if depthwise else weights.shape[3]
    channels_a_group = oc // (ic // per_group)
    data = weights.constant[0].transpose(2, 0, 1) if depthwise else weights.constant
    constants = (np.ascontiguousarray(data).reshape(-1), text.constants)
    kh, kw = window.size
    first = f"c / {channels_a_group} * {per_group}" if per_group < ic else "0"
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox)
    for (int32_t c = 0; c < {oc}; ++c) {{
        {text.sum} sum = {text.start};
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
                    sum += {text.product};
                }}
            }}
        }}
        y0[((b * {oh} + oy) * {ow} + ox) * {oc} + c] = {text.result};
    }}
"""
    return Kernel(
        family="depthwise" if depthwise else "conv",
        parameters=arguments(graph, operator, reads=1, constants=constants),
        body=body,
        helpers=text.helpers,
        constants=constants,
        overlaps=of_windows(x, y, window, oc - 1),
    )


def transpose_conv(graph: Graph, operator: TransposeConv) -> Kernel:
    """TRANSPOSE_CONV: every output gathers the inputs that reach it."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    n, ih, iw, ic = x.shape
    _, oh, ow, oc = y.shape
    window = operator.window
    text = LayerText(graph, operator)
    constants = (weights.constant.reshape(-1), text.constants)
    kh, kw = window.size
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox)
    for (int32_t c = 0; c < {oc}; ++c) {{
        {text.sum} sum = {text.start};
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
                    sum += {text.product};
                }}
            }}
        }}
        y0[((b * {oh} + oy) * {ow} + ox) * {oc} + c] = {text.result};
    }}
"""
    return Kernel(
        family="transpose_conv",
        parameters=arguments(graph, operator, reads=1, constants=constants),
        body=body,
        helpers=text.helpers,
        constants=constants,
    )


def of_few_outputs(graph: Graph, operator: FullyConnected) -> Kernel | None:
    """`fully_connected` of int8 values for one or two outputs, which do not pay for a widened input; else None."""
    x, weights = graph.read(operator)[:2]
    return fully_connected(graph, operator) if x.dtype == np.int8 and weights.shape[0] <= 2 else None


def fully_connected(graph: Graph, operator: FullyConnected) -> Kernel:
    """FULLY_CONNECTED."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    oc, ic = weights.shape
    rows = x.elements // ic
    text = LayerText(graph, operator)
    constants = (weights.constant.reshape(-1), text.constants)
    body = f"""    for (int32_t r = 0; r < {rows}; ++r)
    for (int32_t c = 0; c < {oc}; ++c) {{
        const {c_type(x.dtype)} *v = x0 + r * {ic};
        const {c_type(weights.dtype)} *w = p0 + c * {ic};
        {text.sum} sum = {text.start};
        for (int32_t k = 0; k < {ic}; ++k) {{
            sum += {text.product};
        }}
        y0[r * {oc} + c] = {text.result};
    }}
"""
    return Kernel(
        family="dense",
        parameters=arguments(graph, operator, reads=1, constants=constants),
        body=body,
        helpers=text.helpers,
        constants=constants,
        overlaps=of_parts(x, y, np.arange(rows) * ic, np.arange(1, rows + 1) * oc - 1),
    )
