# SPDX-License-Identifier: Apache-2.0
"""Inner loops of convolution: a tile of pixels times the weights of one channel after the other.

The tile's activations lie in a buffer as pairs of int16 words, interleaved over its pixels, so that one
load feeds every pixel. Weights stay bytes, four in a word; one expansion serves all pixels of the tile.

A word holds the numbers 256 * k1 + k0 and 256 * k3 + k2. SXTB16 gives (k0, k2); the word itself serves for
(k1, k3): with p = x1 - 127 and q = 256 * x0 - p, which just fits 16 bits, p * (256 * k1 + k0) + q * k0 is
256 times the sum of products, so that one expansion is saved and the sum has eight more bits for a cheap
requantisation (`Form.FINE`). Where 256 times the sum does not fit, words hold bytes and SXTB16 expands both
halves. Each channel's stream holds its bias, its weights and the words of its requantisation.

Beside the instructions for cores with the DSP extension stands the same computation in plain C.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from mlf_sdk.compiler.kernels.assembly import function, label, subtract, unrolling
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORD, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import static_function
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set

MAX_PIXELS: Final = 5
_FREE: Final = 11  # registers beside pointers and a word that is taken apart


def _register(number: int) -> str:
    return "lr" if number == 13 else f"r{number}"


def _registers(first: int, count: int) -> str:
    return "{" + ", ".join(_register(first + i) for i in range(count)) + "}"


def instructions_per_mac(pixels: int) -> float:
    """Cost of a tile's inner loop."""
    return (1 + (1 if pixels == MAX_PIXELS else 1 / 3) + 2 + 2 * pixels) / (4 * pixels)


