# SPDX-License-Identifier: Apache-2.0
"""Convolution for speed: tiles of up to three pixels by two channels, weights of 16 bits.

Weights need no expansion, so that three of them come with one load and serve three pixels each. Two loads bring
three pairs of weights for two channels: every other load stands between the products of a step. Where sums
may be taken times 256 (`Form.FINE`, `Form.SIGNED`), the weights are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, finish, function, label, subtract, unrolling
from mlf_sdk.compiler.kernels.convolution import Layout, is_plain_int8, rescale_of
from mlf_sdk.compiler.kernels.gemm import best_tile, instructions_per_mac, widen
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, low_words
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.operators import Array, Conv2D
from mlf_sdk.compiler.scales import channel_multipliers

MAX_PIXELS: Final = 3
_UNROLL: Final = 32  # threes of steps in a row
_WEIGHTS: Final = ("r11", "r12", "lr")


def _cost(pixels: int) -> float:
    """Instructions for a product in the inner loop."""
    return (1 + 2 / 3 + 2 * pixels) / (4 * pixels)


def _row_cost(width: int, pixels: int, each: float) -> float:
    return -(-width // pixels) * pixels * each


def in_twos(x: Value, weights: Value, y: Value) -> bool:
    """Check that tiles of two channels can compute a layer: int8, one image, one group, an even number."""
    return is_plain_int8(x, weights) and weights.dtype == np.int8 and y.shape[3] % 2 == 0


def paired(graph: Graph, operator: Conv2D) -> Kernel | None:
    """CONV_2D by tiles of two channels; None for a layer that this does not fit, or that others do faster."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    channels = y.shape[3]
    if weights.data is None or not in_twos(x, weights, y):
        return None
    width = Layout(x, weights, y, operator.window).ow
    tiles = range(1, min(MAX_PIXELS, width) + 1)
    pixels = min(tiles, key=lambda p: _row_cost(width, p, _cost(p)))
    layout = Layout(x, weights, y, operator.window, pixels)
    other = best_tile(width)
    slower = _row_cost(width, pixels, _cost(pixels)) > _row_cost(width, other, instructions_per_mac(other))
    if slower or layout.unfit or channels * pixels > MAX_OFFSET:
        return None
    flat, bias = weights.data.reshape(channels, -1), graph.bias(operator)
    rescale = rescale_of(flat, bias, x, y, channel_multipliers(x, weights, y, channels), operator.clamp)
    if rescale.form is Form.GENERAL:
        return None
    short = layout.spare == 3 and layout.row_quads <= 8
    if short:  # the last word of each row holds nothing
        layout.buffer_bytes -= 4 * layout.rows * layout.pixels
    words = _words(layout.padded(weights.data), rescale, short=short)
    starts = low_words(rescale.unit * rescale.folded(bias, flat, x.zero_point))
    name, texts = _tile(pixels, words.shape[1], channels, rescale)
    fast, text = widen(pixels, layout.distance, layout.rows, layout.row_quads, fine=False, short=short)
    call, constants = f"{name}(b0, p0, {{}}, {channels})", (stream_of_twos(starts, words, rescale),)
    return layout.kernel(graph, operator, call, fast, {**texts, fast: text}, constants, "_pairs")


def _words(rows: Array, rescale: Rescale, *, short: bool) -> Array:
    """Words of two weights of each channel; of a last byte of a row alone (short) one word, not two."""
    wide = rows.astype(np.int16) * rescale.unit
    quads = wide.reshape(*rows.shape[:2], -1, 4)[..., (0, 2, 1, 3)]
    words = np.ascontiguousarray(quads).view(np.int32).reshape(*rows.shape[:2], -1)
    return (words[..., :-1] if short else words).reshape(len(rows), -1)


def stream_of_twos(starts: Array, words: Array, rescale: Rescale) -> Array:
    """Two channels after the other: biases, words of the weights side by side, requantisations."""
    groups = len(starts) // 2
    parts = (
        starts.reshape(groups, 2),
        words.reshape(groups, 2, -1).transpose(0, 2, 1).reshape(groups, -1),
        rescale.rows.reshape(groups, -1),
    )
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))


