# SPDX-License-Identifier: Apache-2.0
"""Products of one vector with four rows at a time, for recurrent layers: the gates of a unit, filters of SVDF.

The vector is of int16, the rows of int8. Weights lie in groups of eight, two of each row: a word holds two of the
first row and, between them, two of the second, so that SXTB16 gives either.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import function
from mlf_sdk.compiler.operators import Array

INPUTS: Final = 4
"""Vectors are filled up to a multiple of this."""


def pairs_of(inputs: int) -> int:
    """Words of a vector."""
    return -(-inputs // INPUTS) * INPUTS // 2


def pack(rows: list[Array]) -> Array:
    """Weights of four rows of each unit (row, unit, input): int8, shape (units, 8 * pairs)."""
    gates = np.stack(rows)
    gates = np.pad(gates, ((0, 0), (0, 0), (0, -gates.shape[2] % INPUTS)))
    _, units, inputs = gates.shape
    return gates.reshape(2, 2, units, inputs // 2, 2).transpose(2, 3, 0, 4, 1).reshape(units, -1)


def _instructions() -> list[str]:
    """Four inputs in a step: r4 to r7 hold the sums."""
    lines = ["push {r3-r11, lr}", "ldm r3, {r4-r7}", "add r2, r0, r2, lsl #2", "1:"]
    lines += ["ldmia r0!, {r8, r9}", "ldmia r1!, {r10, r11, r12, lr}"]
    for word, vector, sums in (
        ("r10", "r8", ("r4", "r5")),
        ("r11", "r8", ("r6", "r7")),
        ("r12", "r9", ("r4", "r5")),
        ("lr", "r9", ("r6", "r7")),
    ):
        lines += [f"sxtb16 r3, {word}", f"smlad {sums[0]}, {vector}, r3, {sums[0]}"]
        lines += [f"sxtb16 {word}, {word}, ror #8", f"smlad {sums[1]}, {vector}, {word}, {sums[1]}"]
    return [*lines, "cmp r0, r2", "bne 1b", "pop {r3}", "stm r3, {r4-r7}", "pop {r4-r11, pc}"]


def _plain(kind: str) -> str:
    return f"""    for (; pairs; --pairs, x += 2, w += 2) {{
        const int8_t *k = (const int8_t *)w;
        sums[0] += ({kind})(x[0] * k[0] + x[1] * k[2]);
        sums[1] += ({kind})(x[0] * k[1] + x[1] * k[3]);
        sums[2] += ({kind})(x[0] * k[4] + x[1] * k[6]);
        sums[3] += ({kind})(x[0] * k[5] + x[1] * k[7]);
    }}
"""


_PARAMETERS: Final = "const int16_t *x, const int32_t *w, int32_t pairs"
FOUR_GATES: Final = function(
    "four_gates", f"{_PARAMETERS}, int32_t *sums", _instructions(), _plain("int32_t")
)
FOUR_WIDE_GATES: Final = (
    f"static inline void four_wide_gates({_PARAMETERS}, int64_t *sums)\n{{\n{_plain('int64_t')}}}\n"
)
