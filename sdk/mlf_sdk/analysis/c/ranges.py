# SPDX-License-Identifier: Apache-2.0
"""Ranges of index expressions: interval arithmetic, conditions, and single points.

An interval always holds every value that is possible, so it may be too wide and never too narrow.
A point gives the one value for given loop variables, or nothing when that is not certain.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mlf_sdk.analysis.c.syntax import BINARY, CAST, CHOICE, CONSTANT, NAME, UNARY, Expr

Range = tuple[int, int]

BOUND: Final = (1 << 31) - 1
"""Beyond it 32-bit arithmetic may wrap, and nothing is known."""

COUNTERS: Final = frozenset({"int", "int32_t", "int64_t"})
"""Types of loop variables and local numbers, which hold every value up to `BOUND`."""

MAX_NUMBERS: Final = 1000
"""Local numbers that are kept track of; further ones are unknown."""

MAX_NUMBER_SIZE: Final = 500
"""Nodes of the value of a local number that is kept track of."""

_FLIPPED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_TESTS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "&&", "||", "!"})


@dataclass(frozen=True, slots=True)
class Scope:
    """Variables, ranges and conditions that are valid at one place of the code.

    Attributes:
        names: range of each loop variable.
        loops: those that take every value of their range, independently of each other.
        numbers: what each local number stands for, in terms of loop variables.
        known: narrower ranges of whole expressions, from conditions.
        conditions: that were met on the way here, with whether they hold.
    """

    names: Mapping[str, Range] = field(default_factory=dict)
    loops: frozenset[str] = frozenset()
    numbers: Mapping[str, Expr] = field(default_factory=dict)
    known: Mapping[Expr, Range] = field(default_factory=dict)
    conditions: tuple[tuple[Expr, bool], ...] = ()

    def __contains__(self, name: object) -> bool:
        """Return whether ``name`` is a loop variable or a local number in this scope."""
        return name in self.names or name in self.numbers

    def with_loop(self, name: str, values: Range, *, independent: bool) -> Scope:
        """The scope inside a loop over ``name``, which is new."""
        loops = self.loops | {name} if independent else self.loops
        return replace(self, names={**self.names, name: values}, loops=loops)

    def with_number(self, name: str, value: Expr) -> Scope:
        """The scope after the declaration of a number, whose name is new."""
        if len(self.numbers) >= MAX_NUMBERS or value.size > MAX_NUMBER_SIZE or range_of(value, self) is None:
            return self
        return replace(self, numbers={**self.numbers, name: value})

    def assuming(self, condition: Expr, holds: bool) -> Scope | None:
        """The scope where ``condition`` holds (or does not); None when that can't be."""
        known = dict(self.known)
        inner = replace(self, known=known, conditions=(*self.conditions, (condition, holds)))
        return inner if _narrow(inner, known, condition, holds) else None

    def point(self, *, highest: bool) -> dict[str, int] | None:
        """Loop variables all at the end of what conditions leave of their ranges."""
        values: dict[str, int] = {}
        for name in self.loops:
            result = range_of(Expr(NAME, name), self) or self.names[name]
            values[name] = result[1] if highest else result[0]
        certain = all(value_at(c, values) == int(holds) for c, holds in self.conditions)
        return values if certain else None


def _narrow(scope: Scope, known: dict[Expr, Range], condition: Expr, holds: bool) -> bool:
    """Narrow the ranges in ``known`` by a condition; False if it contradicts them."""
    if condition.kind == UNARY and condition.text == "!":
        return _narrow(scope, known, condition.args[0], not holds)
    if condition.kind != BINARY:
        return True
    if condition.text == ("&&" if holds else "||"):
        return all(_narrow(scope, known, part, holds) for part in condition.args)
    sign = condition.text if holds else _FLIPPED.get(condition.text, "")
    left, right = condition.args
    if sign in (">", ">="):
        left, right, sign = right, left, {">": "<", ">=": "<="}[sign]
    a, b = range_of(left, scope), range_of(right, scope)
    if sign not in ("<", "<=", "==") or a is None or b is None:
        return True
    if sign == "==":
        a = b = (max(a[0], b[0]), min(a[1], b[1]))
    else:
        gap = 1 if sign == "<" else 0
        a, b = (a[0], min(a[1], b[1] - gap)), (max(b[0], a[0] + gap), b[1])
    known[left], known[right] = a, b
    return a[0] <= a[1] and b[0] <= b[1]


def range_of(expression: Expr, scope: Scope) -> Range | None:
    """Every value that ``expression`` can take in ``scope``; None when nothing is known."""
    result = _range(expression, scope)
    known = scope.known.get(expression) if scope.known else None
    if known is not None:
        result = known if result is None else (max(result[0], known[0]), min(result[1], known[1]))
    if result is None or result[0] < -BOUND or result[1] > BOUND:
        return None
    return result


