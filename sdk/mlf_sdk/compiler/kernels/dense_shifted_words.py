# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers for cores without the DSP extension: words of four weights, never taken apart.

With W0 a word of four weights, the upper ones signed, W1 = W0 >> 8, W2 = W0 >> 16 and W3 = W0 >> 24, its
digits are W0 - 256 W1, W1 - 256 W2, W2 - 256 W3 and W3. The products with four inputs are therefore
W0 x0 + W1 (x1 - 256 x0) + W2 (x2 - 256 x1) + W3 (x3 - 256 x2), modulo 2^32: a shift and a multiplication
each. The factors in brackets are made once for all outputs. The lower digits have no sign: they hold weights
plus 128, and what that adds is taken from every sum before.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import function_of_cores, label
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scalar import ARM_V6M, ARM_V7M, UNIFIED
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.kernels.windows import Shape, Tile
from mlf_sdk.compiler.operators import Array

_OUTPUTS: Final = 4
_TAPS: Final = 8  # of a turn of the loop


def dense_tile(shape: Shape, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Fully connected layer: four outputs at a time, their biases and then their words of weights side by side."""
    outputs, inputs = rows.shape
    taps, groups = -(-inputs // _TAPS) * _TAPS, -(-outputs // _OUTPUTS)
    padded = np.pad(rows, ((0, _OUTPUTS * groups - outputs), (0, taps - inputs))).astype(np.int16)
    padded[:, np.arange(taps) % 4 != 3] += 128
    quads = (padded & 255).astype(np.uint8).reshape(groups, _OUTPUTS, taps // 4, 4).transpose(0, 2, 1, 3)
    weights = np.ascontiguousarray(quads).view(np.int32).reshape(groups, taps)
    biases = np.pad(bias, (0, _OUTPUTS * groups - outputs)).astype(np.int32).reshape(groups, _OUTPUTS)
    widen = f"digit_factors_{inputs}"
    name, text = groups_of_four(rescale, "four_dots", taps=True)
    return Tile(
        widen=widen,
        call=f"{name}(b0, p0, p1, {{}}, {outputs}, {taps})",
        helpers={
            **helpers(rescale.form),
            "four_dots": _four_dots(),
            widen: _factors(widen, inputs, taps),
            name: text,
        },
        constants=(np.concatenate([biases, weights], axis=1).reshape(-1), words_of(rescale)),
        buffer_bytes=4 + 4 * taps,
    )


def words_of(rescale: Rescale) -> Array:
    """Words of a layer's requantisation: of each output, or once where all have the same."""
    rows = rescale.rows[:1] if _is_one(rescale) else rescale.rows
    return np.ascontiguousarray(rows.reshape(-1)).astype(np.int32)


def _is_one(rescale: Rescale) -> bool:
    return bool((rescale.rows == rescale.rows[0]).all())


def groups_of_four(rescale: Rescale, sums: str, *, taps: bool = False) -> tuple[str, str]:
    """Function ``(buffer, stream, words, output, outputs)`` that requantises four sums at a time; name and text.

    Args:
        sums: function ``(buffer, stream, sums)`` that computes four sums and returns the next group's stream.
        taps: both functions have a last parameter, the taps of a sum.
    """
    one = _is_one(rescale)
    name = f"{sums}_{'layer' if one else 'rows'}_{label(rescale)}"
    words = "    const int32_t k[3] = {p[0], p[1], p[2]};\n" if one else ""
    following = "++i" if one else "++i, p += 3"
    text = f"""static void {name}(const int32_t *x, const int32_t *w, const int32_t *p, int8_t *y, int32_t n{", int32_t taps" if taps else ""})
{{
{words}    for (; n > 0; n -= {_OUTPUTS}) {{
        int32_t sums[{_OUTPUTS}], most = n < {_OUTPUTS} ? n : {_OUTPUTS};
        w = {sums}(x, w, sums{", taps" if taps else ""});
        for (int32_t i = 0; i < most; {following}) {{
            *y++ = (int8_t){expression(rescale, "sums[i]", "k" if one else "p")};
        }}
    }}
}}
"""
    return name, text


def _factors(name: str, inputs: int, taps: int) -> str:
    """Function ``(input, buffer, 0)``: what all sums begin with, and the factors of each input."""
    rest = "".join(
        f"    b[{at}] = x[{at}]{f' - 256 * x[{at - 1}]' if at else ''};\n"
        + (f"    start += x[{at}];\n" if at < 3 else "")
        for at in range(inputs % 4)
    )
    if inputs % 4:  # the factor behind the last input still holds it
        at = inputs % 4
        rest += f"    b[{at}] = -256 * x[{at - 1}];\n"
    used = inputs + (1 if inputs % 4 else 0)
    clear = f"    memset(first + 1 + {used}, 0, {4 * (taps - used)});\n" if taps > used else ""
    whole = f"""    for (int32_t q = 0; q < {inputs // 4}; ++q, x += 4, b += 4) {{
        int32_t x0 = x[0], x1 = x[1], x2 = x[2];
        b[0] = x0;
        b[1] = x1 - 256 * x0;
        b[2] = x2 - 256 * x1;
        b[3] = x[3] - 256 * x2;
        start += x0 + x1 + x2;
    }}
"""
    return f"""static void {name}(const int8_t *x, int32_t *first, int32_t row_bytes)
{{
    int32_t start = 0;
    int32_t *b = first + 1;
    (void)row_bytes;
{whole if inputs >= 4 else ""}{rest}{clear}    *first = -128 * start;
}}
"""


def _four_dots() -> str:
    """Function ``(factors, stream, sums, taps)``, taps a multiple of eight; returns the next group's stream."""
    parameters = "const int32_t *x, const int32_t *w, int32_t *s, int32_t taps"
    m3 = ["push {r2, r4-r11, lr}", "sub sp, sp, #8", "ldr r10, [r0], #4", "add r3, r0, r3, lsl #2"]
    m3 += ["str r3, [sp]", "ldmia r1!, {r6-r9}", *(f"add r{6 + i}, r{6 + i}, r10" for i in range(4)), "1:"]
    for _ in range(_TAPS // 4):
        m3 += ["ldmia r0!, {r2-r5}", "ldmia r1!, {r10, r11, r12, lr}"]
        for total, word in zip(("r6", "r7", "r8", "r9"), ("r10", "r11", "r12", "lr"), strict=True):
            m3.append(f"mla {total}, {word}, r2, {total}")
            for factor in ("r3", "r4", "r5"):
                m3 += [f"asr {word}, {word}, #8", f"mla {total}, {word}, {factor}, {total}"]
    m3 += ["ldr r10, [sp]", "cmp r0, r10", "bne.w 1b", "ldr r2, [sp, #8]", "stmia r2!, {r6-r9}"]
    m3 += ["mov r0, r1", "add sp, sp, #12", "pop {r4-r11, pc}"]
    saved = [f"mov r{4 + i}, r{8 + i}" for i in range(4)]
    m0 = [UNIFIED, "push {r4-r7, lr}", *saved, "push {r4-r7}", "push {r2}", "ldmia r1!, {r4-r7}"]
    m0 += [f"mov r{8 + i}, r{4 + i}" for i in range(4)]
    m0 += ["ldmia r0!, {r4}", *(f"add r{8 + i}, r4" for i in range(4))]
    m0 += ["lsls r3, r3, #2", "adds r3, r0, r3", "mov r12, r3", "1:"]
    for _ in range(_TAPS // 4):
        m0.append("ldmia r0!, {r2-r5}")
        for i in range(_OUTPUTS):
            m0.append("ldmia r1!, {r6}")
            for digit, factor in ((1, "r3"), (2, "r4"), (3, "r5")):
                m0 += [f"asrs r7, r6, #{8 * digit}", f"muls r7, {factor}, r7", f"add r{8 + i}, r7"]
            m0 += ["muls r6, r2, r6", f"add r{8 + i}, r6"]
    m0 += ["cmp r0, r12", "bne 1b", "mov r0, r1", "pop {r2}", *saved, "stmia r2!, {r4-r7}", "pop {r4-r7}"]
    m0 += [*(f"mov r{8 + i}, r{4 + i}" for i in range(4)), "pop {r4-r7, pc}"]
    plain = f"""    for (int32_t i = 0; i < {_OUTPUTS}; ++i) {{
        s[i] = *w++ + x[0];
    }}
    ++x;
    for (int32_t t = 0; t < taps; t += 4, x += 4)
    for (int32_t i = 0; i < {_OUTPUTS}; ++i, ++w) {{
        uint32_t sum = (uint32_t)s[i];
        for (int32_t k = 0; k < 4; ++k) {{
            sum += (uint32_t)(*w >> 8 * k) * (uint32_t)x[k];
        }}
        s[i] = (int32_t)sum;
    }}
    return w;
"""
    variants = {ARM_V7M: m3, ARM_V6M: m0}
    return function_of_cores("four_dots", parameters, variants, plain, result="const int32_t *")
