# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution and sums for cores with the vector extension (MVE, Helium), with the same in plain C.

Depthwise: VMULLB and VMULLT multiply sixteen channels of a pixel with their weights, to words of 16 bits: of the
even channels and of the odd ones. Products of two taps still fit such words; their sum is widened and added to
four vectors of 32 bits, whose lanes are channels 0, 4, 8, 12, then 2, 6..., 1, 5... and 3, 7.... Biases,
multipliers, addends and shifts lie in the same order; narrowing puts the channels back into theirs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import function_of_cores
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.mve import COPY_BYTES, INCLUDE, MVE, table_words
from mlf_sdk.compiler.kernels.overlap import of_elements
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, choose_rescale, sum_bounds
from mlf_sdk.compiler.kernels.rows import ring_of_rows
from mlf_sdk.compiler.kernels.scaling import SATURATE
from mlf_sdk.compiler.kernels.sums import linear_sum
from mlf_sdk.compiler.operators import Array, DepthwiseConv2D, Map, Rounding
from mlf_sdk.compiler.scales import SUMS, channel_multipliers

_LANES: Final = 16
_ORDER: Final = (0, 2, 1, 3)  # vector of a channel's sum, by its number modulo four
_MOST_IDLE: Final = 1.5  # lanes for a channel, beyond which other kernels are faster


def depthwise(graph: Graph, operator: DepthwiseConv2D) -> Kernel | None:
    """DEPTHWISE_CONV_2D without multiplier; None for a layer that this does not fit, or that others do faster."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    window = operator.window
    fits = x.dtype == np.int8 and weights.dtype == np.int8 and window.dilation == (1, 1)
    if not fits or x.shape[0] != 1 or operator.multiplier != 1 or weights.data is None:
        return None
    channels = x.shape[3]
    padding = -channels % _LANES
    flat = weights.data.reshape(-1, channels)
    if flat.min(initial=0) <= -128 or channels + padding > _MOST_IDLE * channels:
        return None  # two products of -128 and -128 do not fit 16 bits
    bias = graph.bias(operator)
    bounds = sum_bounds(flat.T, bias, -128 - x.zero_point, 127 - x.zero_point)
    rescale = choose_rescale(
        channel_multipliers(x, weights, y, channels), y.zero_point, bounds, operator.clamp
    )
    if rescale.form is Form.GENERAL:
        return None
    folded = rescale.folded(bias, flat.T, x.zero_point)
    packed = np.pad(flat, ((0, 0), (0, padding))).reshape(len(flat), -1, _LANES).transpose(1, 0, 2)
    constants = (np.ascontiguousarray(packed).reshape(-1), _table(folded, rescale))
    name, text = _pixels(window.size, rescale)
    call = f"        {name}(rows, p0, p1, y0 + oy * {y.shape[2] * channels}, {channels}, {y.shape[2]}, {window.stride[1]});\n"
    body, ring_bytes, overlaps = ring_of_rows(x, y, window, call, "copy_bytes")
    if padding:  # the last load of a row reads all lanes
        body = f"    memset((int8_t *)b0 + {ring_bytes}, 0, {padding});\n{body}"
    return Kernel(
        family="depthwise",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers={"mve": INCLUDE, "saturate": SATURATE, "copy_bytes": COPY_BYTES, name: text},
        constants=constants,
        workspace_bytes=ring_bytes + padding,
        overlaps=overlaps,
    )


def _table(bias: Array, rescale: Rescale) -> Array:
    """Four biases, multipliers, addends and negative shifts for each vector of sums, by sixteen channels."""
    words = table_words(bias, rescale)
    blocks = np.pad(words, ((0, -len(words) % _LANES), (0, 0))).reshape(-1, 4, 4, 4)
    ordered = blocks.transpose(0, 2, 3, 1)[:, np.argsort(_ORDER)]  # block, vector, kind of word, lane
    return np.ascontiguousarray(ordered.reshape(-1))


def _pixels(size: tuple[int, int], rescale: Rescale) -> tuple[str, str]:
    """Function ``(rows, weights, table, output, channels, pixels, stride)`` for a row of the output; name, text."""
    (kh, kw), (low, high) = size, rescale.clamp
    taps = kh * kw
    name = f"channels_{kh}x{kw}_{rescale.form.value}_{low & 255}_{high & 255}"
    half = "h + (h >> 31)" if rescale.form is Form.DOUBLE else "h"
    plain = f"""    for (int32_t i = 0; i < pixels; ++i, y += channels)
    for (int32_t c = 0; c < channels; ++c) {{
        const int8_t *k = w + c / 16 * {16 * taps} + c % 16;
        const int32_t *q = p + c / 16 * 64 + (c & 1) * 32 + (c & 2) * 8 + c % 16 / 4;
        int32_t sum = q[0], h;
        for (int32_t t = 0; t < {taps}; ++t) {{
            sum += rows[t / {kw}][(i * stride + t % {kw}) * channels + c] * k[16 * t];
        }}
        h = (int32_t)(((int64_t)sum * q[4] + ((int64_t)1 << 30)) >> 31);
        y[c] = (int8_t)saturate(({half} + q[8]) >> -q[12], {low}, {high});
    }}