def _range(expression: Expr, scope: Scope) -> Range | None:
    kind, result = expression.kind, None
    if kind == CONSTANT:
        result = expression.value, expression.value
    elif kind == NAME:
        result = scope.names.get(expression.text)
    elif kind == CHOICE:
        result = _either(expression, scope)
    elif kind in (UNARY, BINARY) and expression.text in _TESTS:
        result = 0, 1
    elif kind in (UNARY, BINARY, CAST):
        ranges = [known for arg in expression.args if (known := range_of(arg, scope)) is not None]
        if len(ranges) == len(expression.args):
            result = _combine(expression, ranges)
    return result


def _combine(expression: Expr, ranges: list[Range]) -> Range | None:
    low, high = ranges[0]
    if expression.kind == CAST:
        return ranges[0] if expression.text in COUNTERS else None
    if expression.kind == UNARY:
        return {"-": (-high, -low), "+": (low, high), "~": (-high - 1, -low - 1)}.get(expression.text)
    return _binary(expression.text, ranges[0], ranges[1])


def _either(expression: Expr, scope: Scope) -> Range | None:
    condition = expression.args[0]
    ranges: list[Range] = []
    for branch, holds in ((expression.args[1], True), (expression.args[2], False)):
        inner = scope.assuming(condition, holds)
        if inner is None:
            continue
        values = range_of(branch, inner)
        if values is None:
            return None
        ranges.append(values)
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def _binary(sign: str, a: Range, b: Range) -> Range | None:
    result: Range | None = None
    if sign == "+":
        result = a[0] + b[0], a[1] + b[1]
    elif sign == "-":
        result = a[0] - b[1], a[1] - b[0]
    elif sign == "*":
        products = [x * y for x in a for y in b]
        result = min(products), max(products)
    elif sign in ("/", "%", "<<", ">>"):
        result = _by_constant(sign, a, b[0]) if b[0] == b[1] else None
    elif sign in ("&", "|", "^") and a[0] >= 0 and b[0] >= 0:
        result = _masked(a, b) if sign == "&" else (0, (1 << max(a[1], b[1]).bit_length()) - 1)
    return result


def _masked(a: Range, b: Range) -> Range:
    for values, mask in ((a, b), (b, a)):
        if mask[0] == mask[1] and mask[0] & (mask[0] + 1) == 0 and values[1] <= mask[0]:
            return values
    return 0, min(a[1], b[1])


def _by_constant(sign: str, a: Range, by: int) -> Range | None:
    result: Range | None = None
    if sign == "<<" and 0 <= by < 31 and a[0] >= 0:
        result = a[0] << by, a[1] << by
    elif sign == ">>" and 0 <= by < 31:
        result = a[0] >> by, a[1] >> by
    elif sign == "/" and by > 0:
        result = _quotient(a[0], by), _quotient(a[1], by)
    elif sign == "%" and by > 0 and a[0] >= 0:
        result = a if a[1] < by else (0, by - 1)
    elif sign == "%" and by > 0:
        result = max(a[0], 1 - by), min(max(a[1], 0), by - 1)
    return result


def _quotient(a: int, by: int) -> int:
    """Division of C: towards zero."""
    return a // by if a >= 0 else -(-a // by)


def value_at(expression: Expr, point: Mapping[str, int]) -> int | None:
    """The value at one point; None when it is not certain."""
    kind = expression.kind
    if kind == CONSTANT:
        return expression.value
    if kind == NAME:
        return point.get(expression.text)
    if kind == CHOICE:
        condition = value_at(expression.args[0], point)
        return None if condition is None else value_at(expression.args[1 if condition else 2], point)
    if kind not in (UNARY, BINARY, CAST):
        return None
    values = [value_at(arg, point) for arg in expression.args]
    known = [value for value in values if value is not None]
    result = _apply(expression, known) if len(known) == len(values) else None
    return result if result is not None and abs(result) <= BOUND else None


def _apply(expression: Expr, values: list[int]) -> int | None:
    a, b, text = values[0], values[-1], expression.text
    if expression.kind == BINARY and text in _POINTWISE:
        return int(_POINTWISE[text](a, b))
    if expression.kind == UNARY and text == "!":
        return int(a == 0)
    if text in ("%", "|", "^", "&"):
        if a < 0 or b < 0 or (text == "%" and b == 0):
            return None
        return {"%": a % (b or 1), "|": a | b, "^": a ^ b, "&": a & b}[text]
    result = _combine(expression, [(value, value) for value in values])
    return result[0] if result is not None and result[0] == result[1] else None


_POINTWISE: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": lambda a, b: bool(a and b),
    "||": lambda a, b: bool(a or b),
}
