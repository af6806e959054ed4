# SPDX-License-Identifier: Apache-2.0
"""Inner loops of convolution: a tile of pixels times the weights of one channel after the other.

The tile's activations lie in a buffer as pairs of int16 words, interleaved over its pixels, so that one
load feeds every pixel. Weights stay bytes: SXTB16 expands bytes 0 and 2, then 1 and 3, of a word, which
therefore meets the pairs (k0, k2) and (k1, k3); one expansion serves all pixels of the tile. Each channel's
stream holds its bias, its weights and the three words of its requantisation.

Beside the instructions for cores with the DSP extension stands the same computation in plain C.
"""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler.kernels.rescale import HELPERS, Form, Rescale, helpers

DSP: Final = "defined(__ARM_FEATURE_DSP) && defined(__thumb2__)"
MAX_PIXELS: Final = 5


def _register(number: int) -> str:
    return "lr" if number == 13 else f"r{number}"


def _registers(first: int, count: int) -> str:
    return "{" + ", ".join(_register(first + i) for i in range(count)) + "}"


def assembly(lines: list[str]) -> str:
    """Body of a naked function."""
    text = "\n".join(f'        "{line}\\n"' for line in lines)
    return f"    __asm__ volatile(\n{text});\n"


def function(name: str, parameters: str, lines: list[str], plain: str) -> str:
    """A static function: instructions where the core has them, plain C elsewhere."""
    unused = ", ".join(f"{p.strip()} __attribute__((unused))" for p in parameters.split(","))
    return (
        f"#if {DSP}\n__attribute__((naked, noinline)) static void {name}({unused})\n{{\n{assembly(lines)}}}\n"
        f"#else\nstatic void {name}({parameters})\n{{\n{plain}}}\n#endif\n"
    )


def instructions_per_mac(pixels: int) -> float:
    """Cost of a tile's inner loop."""
    return (2 + (1 if pixels == MAX_PIXELS else 0.5) + 2 + 2 * pixels) / (4 * pixels)


def best_tile(width: int) -> int:
    """Pixels of a tile for rows of ``width``; the last tile overlaps the one before it."""
    return min(
        range(1, min(MAX_PIXELS, width) + 1), key=lambda p: -(-width // p) * p * instructions_per_mac(p)
    )


def unrolling(quads: int, most: int) -> int:
    """Largest number of quads up to ``most`` that divides ``quads``."""
    return max(u for u in range(1, min(most, quads) + 1) if quads % u == 0)


def subtract(register: str, amount: int) -> list[str]:
    """Instructions that subtract a constant."""
    lines = []
    while amount:
        step = min(amount, 4092)
        lines.append(f"subw {register}, {register}, #{step}")
        amount -= step
    return lines


def finish(
    accumulators: list[str], rescale: Rescale, words: tuple[str, str, str], *, doubled: bool
) -> list[str]:
    """Requantise sums in registers; ``words`` hold m, r and n."""
    m, r, n = words
    lines = [] if doubled else [f"lsl {a}, {a}, #1" for a in accumulators]
    if rescale.form is Form.SINGLE:
        lines += [f"smmlar {a}, {a}, {m}, {r}" for a in accumulators]
    else:
        lines += [f"smmulr {a}, {a}, {m}" for a in accumulators]
        lines += [f"add {a}, {a}, {a}, asr #31" for a in accumulators]
        lines += [f"add {a}, {a}, {r}" for a in accumulators]
    lines += [f"asr {a}, {a}, {n}" for a in accumulators]
    lines += [f"ssat {a}, #8, {a}" for a in accumulators]
    low, high = rescale.clamp
    for a in accumulators:
        if low > -128:
            lines += [f"cmp {a}, #{low}", "it lt", f"movlt {a}, #{low}"]
        if high < 127:
            lines += [f"cmp {a}, #{high}", "it gt", f"movgt {a}, #{high}"]
    return lines


def tile_times_channels(
    pixels: int, quads: int, channels: int, rescale: Rescale, *, doubled: bool, unroll: int
) -> tuple[str, dict[str, str]]:
    """Function ``(buffer, stream, output, count)`` for a tile; its name and texts.

    Args:
        pixels: of the tile, 1 to `MAX_PIXELS`.
        quads: fours of weights of one channel.
        channels: distance in bytes between pixels of the output.
        doubled: activations and biases are held doubled.
        unroll: most quads in a row.
    """
    low, high = rescale.clamp
    name = f"tile_{pixels}x{quads}_{channels}_{rescale.form.value}{'_d' if doubled else ''}_{low & 255}_{high & 255}"
    lines = _tile_instructions(pixels, quads, channels, rescale, doubled=doubled, unroll=unroll)
    halved = "(a[i] >> 1)" if doubled else "a[i]"
    plain = f"""    for (int32_t c = 0; c < n; ++c) {{
        int32_t a[{pixels}];
        const int16_t *v = (const int16_t *)b;
        for (int32_t i = 0; i < {pixels}; ++i) {{
            a[i] = w[0];
        }}
        ++w;
        for (int32_t q = 0; q < {quads}; ++q, ++w) {{
            const int8_t *k = (const int8_t *)w;
            for (int32_t i = 0; i < {pixels}; ++i, v += 2) {{
                a[i] += v[0] * k[0] + v[1] * k[2] + v[{2 * pixels}] * k[1] + v[{2 * pixels + 1}] * k[3];
            }}
            v += {2 * pixels};
        }}
        for (int32_t i = 0; i < {pixels}; ++i) {{
            y[i * {channels} + c] = (int8_t)saturate({HELPERS[rescale.form][0]}({halved}, w), {low}, {high});
        }}
        w += 3;
    }}
"""
    parameters = "const int32_t *b, const int32_t *w, int8_t *y, int32_t n"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}


