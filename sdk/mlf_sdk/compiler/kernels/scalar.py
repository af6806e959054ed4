# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores without the DSP extension, each with the same computation in plain C.

A word of a tile's buffer holds one byte of two pixels' windows, so that one multiplication serves both. On a
Cortex-M3 they are 23 bits apart and SMLAL adds their products up in 64 bits, which sums of 256 products and
more can't overflow; on a Cortex-M0 they are 16 bits apart, and the sums of two products are taken apart.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import GNU, UNALIGNED, function_of_cores, label
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.kernels.windows import Shape, Tile
from mlf_sdk.compiler.operators import Array

ARM_V6M: Final = f"{GNU} && defined(__ARM_ARCH_6M__)"
ARM_V7M: Final = f"{UNALIGNED} && defined(__ARM_ARCH_7M__)"
UNIFIED: Final = ".syntax unified"  # which GCC does not take for granted here
_SAFE_TAPS: Final = 256
_ROWS: Final = 4


def tile_m3(shape: Shape, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Tile of up to six pixels for a Cortex-M3."""
    return _tile(shape, rows, bias, rescale, 23)


def tile_m0(shape: Shape, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Tile of up to four pixels for a Cortex-M0."""
    return _tile(shape, rows, bias, rescale, 16)


def _tile(shape: Shape, rows: Array, bias: Array, rescale: Rescale, apart: int) -> Tile:
    taps = -(-shape.depth // 4) * 4
    pairs = -(-shape.pixels // 2)
    weights = np.ascontiguousarray(np.pad(rows, ((0, 0), (0, taps - shape.depth))).reshape(-1))
    words = np.ascontiguousarray(np.concatenate([bias[:, None], rescale.rows], axis=1).reshape(-1))
    largest = int(np.abs(rows.astype(np.int64)).sum(axis=1).max(initial=0))
    chunk = taps if apart == 16 or largest < 1 << 15 else _SAFE_TAPS
    dots = f"dots_{pairs}_{apart}"
    name = f"pairs_{shape.pixels}_{apart}_{label(rescale)}"
    widen = f"pair_windows_{shape.pixels}x{shape.rows}x{shape.used}_{shape.distance}_{apart}"
    return Tile(
        widen=widen,
        call=f"{name}(b0, {taps}, {min(chunk, taps)}, p0, p1, {{}}, {len(rows)}, {shape.channels})",
        helpers={
            **helpers(rescale.form),
            dots: _dots(dots, pairs, apart),
            widen: _widen(widen, shape, apart),
            name: _all_channels(name, dots, shape.pixels, pairs, rescale),
        },
        constants=(weights, words.astype(np.int32)),
        buffer_bytes=taps * pairs * 4,
    )


def _widen(name: str, shape: Shape, apart: int) -> str:
    """Function that lays out windows, byte after byte, the pixels of a pair in a word.

    The last word is written although it meets weights of 0: the mark that a run leaves in its memory is exact.
    """
    words = []
    spare = -shape.depth % 4 * -(-shape.pixels // 2)
    last = f"    b[{spare - 1}] = 0;\n" if spare else ""
    for first in range(0, shape.pixels, 2):
        second = f" + x[{(first + 1) * shape.distance}] * {1 << apart}" if first + 1 < shape.pixels else ""
        words.append(f"        *b++ = x[{first * shape.distance}]{second};\n")
    return f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    for (int32_t r = 0; r < {shape.rows}; ++r, x += row_bytes - {shape.used})
    for (const int8_t *end = x + {shape.used}; x != end; ++x) {{
{"".join(words)}    }}
{last}}}
"""


def _all_channels(name: str, dots: str, pixels: int, pairs: int, rescale: Rescale) -> str:
    return f"""static void {name}(const int32_t *b, int32_t taps, int32_t chunk, const int8_t *w, const int32_t *p,
    int8_t *y, int32_t n, int32_t distance)
{{
    for (int32_t c = 0; c < n; ++c, p += 4, ++y) {{
        int32_t sums[{2 * pairs}];
        {dots}(b, w, sums, chunk);
        w += chunk;
        for (int32_t done = chunk, some; done < taps; done += some, w += some) {{
            int32_t more[{2 * pairs}];
            some = taps - done < chunk ? taps - done : chunk;
            {dots}(b + done * {pairs}, w, more, some);
            for (int32_t i = 0; i < {2 * pairs}; ++i) {{
                sums[i] += more[i];
            }}
        }}
        int8_t *z = y;
        const int32_t bias = p[0], k[3] = {{p[1], p[2], p[3]}};
        for (int32_t i = 0; i < {pixels}; ++i, z += distance) {{
            *z = (int8_t){expression(rescale, "bias + sums[i]", "k")};
        }}
    }}
}}
"""


def _dots(name: str, pairs: int, apart: int) -> str:
    """Function ``(buffer, weights, sums, taps)`` for one channel; taps are a multiple of four."""
    parameters = "const int32_t *b, const int8_t *w, int32_t *s, int32_t taps"
    variants = {ARM_V7M: _dots_m3(pairs)} if apart == 23 else {ARM_V6M: _dots_m0(pairs)}
    plain = f"""    for (int32_t i = 0; i < {2 * pairs}; ++i) {{
        s[i] = 0;
    }}
    for (int32_t t = 0; t < taps; ++t)
    for (int32_t i = 0; i < {pairs}; ++i, ++b) {{
        int32_t first = (int8_t)*b;
        s[2 * i] += first * w[t];
        s[2 * i + 1] += ((*b - first) >> {apart}) * w[t];
    }}
"""
    return function_of_cores(name, parameters, variants, plain)


def _dots_m3(pairs: int) -> list[str]:
    values = ["r10", "r11", "r12"][:pairs]
    sums = [("r4", "r5"), ("r6", "r7"), ("r8", "r9")][:pairs]
    lines = ["push {r4-r11, lr}", "add r3, r1, r3", *(f"mov {r}, #0" for pair in sums for r in pair), "1:"]
    for _ in range(_ROWS):
        load = f"ldmia r0!, {{{', '.join(values)}}}" if pairs > 1 else "ldr r10, [r0], #4"
        lines += [load, "ldrsb lr, [r1], #1"]
        lines += [f"smlal {low}, {high}, {v}, lr" for (low, high), v in zip(sums, values, strict=True)]
    lines += ["cmp r1, r3", "bne 1b"]
    for low, high in sums:
        lines += [f"sbfx r10, {low}, #0, #23", f"lsr r11, {low}, #23", f"orr r11, r11, {high}, lsl #9"]
        lines += ["sub r11, r11, r10, asr #31", "stmia r2!, {r10, r11}"]
    return [*lines, "pop {r4-r11, pc}"]


def _dots_m0(pairs: int) -> list[str]:
    values = [f"r{2 + i}" for i in range(2 * pairs)]
    sums = [f"r{8 + i}" for i in range(2 * pairs)]
    saved = [f"mov r{4 + i}, r{8 + i}" for i in range(4)]
    lines = [
        UNIFIED,
        "push {r4-r7, lr}",
        *saved,
        "push {r4-r7}",
        "push {r2}",
        "adds r3, r1, r3",
        "mov r12, r3",
    ]
    lines += ["movs r2, #0", *(f"mov {s}, r2" for s in sums), "1:"]
    for two in range(_ROWS // 2):
        lines.append(f"ldmia r0!, {{{', '.join(values)}}}")
        for tap in range(2):
            lines += [f"ldrb r6, [r1, #{2 * two + tap}]", "sxtb r6, r6"]
            lines += [f"muls {v}, r6, {v}" for v in values[tap * pairs : (tap + 1) * pairs]]
        for pair in range(pairs):
            first, other = values[pair], values[pairs + pair]
            lines += [f"adds {first}, {first}, {other}", f"sxth {other}, {first}"]
            lines += [f"subs {first}, {first}, {other}", f"asrs {first}, {first}, #16"]
            lines += [f"add {sums[2 * pair]}, {other}", f"add {sums[2 * pair + 1]}, {first}"]
    lines += ["adds r1, r1, #4", "cmp r1, r12", "bne 1b", "pop {r2}"]
    lines += [*saved[: 2 * pairs], f"stmia r2!, {{{', '.join(f'r{4 + i}' for i in range(2 * pairs))}}}"]
    lines += ["pop {r4-r7}", *(f"mov r{8 + i}, r{4 + i}" for i in range(4)), "pop {r4-r7, pc}"]
    return lines
