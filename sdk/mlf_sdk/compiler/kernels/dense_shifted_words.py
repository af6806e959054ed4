# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers for cores without the DSP extension: words of four weights, never taken apart.

With W0 a word of four weights, the upper ones signed, W1 = W0 >> 8, W2 = W0 >> 16 and W3 = W0 >> 24, its
digits are W0 - 256 W1, W1 - 256 W2, W2 - 256 W3 and W3. The products with four inputs are therefore
W0 x0 + W1 (x1 - 256 x0) + W2 (x2 - 256 x1) + W3 (x3 - 256 x2), modulo 2^32: a shift and a multiplication
each. The factors in brackets are made once for all outputs. The lower digits have no sign: they hold weights
plus 128, and what that adds is taken from every sum before.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.kernels.windows import Tile
from mlf_sdk.compiler.microkernels.builder import (
    HIGH_OUTPUT_WORDS,
    HIGH_WORD,
    HIGH_WORDS,
    OUTPUT_WORDS,
    WORD,
    WORDS,
    Builder,
)
from mlf_sdk.compiler.microkernels.function import function_of_sets
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from mlf_sdk.compiler.operators import Array

_OUTPUTS: Final = 4
_TAPS: Final = 8  # of a turn of the loop


def dense_tile(shape: Layout, rows: Array, bias: Array, rescale: Rescale) -> Tile:
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
            **_four_dots(),
            widen: _factors(widen, inputs, taps),
            name: text,
        },
        constants=(np.concatenate([biases, weights], axis=1).reshape(-1), words_of(rescale)),
        buffer_bytes=4 + 4 * taps,
        channels=_OUTPUTS,
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
        w = {sums}(x, w, sums{", (uint32_t)taps" if taps else ""});
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


@functools.cache
def _four_dots() -> Mapping[str, str]:
    """Function ``(factors, stream, sums, taps)``, taps a multiple of eight, and what it needs."""
    variants = [(record_m3(), instruction_set("thumb2")), (record_m0(), instruction_set("thumb1"))]
    return function_of_sets("four_dots", variants, "dense_shifted_words: ")


def _builder() -> Builder:
    return Builder(x=WORDS, w=WORDS, s=OUTPUT_WORDS, taps=WORD)


def record_m3() -> Builder:
    """Record four sums of products: factors in fours, words of four weights of each sum."""
    b = _builder()
    x, w, s, taps = b.parameters
    (start,) = b.load(x)
    end = b.place(x, b.do("shift_left", taps, i=2))
    sums = b.load(w, _OUTPUTS)
    b.each("add", sums, start, into=sums)
    with b.loop(x, end):
        for _ in b.repeat(_TAPS // 4):
            factors = b.load(x, 4)
            for total, word in zip(sums, b.load(w, _OUTPUTS), strict=True):
                b.do("multiply_add", word, factors[0], total, into=total)
                for factor in factors[1:]:
                    b.do("shift_right", word, i=8, into=word)
                    b.do("multiply_add", word, factor, total, into=total)
    b.store_many(s, sums)
    b.give_back(w)
    return b


def record_m0() -> Builder:
    """Record the same with sums in registers that can only be added to."""
    b = _builder()
    x, w, s, taps = b.parameters
    output = b.do("copy", s, kind=HIGH_OUTPUT_WORDS)
    (start,) = b.load(x)
    end = b.do("copy", b.place(x, b.do("shift_left", taps, i=2)), kind=HIGH_WORDS)
    first = b.each("add", b.load(w, _OUTPUTS), start)
    sums = b.each("copy", first, kind=HIGH_WORD)
    with b.loop(x, end):
        for _ in b.repeat(_TAPS // 4):
            factors = b.load(x, 4)
            for total in sums:
                (word,) = b.load(w)
                for number in (1, 2, 3):
                    part = b.do("shift_right", word, i=8 * number)
                    b.do("multiply_into", part, factors[number], into=part)
                    b.do("add_to_high", total, part, into=total)
                b.do("multiply_into", word, factors[0], into=word)
                b.do("add_to_high", total, word, into=total)
    stream = b.do("copy", output, kind=OUTPUT_WORDS)
    b.store_many(stream, [b.do("copy", total) for total in sums])
    b.give_back(w)
    return b
