# SPDX-License-Identifier: Apache-2.0
"""Meanings of operations on vectors, memory or several results: assignments valid as C and as Python.

``16: d.s8[k] = a[k]`` runs for k = 0 to 15: lane k of the result is element k behind the pointer ``a``.
Results are ``d`` and ``e``, operands ``a``, ``b``, ``c``; lanes are ``s8``, ``s16`` and ``u32``, and may be
indices; assignments are divided by semicolons. Where the last operand is a number of lanes (a predicate),
only those lanes run; others of a result are then 0. A pointer that is also a result moves ``i`` bytes on.

Words that are only used as numbers of 16 or 8 bits are a variable each in C, which any core loads as fast.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    KEPT_WORDS,
    LANES,
    LANES_LEFT,
    PREDICATE,
    WORDS,
    Operation,
    Register,
)
from mlf_sdk.compiler.microkernels.operations import PYTHON_FUNCTIONS, signed

VECTOR_TYPE: Final = """typedef union {
    int8_t s8[16];
    int16_t s16[8];
    uint32_t u32[4];
} mlf_vector;
"""
GROUP_TYPE: Final = """typedef union {
    int8_t s8[16];
    int16_t s16[16];
    uint32_t u32[16];
} mlf_lanes;
"""
"""Lanes of a group of registers, as many as C takes at once; each core takes its own number."""
_BITS: Final = {"s8": 8, "s16": 16, "u32": 32}
_CASTS: Final = {"s8": "(int8_t)", "s16": "(int16_t)", "u32": ""}
_OPERAND: Final = re.compile(r"\b([a-e])\b(?:\.(\w+))?(\[(?:[^][]|\[[^]]*\])*\])?")
_CALL: Final = re.compile(r"\b(\w+)\(")


def is_assignments(meaning: str) -> bool:
    """True for assignments, False for an expression."""
    return " = " in meaning


def _parsed(meaning: str) -> tuple[int, list[tuple[str, str]]]:
    """Number of turns, and target and value of each assignment."""
    count, _, texts = meaning.rpartition(": ")
    parts = (text.partition(" = ") for text in texts.split("; "))
    return int(count or 1), [(target, value) for target, _, value in parts]


def moved(o: Operation) -> list[Register]:
    """Pointers that an operation moves."""
    return [r for r in o.results if r.kind.unit and r in o.operands]


def _predicate(o: Operation) -> Register | None:
    return o.operands[-1] if o.operands and o.operands[-1].kind in (PREDICATE, LANES_LEFT, LANES) else None


def c_statements(
    o: Operation, meaning: str, names: Mapping[Register, str], declared: set[Register]
) -> list[str]:
    """The operation in C.

    Args:
        declared: registers whose declaration this is to be; those that it declares are taken out.
    """
    letters = dict(zip("abc", o.operands, strict=False)) | dict(zip("de", o.results, strict=False))
    count, assignments = _parsed(meaning)

    def operand(match: re.Match[str]) -> str:
        letter, lanes, index = match.groups()
        name = names[letters[letter]]
        return f"(uint32_t){name}{f'.{lanes}' if lanes else ''}{within(index)}" if index else name

    def within(index: str) -> str:
        return _OPERAND.sub(operand, index)

    lines, is_new = [], _predicate(o) is not None
    for r in (r for r in o.results if r in declared):
        lines.append(f"{r.kind.c_type}{names[r]}{' = {{0}}' if is_new else ''};")
        declared.discard(r)
    body = []
    for target, value in assignments:
        letter, lanes = target[0], re.match(r".\.(\w+)", target)
        register = letters[letter]
        cast = _CASTS[lanes[1]] if lanes else ""
        if register.kind.unit:
            cast = f"({register.kind.c_type.rstrip(' *')})"
        place = names[register] + within(target[1:])
        text = _OPERAND.sub(operand, _CALL.sub(r"word_\1(", value))
        line = f"{place} = {cast}({text});" if cast else f"{place} = {text};"
        body.append(re.sub(r"\bk\b", "lane", re.sub(r"\bi\b", str(o.i), line)))
    predicate = _predicate(o)
    if count > 1:
        some = f" && lane < (int32_t){names[predicate]}" if predicate else ""
        body = [
            f"for (int32_t lane = 0; lane < {count}{some}; ++lane) {{",
            *(f"    {line}" for line in body),
            "}",
        ]
    return [*lines, *body, *(f"{names[r]} += {o.i // r.kind.unit};" for r in moved(o))]


class _Lanes:
    """Lanes of one width: numbers of all sets, by lane."""

    def __init__(self, data: NDArray[Any], bits: int) -> None:
        self._data, self._bits = data.view(f"<i{bits // 8}"), bits

    def __getitem__(self, k: int) -> NDArray[np.int64]:
        return self._data[:, k].astype(np.int64)

    def __setitem__(self, k: int, value: Any) -> None:  # noqa: ANN401 - a number, or one for each set
        self._data[:, k] = signed(value, self._bits)


class Vector:
    """Contents of a vector register, for several sets of data."""

    def __init__(self, sets: int) -> None:
        """Begin with zeros."""
        data = np.zeros((sets, 64), np.int8)
        self.s8, self.s16, self.u32 = (_Lanes(data, bits) for bits in _BITS.values())


class _Elements:
    """Elements behind a pointer."""

    def __init__(self, elements: NDArray[np.int64], place: int, unit: int) -> None:
        self._elements, self._place, self._bits = elements, place, 8 * unit
        self._sets = np.arange(len(elements))

    def __getitem__(self, k: int | NDArray[np.int64]) -> NDArray[np.int64]:
        return self._elements[self._sets, self._place + k]

    def __setitem__(self, k: int | NDArray[np.int64], value: Any) -> None:  # noqa: ANN401 - one, or for each set
        self._elements[self._sets, self._place + k] = signed(value, self._bits)


def run(o: Operation, meaning: str, values: dict[Register, Any], sets: int) -> None:
    """Run the operation in numpy; pointers in ``values`` are elements and a place in them."""

    def held(r: Register) -> Any:  # noqa: ANN401 - a number, a vector or elements
        return _Elements(values[r][0], values[r][1], r.kind.unit) if r.kind.unit else values[r]

    for r in o.results:
        if r not in o.operands:
            values[r] = Vector(sets) if r.kind.is_vector else 0
    pointers: Sequence[Register] = moved(o)
    results = [r for r in o.results if r not in pointers]
    names = dict(zip("abc", map(held, o.operands), strict=False))
    names |= dict(zip("de", map(held, results), strict=False)) | {"i": o.i}
    count, assignments = _parsed(meaning)
    predicate = _predicate(o)
    text = "\n".join(f"{target} = {value}" for target, value in assignments)
    code = compile(text, o.name, "exec")
    for k in range(count if predicate is None else min(count, int(values[predicate]))):
        names["k"] = k
        exec(code, PYTHON_FUNCTIONS, names)  # noqa: S102 - of our own tables
    for letter, r in zip("de", results, strict=False):
        if not r.kind.is_vector:
            values[r] = signed(names[letter])
    for r in pointers:
        elements, place = values[r]
        values[r] = elements, place + o.i // r.kind.unit


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
