# SPDX-License-Identifier: Apache-2.0
"""Words that are only used as numbers of 16 or 8 bits: in C a variable each, which any core loads as fast."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Final

from mlf_sdk.compiler.microkernels.builder import BYTES, KEPT_WORDS, WORDS, Operation, Register

HALVES: Final = ("low", "high")
_LOADS: Final = ("load", "load_at")
# Expressions of the parts of a word in meanings (`{}` is its name), and the byte at which each lies.
_EXPRESSIONS: Final = {
    "low": "word_low_half({})",
    "high": "word_high_half({})",
    "byte0": "word_low_byte({})",
    "byte1": "word_low_byte({} >> 8)",
    "byte2": "word_low_byte({} >> 16)",
    "byte3": "word_low_byte({} >> 24)",
}
_PAIR: Final = "word_halves("


def with_parts(meaning: str, letter: str) -> str:
    """A meaning with variables of their own for the parts of an operand."""
    for part, expression in _EXPRESSIONS.items():
        meaning = meaning.replace(expression.format(f"{{{letter}}}"), f"{{{letter}}}_{part}")
    return meaning


def parts_of(operations: Sequence[Operation], meanings: Mapping[str, str]) -> dict[Register, list[str]]:
    """Words that are only used by parts, and the parts of each in ascending order.

    Args:
        meanings: expressions whose operands stand in braces.
    """
    written = Counter(r for o in operations for r in o.results)
    result: dict[Register, set[str]] = {}
    for o in operations:
        is_load = o.name in _LOADS and o.operands[-1].kind in (WORDS, KEPT_WORDS, BYTES)
        if is_load or meanings.get(o.name, "").startswith(_PAIR):
            result |= {r: set() for r in o.results if written[r] == 1 and not r.kind.unit}
    computed = {r for o in operations if o.name not in _LOADS for r in o.results}
    for o in operations:
        stored = o.operands[:-1] if o.name == "store_many" else ()
        for letter, r in zip(ascii_lowercase, o.operands, strict=False):
            split = with_parts(meanings.get(o.name, f"{{{letter}}}"), letter)
            used = {part for part in _EXPRESSIONS if f"{{{letter}}}_{part}" in split}
            if r in computed and r in stored:
                used, split = set(HALVES), ""
            if re.search(rf"{{{letter}}}(?!_)", split) or (r in computed and not used <= {*HALVES}):
                result.pop(r, None)
            elif r in result:
                result[r] |= used
    return {r: [part for part in _EXPRESSIONS if part in parts] for r, parts in result.items()}


def halves_of(value: str) -> tuple[str, str]:
    """Lower and upper half of an expression that is a pair."""
    depth = 0
    inner = value.removeprefix(_PAIR).removesuffix(")")
    for at, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            return inner[:at], inner[at + 2 :]
    raise ValueError(f"no pair: {value}")


def load_of(part: str, pointer: str, *, is_bytes: bool, offset: int) -> str:
    """Expression of a part of the word ``offset`` bytes behind a pointer."""
    number = HALVES.index(part) if part in HALVES else int(part.removeprefix("byte"))
    if part in HALVES and not is_bytes:
        place = f"{pointer} + {offset // 4}" if offset else pointer
        return f"half_at({place}, {number})"
    at = offset + (2 * number if part in HALVES else number)
    if part in HALVES:
        return f"half_at((const void *)({pointer} + {at}), 0)"
    return f"(uint32_t){pointer}[{at}]" if is_bytes else f"(uint32_t)((const int8_t *){pointer})[{at}]"
