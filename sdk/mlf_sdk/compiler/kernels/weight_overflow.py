# SPDX-License-Identifier: Apache-2.0
"""Weights that 8 bits don't hold: what is left of them multiplies a second copy of its inputs.

A layer of uint8 weights has a zero point of its own, so that a weight less it takes nine bits. Of a layer's
weights few do, on one side. They are cut off, and what was cut off stands behind the weights of its channel, as a
weight of the same input, which the tile's buffer holds once more there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.kernels.assembly import unrolling
from mlf_sdk.compiler.operators import Array

_MOST: Final = 127
_TAPS: Final = 64  # inputs that may be held twice
_LOOP: Final = 4  # instructions of an inner loop beside its products
_QUAD: Final = 24  # instructions of four weights


@dataclass(frozen=True, slots=True)
class Spill:
    """Inputs of a window that are held a second time, and their weights.

    Attributes:
        taps: places of the inputs in a window, as weights stand in a row.
        weights: shape (channels, 4 * quads), int8.
    """

    taps: Array
    weights: Array

    @property
    def quads(self) -> int:
        """Fours of inputs, the last ones without weights."""
        return self.weights.shape[1] // 4

    def widen(
        self, usual: str, pixels: int, distance: int, used: int, at: int, *, fine: bool
    ) -> tuple[str, str]:
        """Function ``(input, buffer, row_bytes)`` that calls ``usual`` and adds these inputs; its name and text.

        Args:
            usual: function of the same parameters; empty for none.
            distance: bytes between the windows of neighbouring pixels.
            used: bytes of a row of a window.
            at: quads that ``usual`` fills.
        """
        lines = []
        for quad in range(self.quads):
            places = [self._place(4 * quad + i, used) for i in range(4)]
            for half in range(2):
                even, odd = places[2 * half : 2 * half + 2]
                if fine:
                    low = f"{odd} - 127" if odd else "0"
                    even = (f"256 * {even}" if even else "0") + (f" - ({low})" if odd else "")
                    odd = low
                base = 4 * pixels * quad
                lines.append(f"        v[{base + half}] = (int16_t)({even or 0});")
                lines.append(f"        v[{base + half + 2 * pixels}] = (int16_t)({odd or 0});")
        digest = hashlib.sha256("\n".join([usual, str(at), str(distance), *lines]).encode()).hexdigest()[:8]
        text = "\n".join(lines)
        first = f"    {usual}(x, b, row_bytes);\n" if usual else ""
        return (
            f"widen_again_{digest}",
            f"""static void widen_again_{digest}(const int8_t *x, int32_t *b, uint32_t row_bytes)
{{
    int16_t *v = (int16_t *)(b + {2 * pixels * at});
{first}    (void)row_bytes;
    for (int32_t i = 0; i < {pixels}; ++i, x += {distance}, v += 2) {{
{text}
    }}
}}
""",
        )

    def _place(self, number: int, used: int) -> str:
        """Expression of an input; empty for one without weights."""
        if number >= len(self.taps):
            return ""
        row, column = divmod(int(self.taps[number]), used)
        return f"x[{row} * row_bytes + {column}]" if row else f"x[{column}]"


def weights_of(weights: Value, quads: int) -> tuple[Array, Spill | None] | None:
    """Weights of a layer as int8, and what is left of them; None where neither holds them.

    Args:
        weights: shape (channels, ...), int8, or uint8 with one zero point.
        quads: fours of weights of a channel, before what is left.
    """
    if weights.data is None or weights.dtype not in (np.int8, np.uint8):
        return None
    if weights.dtype == np.int8:
        return weights.data, None
    centred = weights.data.astype(np.int16) - weights.zero_point
    cut = np.clip(centred, -_MOST, _MOST)
    rest = (centred - cut).reshape(len(centred), -1)
    taps = np.flatnonzero(rest.any(axis=0))
    # Of -255 there would be 1 left in 8 bits.
    if len(set(weights.quantisation.zero_point if weights.quantisation else ())) > 1 or len(taps) > _TAPS:
        return None
    if np.abs(rest).max(initial=0) > _MOST:
        return None
    if not taps.size:
        return cut.astype(np.int8), None
    need = -(-taps.size // 4)
    best = min(range(need, need + 4), key=lambda n: (quads + n) * (_QUAD + _LOOP / unrolling(quads + n, 36)))
    kept = np.pad(rest[:, taps], ((0, 0), (0, 4 * best - taps.size)))
    return cut.astype(np.int8), Spill(taps, kept.astype(np.int8))
