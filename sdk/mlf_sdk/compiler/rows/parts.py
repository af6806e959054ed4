# SPDX-License-Identifier: Apache-2.0
"""Parts of a region's kernel: its constants in one array, and the function that keeps rows of a full ring."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler.operators import Array

_MOVE = """static void keep_rows_{size}(int32_t *ring, int32_t dropped, int32_t kept)
{{ /* words; those that are kept move to the front, {size} at a time, which is no more than a row */
    typedef struct {{ int32_t at[{size}]; }} MLF_MAY_ALIAS words_t;
    words_t *to = (words_t *)(void *)ring;
    const words_t *from = (const words_t *)(const void *)(ring + dropped);
    for (; kept > 0; kept -= {size}) {{
        *to++ = *from++;
    }}
}}
"""
_MOST_MOVED = 16  # words at a time: compilers load and store so many in a few instructions


def keep_rows(helpers: dict[str, str], words: int) -> str:
    """Name of the function that moves rows of some words to the front of a ring, put among the helpers."""
    size = math.gcd(words, _MOST_MOVED)
    helpers[f"keep_rows_{size}"] = _MOVE.format(size=size)
    return f"keep_rows_{size}"


class Constants:
    """Arrays behind each other in one, those of equal bytes once."""

    def __init__(self) -> None:
        self._words: list[Array] = []
        self._places: dict[bytes, int] = {}
        self._count = 0

    def place(self, array: Array) -> int:
        """Number of the word at which an array begins; every array begins at an even one."""
        data = np.ascontiguousarray(array).tobytes()
        if data not in self._places:
            self._places[data] = self._count
            words = np.frombuffer(data + bytes(-len(data) % 8), np.int32)
            self._words.append(words)
            self._count += len(words)
        return self._places[data]

    def array(self) -> Array:
        """All of them."""
        return np.concatenate(self._words)
