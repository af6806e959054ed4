# SPDX-License-Identifier: Apache-2.0
"""Operations on 32-bit words: the meaning of each, one expression that is valid as C and as Python.

All arithmetic is modulo 2**32. Operands are ``a``, ``b``, ``c``; ``i`` is a constant. The spelling of an
operation in an instruction set stands in ``board_templates/instruction_sets``, with operations of its own.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Word = TypeVar("Word", int, NDArray[np.int64])

MEANINGS: Final = {
    "copy": "a",
    "add": "a + b",
    "add_sign": "a + shift_right(b, 31)",
    "and_sign": "a & shift_right(b, 31)",
    "shift_left": "a << i",
    "shift_right_by": "shift_right(a, b)",
    "subtract": "a - b",
    "and_lsl8": "a & (b << 8)",
    "immediate": "i",
    "constant": "i",
    "smlad": "c + low_half(a) * low_half(b) + high_half(a) * high_half(b)",
    "smlabt": "c + low_half(a) * high_half(b)",
    "smlatb": "c + high_half(a) * low_half(b)",
    "smuad": "low_half(a) * low_half(b) + high_half(a) * high_half(b)",
    "sadd16": "halves(low_half(a) + low_half(b), high_half(a) + high_half(b))",
    "ssub16": "halves(low_half(a) - low_half(b), high_half(a) - high_half(b))",
    "sxtab16": "halves(low_half(a) + low_byte(b), high_half(a) + low_byte(b >> 16))",
    "sxtab16_ror8": "halves(low_half(a) + low_byte(b >> 8), high_half(a) + low_byte(b >> 24))",
    "pkhbt_lsl16": "halves(low_half(a), low_half(b))",
    "pkhtb_asr16": "halves(high_half(b), high_half(a))",
    "sxtb16": "halves(low_byte(a), low_byte(a >> 16))",
    "sxtb16_ror8": "halves(low_byte(a >> 8), low_byte(a >> 24))",
    "smmla": "c + high_word(a, b)",
    "smmlar": "c + high_word_rounded(a, b)",
    "smmulr": "high_word_rounded(a, b)",
    "saturate_int8": "limit(a, -128, 127)",
    "shift_saturate_int8": "limit(shift_right(a, i), -128, 127)",
    "at_least": "larger(a, i)",
    "at_most": "smaller(a, i)",
}

_FUNCTIONS: Final = {
    "low_half": ("uint32_t a", "(uint32_t)(int16_t)a"),
    "high_half": ("uint32_t a", "(uint32_t)((int32_t)a >> 16)"),
    "low_byte": ("uint32_t a", "(uint32_t)(int8_t)a"),
    "halves": ("uint32_t low, uint32_t high", "(low & 0xFFFFu) | high << 16"),
    "shift_right": ("uint32_t a, uint32_t n", "(uint32_t)((int32_t)a >> n)"),
    "high_word": ("uint32_t a, uint32_t b", "(uint32_t)(((int64_t)(int32_t)a * (int32_t)b) >> 32)"),
    "high_word_rounded": (
        "uint32_t a, uint32_t b",
        "(uint32_t)(((int64_t)(int32_t)a * (int32_t)b + ((int64_t)1 << 31)) >> 32)",
    ),
    "larger": ("uint32_t a, int32_t b", "(int32_t)a > b ? a : (uint32_t)b"),
    "smaller": ("uint32_t a, int32_t b", "(int32_t)a < b ? a : (uint32_t)b"),
    "carry": ("uint32_t a, uint32_t b", "a + b < a ? 1u : 0u"),
    "maximum": ("uint32_t a, uint32_t b", "(int32_t)a > (int32_t)b ? a : b"),
    "minimum": ("uint32_t a, uint32_t b", "(int32_t)a < (int32_t)b ? a : b"),
    "product": ("uint32_t a, uint32_t b", "a * b"),
    "quotient": ("uint32_t a, uint32_t b", "(uint32_t)((int32_t)a / (int32_t)b)"),
    "double_high_word_rounded": (
        "uint32_t a, uint32_t b",
        "(uint32_t)(((int64_t)(int32_t)a * (int32_t)b + ((int64_t)1 << 30)) >> 31)",
    ),
    "limit": (
        "uint32_t a, int32_t low, int32_t high",
        "(uint32_t)((int32_t)a < low ? low : (int32_t)a > high ? high : (int32_t)a)",
    ),
}
C_FUNCTIONS: Final = {
    name: f"static inline uint32_t word_{name}({parameters})\n{{\n    return {value};\n}}\n"
    for name, (parameters, value) in _FUNCTIONS.items()
}
"""Text of each function that a meaning may call; in C its name begins with ``word_``."""

WORD_AT: Final = """static inline uint32_t word_at(const void *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}
"""
HALF_AT: Final = """static inline uint32_t half_at(const int32_t *p, int32_t number)
{
    int16_t half;
    memcpy(&half, (const int8_t *)p + 2 * number, sizeof half);
    return (uint32_t)half;
}
"""


def signed(a: Word, bits: int = 32) -> Word:
    """The lower ``bits`` of whole numbers, Python's or numpy's, as signed ones."""
    return ((a & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _limit(a: Word, low: int, high: int) -> Word:
    a = signed(a)
    return a + (low - a) * (a < low) + (high - a) * (a > high)


def _quotient(a: Word, b: Word) -> Word:
    a, b = signed(a), signed(b)
    return abs(a) // abs(b) * (1 - 2 * ((a < 0) != (b < 0)))


PYTHON_FUNCTIONS: Final[dict[str, Any]] = {
    "low_half": lambda a: signed(a, 16),
    "high_half": lambda a: signed(a) >> 16,
    "low_byte": lambda a: signed(a, 8),
    "halves": lambda low, high: low & 0xFFFF | high << 16,
    "shift_right": lambda a, n: signed(a) >> n,
    "high_word": lambda a, b: signed(a) * signed(b) >> 32,
    "high_word_rounded": lambda a, b: signed(a) * signed(b) + (1 << 31) >> 32,
    "larger": lambda a, b: _limit(a, b, 1 << 31),
    "smaller": lambda a, b: _limit(a, -(1 << 31), b),
    "carry": lambda a, b: 0 + (((a + b) & 0xFFFFFFFF) < (a & 0xFFFFFFFF)),
    "maximum": lambda a, b: np.maximum(signed(a), signed(b)),
    "minimum": lambda a, b: np.minimum(signed(a), signed(b)),
    "double_high_word_rounded": lambda a, b: signed(a) * signed(b) + (1 << 30) >> 31,
    "limit": _limit,
    "product": lambda a, b: a * b,
    "quotient": _quotient,
}