def _tile_instructions(
    pixels: int, quads: int, channels: int, rescale: Rescale, *, doubled: bool, unroll: int
) -> list[str]:
    sums = [_register(2 + i) for i in range(pixels)]
    first = 2 + pixels
    values = [_register(first + i) for i in range(pixels)]
    count = unrolling(quads, unroll)
    whole = count == quads
    last = sums[-1]
    spare = [_register(i) for i in range(first + pixels, 14)]
    words = max(w for w in range(1, min(3, len(spare) - 1) + 1) if count % w == 0)
    even, raw = spare[0], spare[1 : 1 + words]

    def products(weights: str, *, start: bool) -> list[str]:
        lines = [f"ldmia r0!, {_registers(first, pixels)}" if pixels > 1 else f"ldr {values[0]}, [r0], #4"]
        return lines + [
            f"smlad {a}, {v}, {weights}, {last if start else a}" for a, v in zip(sums, values, strict=True)
        ]

    lines = ["push {r4-r11, lr}", "sub sp, sp, #12", "str r2, [sp]", "str r3, [sp, #4]", "1:"]
    lines.append(f"ldr {last}, [r1], #4")
    if not whole:
        lines += [f"mov {a}, {last}" for a in sums[:-1]]
        lines += [f"movs r7, #{quads // count}" if quads // count < 256 else f"movw r7, #{quads // count}"]
        lines += ["str r7, [sp, #8]", "2:"]
    for quad in range(count):
        word = raw[quad % words]
        if word == raw[0]:
            lines.append(f"ldmia r1!, {{{', '.join(raw)}}}" if words > 1 else f"ldr {word}, [r1], #4")
        lines += [f"sxtb16 {even}, {word}", *products(even, start=whole and quad == 0)]
        lines += [f"sxtb16 {word}, {word}, ror #8", *products(word, start=False)]
    if not whole:
        lines += ["ldr r7, [sp, #8]", "subs r7, r7, #1", "str r7, [sp, #8]", "bne.w 2b"]
    lines += ["ldmia r1!, {r8, r9, r10}", "ldr r7, [sp]"]
    lines += finish(sums, rescale, ("r8", "r9", "r10"), doubled=doubled)
    lines += [f"strb {a}, [r7, #{channels * i}]" for i, a in enumerate(sums)]
    lines += ["add r7, r7, #1", "str r7, [sp]", "ldr r7, [sp, #4]", *subtract("r0", quads * 8 * pixels)]
    return [*lines, "subs r7, r7, #1", "str r7, [sp, #4]", "bne.w 1b", "add sp, sp, #12", "pop {r4-r11, pc}"]


def widen(pixels: int, distance: int, rows: int, quads: int, *, doubled: bool) -> tuple[str, str]:
    """Function ``(input, buffer, offset, row_bytes)`` that widens the windows of a tile; its name and text.

    Args:
        distance: bytes between the windows of neighbouring pixels.
        rows: of each window, ``row_bytes`` of the call apart.
        quads: fours of bytes in a row of a window.
    """
    name = f"widen_{pixels}x{rows}x{quads}_{distance}{'_d' if doubled else ''}"
    values = [_register(3 + i) for i in range(pixels)]
    evens = [_register(3 + pixels + i) for i in range(pixels)]
    lines = ["push {r3-r11, lr}"]
    if rows > 1:
        lines += [f"mov lr, #{rows}", "1:"]
    count = unrolling(quads, 8)
    if count < quads:
        lines += ["push {lr}", f"mov lr, #{quads // count}", "2:"]
    for quad in range(count):
        lines += [f"ldr {v}, [r0, #{4 * quad + i * distance}]" for i, v in enumerate(values)]
        lines += [f"sxtab16 {e}, r2, {v}" for e, v in zip(evens, values, strict=True)]
        lines += [f"sxtab16 {v}, r2, {v}, ror #8" for v in values]
        if doubled:
            lines += [f"sadd16 {v}, {v}, {v}" for v in (*evens, *values)]
        lines += [f"stmia r1!, {_registers(3 + pixels, pixels)}", f"stmia r1!, {_registers(3, pixels)}"]
    if count < quads:
        lines += [f"add r0, r0, #{4 * count}", "subs lr, lr, #1", "bne.w 2b", "pop {lr}"]
    if rows > 1:
        lines += ["ldr r3, [sp]", "add r0, r0, r3", *(subtract("r0", 4 * quads) if count < quads else [])]
        lines += ["subs lr, lr, #1", "bne.w 1b"]
    lines.append("pop {r3-r11, pc}")
    scale = " * 2" if doubled else ""
    plain = f"""    int16_t *v = (int16_t *)b;
    int32_t o = (int16_t)offset;
    for (int32_t r = 0; r < {rows}; ++r, x += row_bytes)
    for (int32_t q = 0; q < {quads}; ++q) {{
        for (int32_t i = 0; i < {pixels}; ++i, v += 2) {{
            const int8_t *k = x + 4 * q + i * {distance};
            v[0] = (int16_t)((k[0] + o){scale});
            v[1] = (int16_t)((k[2] + o){scale});
            v[{2 * pixels}] = (int16_t)((k[1] + o){scale});
            v[{2 * pixels + 1}] = (int16_t)((k[3] + o){scale});
        }}
        v += {2 * pixels};
    }}
"""
    parameters = "const int8_t *x, int32_t *b, uint32_t offset, int32_t row_bytes"
    return name, function(name, parameters, lines, plain)


def rows_times_vector(quads: int, rescale: Rescale, *, unroll: int) -> tuple[str, dict[str, str]]:
    """Function ``(vector, stream, output, count)`` for one pixel, four outputs at a time; name and texts.

    The stream holds four biases, the words of four rows side by side, and four requantisations.
    """
    low, high = rescale.clamp
    name = f"rows_{quads}_{rescale.form.value}_{low & 255}_{high & 255}"
    sums = ["r2", "r3", "r4", "r5"]
    count = unrolling(quads, unroll)
    lines = ["push {r4-r11, lr}", "sub sp, sp, #12", "str r2, [sp]", "str r3, [sp, #4]", "1:"]
    lines += ["ldmia r1!, {r2, r3, r4, r5}", *_counter("lr", quads // count), "2:"]
    for _ in range(count):
        lines += ["ldmia r1!, {r6, r7, r8, r9}", "ldrd r10, r11, [r0], #8"]
        for a, w in zip(sums, ("r6", "r7", "r8", "r9"), strict=True):
            lines += [f"sxtb16 r12, {w}", f"smlad {a}, r10, r12, {a}"]
            lines += [f"sxtb16 {w}, {w}, ror #8", f"smlad {a}, r11, {w}, {a}"]
    lines += ["subs lr, lr, #1", "bne.w 2b", "ldrd r10, r11, [sp]"]
    for a in sums:
        lines += ["ldmia r1!, {r6, r7, r8}", *finish([a], rescale, ("r6", "r7", "r8"), doubled=False)]
        lines += [f"strb {a}, [r10], #1", "subs r11, r11, #1", "beq.w 3f"]
    lines += ["strd r10, r11, [sp]", *subtract("r0", quads * 8), "b.w 1b", "3:"]
    lines += ["add sp, sp, #12", "pop {r4-r11, pc}"]
    plain = f"""    for (int32_t c = 0; c < n; c += 4, w += {16 + 4 * quads}) {{
        for (int32_t i = 0; i < 4 && c + i < n; ++i) {{
            int32_t sum = w[i];
            for (int32_t q = 0; q < {quads}; ++q) {{
                const int8_t *k = (const int8_t *)(w + 4 + 4 * q + i);
                const int16_t *v = (const int16_t *)(b + 2 * q);
                sum += v[0] * k[0] + v[1] * k[2] + v[2] * k[1] + v[3] * k[3];
            }}
            y[c + i] = (int8_t)saturate({HELPERS[rescale.form][0]}(sum, w + {4 + 4 * quads} + 3 * i), {low}, {high});
        }}
    }}
"""
    parameters = "const int32_t *b, const int32_t *w, int8_t *y, int32_t n"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}


def _counter(register: str, number: int) -> list[str]:
    return [f"movw {register}, #{number}"]