def _tile(pixels: int, steps: int, channels: int, rescale: Rescale) -> tuple[str, dict[str, str]]:
    """Function ``(buffer, stream, output, count)`` for a tile; its name and texts."""
    name = f"pairs_{pixels}x{steps}_{channels}_{label(rescale)}"
    width = rescale.rows.shape[1]
    value = expression(rescale, "(int32_t)s[k]", f"w + {width} * k")
    plain = f"""    for (int32_t c = 0; c < n; c += 2, w += {2 * width}) {{
        const int32_t *k0 = w;
        w += {2 + 2 * steps};
        for (int32_t i = 0; i < {pixels}; ++i) {{
            const int16_t *v = (const int16_t *)(b + i);
            uint32_t s[2] = {{(uint32_t)k0[0], (uint32_t)k0[1]}};
            for (int32_t t = 0; t < {steps}; ++t, v += {2 * pixels}) {{
                for (int32_t k = 0; k < 2; ++k) {{
                    int32_t pair = k0[2 + 2 * t + k];
                    s[k] += (uint32_t)(v[0] * (int16_t)pair + v[1] * (pair >> 16));
                }}
            }}
            for (int32_t k = 0; k < 2; ++k) {{
                y[i * {channels} + c + k] = (int8_t){value};
            }}
        }}
    }}
"""
    lines = _instructions(pixels, steps, channels, rescale)
    parameters = "const int32_t *b, const int32_t *w, int8_t *y, int32_t n"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}


def _instructions(pixels: int, steps: int, channels: int, rescale: Rescale) -> list[str]:
    """Instructions of `_tile`. On the stack: output, its end, end of the buffer's part that a loop reads."""
    sums = [[f"r{2 + c * pixels + i}" for i in range(pixels)] for c in range(2)]
    values = [f"r{8 + i}" for i in range(pixels)]
    load = f"ldmia r0!, {{{', '.join(values)}}}" if pixels > 1 else "ldr r8, [r0], #4"
    threes, rest = divmod(steps, 3)
    count = unrolling(threes, _UNROLL) if threes else 0
    looped = count < threes
    begun = looped  # the sums hold their biases

    def products(channel: int, word: str, *, last: bool) -> list[str]:
        start = sums[channel] if last else [sums[channel][-1]] * pixels
        pairs = zip(sums[channel], values, start, strict=True)
        return [f"smlad {a}, {v}, {word}, {s}" for a, v, s in pairs]

    lines = ["push {r4-r11, lr}", "sub sp, sp, #12", "add r3, r2, r3", "strd r2, r3, [sp]"]
    if looped:
        lines += [f"movw r3, #{threes * 12 * pixels}", "add r3, r3, r0", "str r3, [sp, #8]"]
    lines += ["1:", f"ldmia r1!, {{{sums[0][-1]}, {sums[1][-1]}}}"]
    if looped:
        lines += [f"mov {a}, {row[-1]}" for row in sums for a in row[:-1]]
        lines.append("2:")
    for _ in range(count):
        first, second, third = _WEIGHTS
        fetch = f"ldmia r1!, {{{', '.join(_WEIGHTS)}}}"
        lines += [fetch, load, *products(0, first, last=begun), *products(1, second, last=begun)]
        begun = True
        lines += [load, *products(0, third, last=True), fetch, *products(1, first, last=True)]
        lines += [load, *products(0, second, last=True), *products(1, third, last=True)]
    if looped:
        lines += ["ldr r8, [sp, #8]", "cmp r0, r8", "bne.w 2b"]
    for _ in range(rest):
        lines += [f"ldrd {_WEIGHTS[0]}, {_WEIGHTS[1]}, [r1], #8", load]
        lines += [*products(0, _WEIGHTS[0], last=begun), *products(1, _WEIGHTS[1], last=begun)]
        begun = True
    if rescale.rows.shape[1] == 2:
        lines += ["ldmia r1!, {r8-r11}", *finish(sums[0], rescale, ("r8", "r9"))]
        lines += finish(sums[1], rescale, ("r10", "r11"))
    else:
        for row in sums:
            lines += ["ldmia r1!, {r8-r10}", *finish(row, rescale, ("r8", "r9", "r10"), "r11")]
    lines += ["ldrd r11, r12, [sp]", f"strb {sums[1][0]}, [r11, #1]", f"strb {sums[0][0]}, [r11], #2"]
    for i in range(1, pixels):
        lines += [f"strb {sums[c][i]}, [r11, #{channels * i - 2 + c}]" for c in range(2)]
    lines += ["str r11, [sp]", *subtract("r0", steps * 4 * pixels)]
    return [*lines, "cmp r11, r12", "bne.w 1b", "add sp, sp, #12", "pop {r4-r11, pc}"]