def best_tile(width: int) -> int:
    """Pixels of a tile for rows of ``width``; the last tile overlaps the one before it."""
    return min(
        range(1, min(MAX_PIXELS, width) + 1), key=lambda p: -(-width // p) * p * instructions_per_mac(p)
    )


def tile_times_channels(
    pixels: int, quads: int, channels: int, rescale: Rescale, *, unroll: int, short: int = 0
) -> tuple[str, Mapping[str, str]]:
    """Function ``(buffer, stream, output, count)`` for a tile; its name and texts.

    Args:
        pixels: of the tile, 1 to `MAX_PIXELS`.
        quads: fours of weights of one channel.
        channels: distance in bytes between pixels of the output.
        unroll: most quads in a row.
        short: quads of a row of the window, the last of which holds one weight only; 0 for none.
    """
    name = f"conv_1ch_{pixels}x{quads}_{channels}_{label(rescale)}{f'_s{short}' if short else ''}"
    return name, _function(name, pixels, quads, channels, Epilogue.of(rescale), unroll, short)


@functools.lru_cache(maxsize=256)
def _function(
    name: str, pixels: int, quads: int, channels: int, epilogue: Epilogue, unroll: int, short: int
) -> Mapping[str, str]:
    b = record(pixels, quads, channels, epilogue, unroll=unroll, short=short)
    return static_function(name, b, instruction_set("dsp"))


def record(
    pixels: int, quads: int, channels: int, epilogue: Epilogue, *, unroll: int, short: int = 0
) -> Builder:
    """Record a tile; arguments as of `tile_times_channels`."""
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES, n=WORD)
    x, w, y, n = b.parameters
    end = b.place(y, n)
    count = unrolling(quads, unroll)
    size_bytes = (2 * quads - (quads // short if short else 0)) * 4 * pixels
    bound = b.place(x, size_bytes) if count < quads else None
    ahead = min(3, _FREE - 2 * pixels)  # words of weights for which there are registers

    def products(weights: Register) -> None:
        b.each("smlad", b.load(x, pixels), weights, sums, into=sums)

    def part() -> None:
        for first in b.repeat(-(-count // ahead)):
            words = b.load(w, min(ahead, count - first * ahead))
            for quad, word in enumerate(words, first * ahead):
                b.note(f"weights {4 * quad} to {4 * quad + 3}")
                products(b.do("sxtb16", word))
                odd = word if epilogue.is_fine else b.do("sxtb16_ror8", word)
                if not short or quad % short < short - 1:
                    products(odd)

    with b.loop(y, end):
        sums = b.sums(b.load(w, 1)[0], pixels)
        if bound is not None:
            with b.loop(x, bound):
                part()
        else:
            part()
        b.note(f"requantise {pixels} pixels")
        stored = epilogue.record(b, sums, b.load(w, epilogue.words))
        for pixel, value in enumerate(stored):
            b.store_byte(y, value, pixel * channels)
        b.advance(y, 1)
        b.advance(x, -size_bytes)
    return b


def widen(
    pixels: int,
    distance: int,
    rows: int,
    quads: int,
    *,
    fine: bool,
    short: bool = False,
    odd_first: bool = False,
) -> tuple[str, str]:
    """Function ``(input, buffer, row_bytes)`` that widens the windows of a tile; its name and text.

    Args:
        distance: bytes between the windows of neighbouring pixels.
        rows: of each window, ``row_bytes`` of the call apart.
        quads: fours of bytes in a row of a window.
        fine: for words that hold two weights.
        short: the last of them holds one byte only.
        odd_first: pairs (1, 3) stand in front of pairs (0, 2).
    """
    name = f"widen_{pixels}x{rows}x{quads}_{distance}{'_f' * fine}{'_s' * short}{'_o' * odd_first}"
    count = unrolling(quads, 8)
    parameters = "const int8_t *x, int32_t *b, int32_t row_bytes"
    lines = [
        "push {r2-r11, lr}",
        *(["movw r2, #0xff81", "movt r2, #0xff81", "mov lr, #0xff00ff00"] if fine else []),
    ]
    if rows > 1:
        lines += ["sub sp, sp, #8", f"movw r3, #{rows}", "str r3, [sp]", "1:"]
    if count < quads:
        lines += [
            *([] if rows > 1 else ["sub sp, sp, #8"]),
            f"movw r3, #{quads // count}",
            "str r3, [sp, #4]",
            "2:",
        ]
    for quad in range(count):
        alone = short and quad == quads - 1
        lines += _widen_quad(pixels, distance, 4 * quad, fine=fine, short=alone, odd_first=odd_first)
    if count < quads:
        lines += [
            f"add r0, r0, #{4 * count}",
            "ldr r3, [sp, #4]",
            "subs r3, r3, #1",
            "str r3, [sp, #4]",
            "bne.w 2b",
        ]
    if rows > 1:
        lines += ["ldr r3, [sp, #8]", "add r0, r0, r3", *(subtract("r0", 4 * quads) if count < quads else [])]
        lines += ["ldr r3, [sp]", "subs r3, r3, #1", "str r3, [sp]", "bne.w 1b"]
    if rows > 1 or count < quads:
        lines.append("add sp, sp, #8")
    lines.append("pop {r2-r11, pc}")
    odd = "k[{}] - 127" if fine else "k[{}]"
    even = "256 * k[{}] - (k[{}] - 127)" if fine else "k[{}]"
    first, second = (2 * pixels, 0) if odd_first else (0, 2 * pixels)
    plain = f"""    int16_t *v = (int16_t *)b;
    for (int32_t r = 0; r < {rows}; ++r, x += row_bytes)
    for (int32_t q = 0; q < {quads}; ++q) {{
        for (int32_t i = 0; i < {pixels}; ++i, v += 2) {{
            const int8_t *k = x + 4 * q + i * {distance};
            v[{first}] = (int16_t)({even.format(0, 1)});
            v[{first + 1}] = (int16_t)({even.format(2, 3)});
            v[{second}] = (int16_t)({odd.format(1)});
            v[{second + 1}] = (int16_t)({odd.format(3)});
        }}
        v += {2 * pixels};
    }}
"""
    if short:
        by = "256 * " if fine else ""
        plain = plain.replace(
            f"q < {quads}; ++q) {{\n",
            f"""q < {quads}; ++q) {{
        if (q == {quads - 1}) {{
            for (int32_t i = 0; i < {pixels}; ++i, v += 2) {{
                v[0] = (int16_t)({by}x[4 * q + i * {distance}]);
                v[1] = (int16_t)({by}x[4 * q + i * {distance} + 2]);
            }}
            continue;
        }}
""",
        )
    return name, function(name, parameters, lines, plain)


def _widen_quad(
    pixels: int, distance: int, at: int, *, fine: bool, short: bool, odd_first: bool
) -> list[str]:
    """Four values of every pixel: their pairs (0, 2), then (1, 3), or these first; short: (0, 2) alone."""
    values = [_register(3 + i) for i in range(pixels)]
    odd = [_register(3 + pixels + i) for i in range(pixels)]
    if odd_first and not short:
        values, odd = odd, values
    lines = [f"ldr {v}, [r0, #{at + i * distance}]" for i, v in enumerate(values)]
    if short:
        lines += [f"and {v}, lr, {v}, lsl #8" if fine else f"sxtb16 {v}, {v}" for v in values]
        return [*lines, f"stmia r1!, {_registers(3, pixels)}" if pixels > 1 else "str r3, [r1], #4"]
    if fine:
        lines += [f"sxtab16 {p}, r2, {v}, ror #8" for p, v in zip(odd, values, strict=True)]
        lines += [f"and {v}, lr, {v}, lsl #8" for v in values]
        lines += [f"ssub16 {v}, {v}, {p}" for p, v in zip(odd, values, strict=True)]
    else:
        lines += [f"sxtb16 {p}, {v}, ror #8" for p, v in zip(odd, values, strict=True)]
        lines += [f"sxtb16 {v}, {v}" for v in values]
    return [*lines, f"stmia r1!, {_registers(3, 2 * pixels)}"]
