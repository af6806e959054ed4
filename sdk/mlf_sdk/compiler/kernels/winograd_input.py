# SPDX-License-Identifier: Apache-2.0
"""Input of Winograd's convolution: squares of 4x4 pixels, two channels in a word, as sums of four bytes."""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler.kernels.assembly import DSP

PAIRS: Final = f"""#if {DSP}
#include <arm_acle.h>
static inline int32_t add_pairs(int32_t a, int32_t b)
{{
    return __sadd16(a, b);
}}
static inline int32_t subtract_pairs(int32_t a, int32_t b)
{{
    return __ssub16(a, b);
}}
static inline int32_t pair_of(uint32_t quad, int odd)
{{
    int32_t found;
    if (odd) {{
        __asm__("sxtb16 %0, %1, ror #8" : "=r"(found) : "r"(quad));
        return found;
    }}
    return __sxtb16((int32_t)quad);
}}
#else
static inline int32_t pair(int32_t low, int32_t high)
{{
    return (int32_t)(((uint32_t)high << 16) | ((uint32_t)low & 0xFFFF));
}}
static inline int32_t add_pairs(int32_t a, int32_t b)
{{
    return pair((int16_t)a + (int16_t)b, (a >> 16) + (b >> 16));
}}
static inline int32_t subtract_pairs(int32_t a, int32_t b)
{{
    return pair((int16_t)a - (int16_t)b, (a >> 16) - (b >> 16));
}}
static inline int32_t pair_of(uint32_t quad, int odd)
{{
    return pair((int8_t)(quad >> 8 * odd), (int8_t)(quad >> 8 * odd >> 16));
}}
#endif
static inline int32_t pair_at(const int8_t *x, int odd)
{{
    uint32_t quad;
    memcpy(&quad, x, 4);
    return pair_of(quad, odd);
}}
MLF_ALWAYS_INLINE static inline void column_of(const int8_t *x, int32_t row_bytes, int odd, int32_t *v)
{{
    int32_t a = pair_at(x, odd), b = pair_at(x + row_bytes, odd);
    int32_t c = pair_at(x + 2 * row_bytes, odd), d = pair_at(x + 3 * row_bytes, odd);
    v[0] = subtract_pairs(a, c);
    v[1] = add_pairs(b, c);
    v[2] = subtract_pairs(c, b);
    v[3] = subtract_pairs(b, d);
}}
"""


def transform(squares: int, ic: int) -> tuple[str, str]:
    """Function ``(input, buffer, row_bytes)`` that transforms the squares of a tile; its name and text.

    The buffer has a row for each product of a square, in the order of the weights: pairs of two channels,
    those of all squares beside each other.
    """
    name = f"squares_{squares}x{ic}"
    row = ic // 2 * squares
    lines = []
    for square in range(squares):
        columns = [f"v[{(2 * square + i) % 4}]" for i in range(4)]
        lines += [
            f"    column_of(x + {(2 * square + i) * ic}, row_bytes, odd, {columns[i]});"
            for i in ((0, 1, 2, 3) if not square else (2, 3))
        ]
        for i in range(4):
            first, second, third, fourth = (f"{c}[{i}]" for c in columns)
            values = (
                f"add_pairs({second}, {third})",
                f"subtract_pairs({third}, {second})",
                f"subtract_pairs({first}, {third})",
                f"subtract_pairs({second}, {fourth})",
            )
            lines += [
                f"    b[{(4 * i + number) * row + square}] = {value};" for number, value in enumerate(values)
            ]
    body = "\n".join(lines)
    return (
        name,
        f"""MLF_ALWAYS_INLINE static inline void {name}_half(const int8_t *x, int32_t *b, int32_t row_bytes, int odd)
{{
    int32_t v[4][4];
{body}
}}
static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    for (int32_t q = 0; q < {ic // 4}; ++q, x += 4, b += {2 * squares}) {{
        {name}_half(x, b, row_bytes, 0);
        {name}_half(x, b + {squares}, row_bytes, 1);
    }}
}}
""",
    )
