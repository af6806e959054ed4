# SPDX-License-Identifier: Apache-2.0
"""Products of one vector with four rows at a time, for recurrent layers: the gates of a unit, filters of SVDF.

The vector is of int16, the rows of int8. Weights lie in groups of eight, two of each row: a word holds two of the
first row and, between them, two of the second, so that SXTB16 gives either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from mlf_sdk.compiler.microkernels.builder import OUTPUT_WORDS, WORDS, Builder
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

INPUTS: Final = 4
"""Vectors are filled up to a multiple of this."""
SUMS: Final = 4
"""Words behind a vector."""


def pairs_of(inputs: int) -> int:
    """Words of a vector."""
    return -(-inputs // INPUTS) * INPUTS // 2


def pack(rows: list[Array]) -> Array:
    """Weights of four rows of each unit (row, unit, input): int8, shape (units, 8 * pairs)."""
    gates = np.stack(rows)
    gates = np.pad(gates, ((0, 0), (0, 0), (0, -gates.shape[2] % INPUTS)))
    _, units, inputs = gates.shape
    return gates.reshape(2, 2, units, inputs // 2, 2).transpose(2, 3, 0, 4, 1).reshape(units, -1)


def record() -> Builder:
    """Record ``(vector, weights, sums)``: the sums, which lie behind the vector, are added to."""
    b = Builder(x=WORDS, w=WORDS, s=OUTPUT_WORDS)
    x, w, s = b.parameters
    sums = b.load(s, SUMS)
    b.advance(s, -4 * SUMS)
    with b.loop(x, s):
        values = b.load(x, 2)
        for number, word in enumerate(b.load(w, 4)):
            value = values[number // 2]
            first, second = sums[number % 2 * 2 :][:2]
            b.do("smlad", value, b.do("sxtb16", word), first, into=first)
            b.do("smlad", value, b.do("sxtb16_ror8", word), second, into=second)
    b.store_many(s, sums)
    return b


def four_rows() -> Mapping[str, str]:
    """Function ``four_rows`` as of `record`, and what it needs."""
    return recorded("four_rows", "dsp", record)


FOUR_ROWS_WIDE: Final = """static inline void four_rows_wide(const int16_t *x, const int32_t *w, int32_t pairs, int64_t *sums)
{
    for (; pairs; --pairs, x += 2, w += 2) {
        const int8_t *k = (const int8_t *)w;
        sums[0] += x[0] * k[0] + x[1] * k[2];
        sums[1] += x[0] * k[1] + x[1] * k[3];
        sums[2] += x[0] * k[4] + x[1] * k[6];
        sums[3] += x[0] * k[5] + x[1] * k[7];
    }
}
"""