"""
    parameters = (
        "const int8_t *const *rows, const int8_t *w, const int32_t *p, int8_t *y, int32_t channels, "
        "int32_t pixels, int32_t stride"
    )
    return name, function_of_cores(name, parameters, {MVE: _pixels_instructions(kh, kw, rescale)}, plain)


def _pixels_instructions(kh: int, kw: int, rescale: Rescale) -> list[str]:
    """Instructions of `_pixels`.

    r7 is the place in the rows, r8 walks through the weights, r9 the table, r10 counts channels down, r11 walks
    through a row of the window. Sums are in q4 to q7; q2 and q3 hold the products of the even and odd channels.
    """
    lines = ["push {r4-r11, lr}", "vpush {d8-d15}", "ldrd r4, r5, [sp, #100]", "ldr r6, [sp, #108]"]
    lines += ["mul r6, r6, r4", "mov r12, #0", "1:", "mov r7, r12", "mov r8, r1", "mov r9, r2", "mov r10, r4"]
    lines += ["2:", *(f"vldrw.32 q{4 + i}, [r9, #{64 * i}]" for i in range(4))]
    for tap in range(kh * kw):
        if tap % kw == 0:
            lines += [f"ldr r11, [r0, #{tap // kw * 4}]", "add r11, r11, r7"]
        lines += ["vldrb.8 q0, [r11]", "vldrb.8 q1, [r8], #16"]
        if tap % 2 == 0:
            lines += ["vmullb.s8 q2, q0, q1", "vmullt.s8 q3, q0, q1"]
        else:  # no vector is left for a second product: the pixel is loaded again
            lines += ["vmullb.s8 q0, q0, q1", "vadd.i16 q2, q2, q0"]
            lines += ["vldrb.8 q0, [r11]", "vmullt.s8 q0, q0, q1", "vadd.i16 q3, q3, q0"]
        if tap % kw < kw - 1:
            lines.append("add r11, r11, r4")
        if tap % 2 or tap == kh * kw - 1:
            for i, half in enumerate(("b.s16 q0, q2", "t.s16 q0, q2", "b.s16 q0, q3", "t.s16 q0, q3")):
                lines += [f"vmovl{half}", f"vadd.i32 q{4 + i}, q{4 + i}, q0"]
    for i in range(4):
        s, at = f"q{4 + i}", 64 * i
        lines += [f"vldrw.32 q0, [r9, #{at + 16}]", f"vqrdmulh.s32 {s}, {s}, q0"]
        if rescale.form is Form.DOUBLE:
            lines += [f"vshr.s32 q0, {s}, #31", f"vadd.i32 {s}, {s}, q0"]
        lines += [f"vldrw.32 q0, [r9, #{at + 32}]", f"vadd.i32 {s}, {s}, q0"]
        lines += [f"vldrw.32 q0, [r9, #{at + 48}]", f"vshl.s32 {s}, {s}, q0"]
    lines += ["vqmovnb.s32 q0, q4", "vqmovnt.s32 q0, q5", "vqmovnb.s32 q1, q6", "vqmovnt.s32 q1, q7"]
    lines += ["vqmovnb.s16 q2, q0", "vqmovnt.s16 q2, q1"]
    low, high = rescale.clamp
    if (low, high) != (-128, 127):
        for bound, limit in ((low, "vmax"), (high, "vmin")):
            lines += [f"mov r11, #{bound & 255}", "vdup.8 q0, r11", f"{limit}.s8 q2, q2, q0"]
    lines += ["vctp.8 r10", "vpst", "vstrbt.8 q2, [r3]", "add r9, r9, #256", "add r7, r7, #16"]
    lines += ["add r3, r3, #16", "subs r10, r10, #16", "bgt.w 2b"]
    lines += ["add r3, r3, r10", "add r12, r12, r6", "subs r5, r5, #1", "bne.w 1b"]
    return [*lines, "vpop {d8-d15}", "pop {r4-r11, pc}"]


def binary(graph: Graph, operator: Map) -> Kernel | None:
    """ADD and SUB of tensors of one shape, as two products and a shift; None for others."""
    function = operator.expression.function
    if operator.rounding is not Rounding.TFLM or function not in SUMS:
        return None
    a, b = graph.read(operator)
    (y,) = graph.written(operator)
    same = a.shape == b.shape == y.shape and a.dtype == b.dtype == y.dtype == np.int8
    if not same or a.data is not None or b.data is not None:
        return None
    found = linear_sum(operator, a, b, y)
    if found is None:
        return None
    low, high = int(operator.clamp[0]), int(operator.clamp[1])
    name = f"sums_{found.bits}_{low & 255}_{high & 255}"
    return Kernel(
        family=function,
        parameters=arguments(graph, operator),
        body=f"    {name}(x0, x1, y0, {y.elements}, {found.a}, {found.b}, {found.c});\n",
        helpers={"saturate": SATURATE, name: _sums(name, found.bits, low, high)},
        overlaps=of_elements(a, y, 0) | of_elements(b, y, 1),
    )


def _sums(name: str, bits: int, low: int, high: int) -> str:
    """Function ``(a, b, output, elements, factor, factor, addend)``; the last vector has fewer lanes."""
    plain = f"""    for (int32_t i = 0; i < n; ++i) {{
        y[i] = (int8_t)saturate((a[i] * fa + b[i] * fb + fc) >> {bits}, {low}, {high});
    }}
"""
    lines = ["push {r4-r6, lr}", "vpush {d8-d9}", "ldrd r4, r5, [sp, #32]", "ldr r6, [sp, #40]"]
    lines.append("vdup.32 q2, r4")
    for bound, register in ((low, "q3"), (high, "q4")):
        lines += [f"mvn r4, #{~bound}" if bound < 0 else f"mov r4, #{bound}", f"vdup.32 {register}, r4"]
    lines += ["dlstp.32 lr, r3", "1:", "vldrb.s32 q0, [r0], #4", "vldrb.s32 q1, [r1], #4"]
    lines += ["vmlas.s32 q0, q2, r6", "vmla.s32 q0, q1, r5", f"vshr.s32 q0, q0, #{bits}"]
    lines += ["vmax.s32 q0, q0, q3", "vmin.s32 q0, q0, q4", "vstrb.32 q0, [r2], #4", "letp lr, 1b"]
    lines += ["vpop {d8-d9}", "pop {r4-r6, pc}"]
    parameters = "const int8_t *a, const int8_t *b, int8_t *y, int32_t n, int32_t fa, int32_t fb, int32_t fc"
    return function_of_cores(name, parameters, {MVE: lines}, plain)
