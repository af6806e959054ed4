# SPDX-License-Identifier: Apache-2.0
"""General kernels of layers with weights: any type, window, stride, dilation and group, in plain C."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.kernels.contraction import Contraction, Kind
from mlf_sdk.compiler.kernels.kernel import Kernel, Overlaps, c_type
from mlf_sdk.compiler.kernels.scaling import RESCALE_INT64, SATURATE, SCALING, limited, saturated
from mlf_sdk.compiler.operators import Array


def _words(layer: Contraction) -> Array:
    """Words of every channel: bias, multiplier and shift; bias alone for floats."""
    if layer.is_real:
        return layer.bias
    words = np.zeros((layer.channels, 4 if layer.has_wide_sums else 3), np.int64)
    words[:, 0] = layer.bias
    if layer.has_wide_sums:
        words[:, 0], words[:, 1] = layer.bias & 0xFFFFFFFF, layer.bias >> 32
    words[:, -2] = [m.value for m in layer.multipliers]
    words[:, -1] = [m.shift for m in layer.multipliers]
    return np.ascontiguousarray(words.astype(np.uint32).view(np.int32).reshape(-1))


def _product(layer: Contraction) -> str:
    """Expression of the product of an input and a weight."""
    factors = (
        f"({name}[k] - ({v.zero_point}))" if not layer.is_real and v.zero_point else f"{name}[k]"
        for name, v in (("v", layer.x), ("w", layer.weights))
    )
    value = " * ".join(factors)
    return f"(uint32_t)({value})" if layer.wraps else value


def _start(layer: Contraction) -> str:
    """Expression of the bias of channel ``c``."""
    if layer.is_real:
        return "p1[c]"
    if layer.has_wide_sums:
        return "(int64_t)((uint64_t)(uint32_t)p1[4 * c] | (uint64_t)(uint32_t)p1[4 * c + 1] << 32)"
    return "(uint32_t)p1[3 * c]" if layer.wraps else "p1[3 * c]"


def _result(layer: Contraction) -> str:
    """Expression of the stored value of ``sum``, that of channel ``c``."""
    if layer.is_real:
        return f"({c_type(layer.y.dtype)}){limited('sum', layer.clamp)}"
    width, scale = (4, "scale_wide") if layer.has_wide_sums else (3, "scale_sum")
    row = f"p1 + {width} * c + {width - 2}"
    sum_ = "(int32_t)sum" if layer.wraps else "sum"
    value = saturated(f"{scale}({sum_}, ({row})[0], ({row})[1])", layer.y, layer.clamp)
    return f"({c_type(layer.y.dtype)}){value}"


def _kernel(layer: Contraction, body: str, overlaps: Overlaps) -> Kernel:
    helpers = {"saturate": SATURATE, "scale_wide": RESCALE_INT64} if layer.has_wide_sums else SCALING
    constants = (np.ascontiguousarray(layer.rows).reshape(-1), _words(layer))
    return layer.kernel(layer.kind.value, body, {} if layer.is_real else helpers, constants, overlaps)


def convolution(layer: Contraction) -> Kernel:
    """CONV_2D, DEPTHWISE_CONV_2D, and TRANSPOSE_CONV, where every output gathers the inputs that reach it."""
    n, ih, iw, ic = layer.x.shape
    _, oh, ow, oc = layer.y.shape
    (kh, kw), depth = layer.window.size, layer.depth
    (row, outside, iy), (column, beside, ix) = _place(layer, 0), _place(layer, 1)
    transposed = layer.kind is Kind.TRANSPOSED
    group = f"c / {oc // (ic // depth)} * {depth}" if depth < ic else "0"
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox)
    for (int32_t c = 0; c < {oc}; ++c) {{
        {layer.sum_type} sum = {_start(layer)};
        for (int32_t i = 0; i < {kh}; ++i) {{
            int32_t {row};
            if ({outside}) {{
                continue;
            }}
            for (int32_t j = 0; j < {kw}; ++j) {{
                int32_t {column};
                if ({beside}) {{
                    continue;
                }}
                const {c_type(layer.x.dtype)} *v = x0 + ((b * {ih} + {iy}) * {iw} + {ix}) * {ic}{"" if transposed else f" + {group}"};
                const {c_type(layer.weights.dtype)} *w = p0 + ((c * {kh} + i) * {kw} + j) * {depth};
                for (int32_t k = 0; k < {depth}; ++k) {{
                    sum += {_product(layer)};
                }}
            }}
        }}
        y0[((b * {oh} + oy) * {ow} + ox) * {oc} + c] = {_result(layer)};
    }}
"""
    return _kernel(layer, body, {} if transposed else layer.overlaps)


def _place(layer: Contraction, axis: int) -> tuple[str, str, str]:
    """Row (axis 0) or column of the input at a place of a window: its variable, a test that there is none, itself."""
    letter, window, extent = "yx"[axis], layer.window, layer.x.shape[1 + axis]
    stride, before, tap = window.stride[axis], window.before[axis], "ij"[axis]
    if layer.kind is Kind.TRANSPOSED:
        t, place = f"t{letter}", f"t{letter} / {stride}"
        return (
            f"{t} = o{letter} + {before} - {tap}",
            f"{t} < 0 || {t} % {stride} != 0 || {place} >= {extent}",
            place,
        )
    i = f"i{letter}"
    return (
        f"{i} = o{letter} * {stride} - {before} + {tap} * {window.dilation[axis]}",
        f"{i} < 0 || {i} >= {extent}",
        i,
    )


def of_few_outputs(layer: Contraction) -> Kernel | None:
    """`fully_connected` of int8 values for one or two outputs, which do not pay for a widened input; else None."""
    return fully_connected(layer) if layer.x.dtype == np.int8 and layer.channels <= 2 else None


def fully_connected(layer: Contraction) -> Kernel:
    """FULLY_CONNECTED."""
    oc, ic = layer.channels, layer.depth
    body = f"""    for (int32_t r = 0; r < {layer.x.shape[2]}; ++r)
    for (int32_t c = 0; c < {oc}; ++c) {{
        const {c_type(layer.x.dtype)} *v = x0 + r * {ic};
        const {c_type(layer.weights.dtype)} *w = p0 + c * {ic};
        {layer.sum_type} sum = {_start(layer)};
        for (int32_t k = 0; k < {ic}; ++k) {{
            sum += {_product(layer)};
        }}
        y0[r * {oc} + c] = {_result(layer)};
    }}
"""
    return _kernel(layer, body, layer.overlaps)
