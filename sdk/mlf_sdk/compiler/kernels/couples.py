# SPDX-License-Identifier: Apache-2.0
"""Convolution in tiles of up to four pixels by two channels, for the fewest cycles: words of two weights.

Loads take half of the cycles of a tile of one channel: each word of the buffer feeds one product. Here it feeds
two, and SXTB16 writes over the word of weights when the word itself was multiplied, so that the registers that
are left hold operands. Words, sums and requantisation are those of `mlf_sdk.compiler.kernels.gemm` (FINE and
SIGNED); the buffer holds pairs (1, 3) in front of pairs (0, 2).
"""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, finish, function, label, subtract
from mlf_sdk.compiler.kernels.convolution import Layout, biases_of, quads_of, rescale_of
from mlf_sdk.compiler.kernels.gemm import best_tile, widen
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.pairs import in_twos, stream_of_twos
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.operators import Conv2D
from mlf_sdk.compiler.scales import channel_multipliers

MAX_PIXELS: Final = 4
_UNROLL: Final = 36  # most quads without a loop
_LOOP: Final = 24  # most quads of a loop
_MAX_QUADS_OF_SHORT: Final = 8  # of a row of the window whose last word holds one byte


def _cycles(width: int, quads: int, pixels: int) -> float:
    """Cycles of a row of pixels and two channels on a Cortex-M4."""
    groups = 2 if pixels == MAX_PIXELS else 1  # of loads from the buffer
    quad = 3 + 2 * (pixels + groups) + 2 + 4 * pixels
    return -(-width // pixels) * (quads * quad + 17 + 6 * pixels)


def _cycles_of_single(width: int, quads: int) -> float:
    """Cycles of the tiles of one channel, `gemm.best_tile` pixels wide, for two channels."""
    pixels = best_tile(width)
    words = 2 if pixels == 5 else 4 / 3
    return -(-width // pixels) * 2 * (quads * (3 + words + 4 * pixels) + 13 + 3 * pixels)


def coupled(graph: Graph, operator: Conv2D) -> Kernel | None:
    """CONV_2D by tiles of two channels; None for a layer that this does not fit, or that others do faster."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    channels = y.shape[3]
    if weights.data is None or not in_twos(x, weights, y):
        return None
    single = Layout(x, weights, y, operator.window)
    width, quads = single.ow, single.quads
    pixels = min(range(1, min(MAX_PIXELS, width) + 1), key=lambda p: _cycles(width, quads, p))
    layout = Layout(x, weights, y, operator.window, pixels)
    slower = _cycles(width, quads, pixels) >= _cycles_of_single(width, quads)
    if slower or layout.unfit or channels * pixels > MAX_OFFSET:
        return None
    flat, bias = weights.data.reshape(channels, -1), graph.bias(operator)
    rescale = rescale_of(flat, bias, x, y, channel_multipliers(x, weights, y, channels), operator.clamp)
    if not rescale.is_fine:
        return None
    rows = layout.padded(weights.data).reshape(channels, -1)
    stream = stream_of_twos(biases_of(rows, bias, x.zero_point, rescale), quads_of(rows, rescale), rescale)
    short = layout.spare == 3 and layout.row_quads <= _MAX_QUADS_OF_SHORT and quads <= _UNROLL
    if short:  # the last word of each row holds nothing
        layout.buffer_bytes -= 4 * layout.rows * layout.pixels
    name, texts = _tile(pixels, quads, channels, rescale, short=layout.row_quads if short else 0)
    fast, text = widen(
        pixels, layout.distance, layout.rows, layout.row_quads, fine=True, short=short, odd_first=True
    )
    call = f"{name}(b0, p0, {{}}, {channels})"
    return layout.kernel(graph, operator, call, fast, {**texts, fast: text}, (stream,), "_couples")


def _tile(
    pixels: int, quads: int, channels: int, rescale: Rescale, *, short: int
) -> tuple[str, dict[str, str]]:
    """Function ``(buffer, stream, output, count)`` for a tile; its name and texts.

    Args:
        short: quads of a row of the window, the last of which holds one weight only; 0 for none.
    """
    name = f"couples_{pixels}x{quads}_{channels}_{label(rescale)}{f'_s{short}' if short else ''}"
    width = rescale.rows.shape[1]
    odd = f"""                int32_t odd = v[0] * (int16_t)k + v[1] * (k >> 16);
                v += {2 * pixels};
"""
    if short:
        odd = f"""                int32_t odd = 0;
                if (q % {short} != {short - 1}) {{
                    odd = v[0] * (int16_t)k + v[1] * (k >> 16);
                    v += {2 * pixels};
                }}
"""
    plain = f"""    for (int32_t c = 0; c < n; ++c, w += (c & 1) ? 0 : {2 + 2 * quads + 2 * width}) {{
        const int32_t *k0 = w + (c & 1);
        for (int32_t i = 0; i < {pixels}; ++i) {{
            const int16_t *v = (const int16_t *)(b + i);
            uint32_t sum = (uint32_t)k0[0];
            for (int32_t q = 0; q < {quads}; ++q, v += {2 * pixels}) {{
                int32_t k = k0[2 + 2 * q];
{odd}                sum += (uint32_t)(odd + v[0] * (int8_t)k + v[1] * (int8_t)(k >> 16));
            }}
            y[i * {channels} + c] = (int8_t){
        expression(rescale, "(int32_t)sum", f"w + {2 + 2 * quads} + {width} * (c & 1)")
    };
        }}
    }}
"""
    lines = _instructions(pixels, quads, channels, rescale, short=short)
    parameters = "const int32_t *b, const int32_t *w, int8_t *y, int32_t n"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}


def _loop(quads: int) -> tuple[int, int]:
    """Rounds of a loop and quads of a round; those that are left, at least one, stand in front of it."""
    if quads <= _UNROLL:
        return 0, 0
    rounds = -(-(quads - 1) // _LOOP)
    return rounds, (quads - 1) // rounds


def _instructions(pixels: int, quads: int, channels: int, rescale: Rescale, *, short: int) -> list[str]:
    """Instructions of `_tile`. On the stack: output, its end, end of the buffer's part that a loop reads."""
    sums = [[f"r{2 + c * pixels + i}" for i in range(pixels)] for c in range(2)]
    free = [*(f"r{i}" for i in range(2 + 2 * pixels, 13)), "lr"]
    words, values = free[:2], free[2 : 2 + (2 if pixels == MAX_PIXELS else pixels)]
    begun = False  # the sums hold their biases

    def products() -> list[str]:
        lines = []
        for first in range(0, pixels, len(values)):
            lines.append(
                f"ldmia r0!, {{{', '.join(values)}}}" if pixels > 1 else f"ldr {values[0]}, [r0], #4"
            )
            for row, word in zip(sums, words, strict=True):
                some = row[first : first + len(values)]
                lines += [
                    f"smlad {a}, {v}, {word}, {a if begun else row[-1]}"
                    for a, v in zip(some, values, strict=True)
                ]
        return lines

    lines = ["push {r4-r11, lr}", "sub sp, sp, #12", "add r3, r2, r3", "strd r2, r3, [sp]"]
    buffer = (2 * quads - (quads // short if short else 0)) * 4 * pixels
    rounds, count = _loop(quads)
    if rounds:
        lines += [f"movw r3, #{buffer}", "add r3, r3, r0", "str r3, [sp, #8]"]
    lines.append("1:")
    first = quads - rounds * count
    for quad in range(first + count if rounds else quads):
        if rounds and quad == first:
            lines.append("2:")
        loaded = words if quad else [row[-1] for row in sums] + words
        lines.append(f"ldmia r1!, {{{', '.join(loaded)}}}")
        if not short or quad % short < short - 1:
            lines += products()
            begun = True
        lines += [f"sxtb16 {word}, {word}" for word in words]
        lines += products()
        begun = True
    if rounds:
        lines += [f"ldr {free[0]}, [sp, #8]", f"cmp r0, {free[0]}", "bne.w 2b"]
    if rescale.rows.shape[1] == 2:
        lines += [f"ldmia r1!, {{{', '.join(free[:4])}}}"]
        lines += [
            *finish(sums[0], rescale, (free[0], free[1])),
            *finish(sums[1], rescale, (free[2], free[3])),
        ]
    else:
        for row in sums:
            lines += [f"ldmia r1!, {{{', '.join(free[:3])}}}"]
            lines += finish(row, rescale, (free[0], free[1], free[2]), free[3])
    lines += ["ldrd r11, r12, [sp]", f"strb {sums[1][0]}, [r11, #1]", f"strb {sums[0][0]}, [r11], #2"]
    for i in range(1, pixels):
        lines += [f"strb {sums[c][i]}, [r11, #{channels * i - 2 + c}]" for c in range(2)]
    lines += ["str r11, [sp]", *subtract("r0", buffer)]
    return [*lines, "cmp r11, r12", "bne.w 1b", "add sp, sp, #12", "pop {r4-r11, pc}"]
