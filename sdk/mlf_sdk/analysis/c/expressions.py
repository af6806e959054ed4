# SPDX-License-Identifier: Apache-2.0
"""Expressions of generated C as trees: what is needed to tell which elements an index reaches.

Only the expressions that TVM prints are understood; anything else is refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mlf_sdk.analysis.c.tokens import CHARACTER, IDENTIFIER, NUMBER, STRING, Tokens
from mlf_sdk.tools.cwords import KEYWORDS, SCALAR_TYPES

MAX_DEPTH: Final = 90
"""Nesting of one expression; deeper ones are refused (generated ones stay below 40)."""

MAX_SIZE: Final = 20_000
"""Nodes of one expression."""

CONSTANT, NAME, UNARY, BINARY, CHOICE, INDEX, CAST, CALL, FIELD, OTHER = (
    "constant",
    "name",
    "unary",
    "binary",
    "choice",
    "index",
    "cast",
    "call",
    "field",
    "other",
)
_PRECEDENCE: Final = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", "<=", ">", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}
_INTEGER: Final = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,18})[lL]{0,2}", re.ASCII)
_TYPE_WORDS: Final = SCALAR_TYPES | {"void", "TVMValue", "DLTensor", "struct"}


class UnreadableError(Exception):
    """The code is not of the shape that is understood: what it is."""


@dataclass(frozen=True, slots=True)
class Expr:
    """One node of an expression.

    Attributes:
        kind: one of the constants of this module.
        text: the operator, name, type of a cast, or field.
        args: operands; of a call its arguments; of an index the base and the subscript.
        value: of an integer constant.
        depth, size: of the tree below.
    """

    kind: str
    text: str = ""
    args: tuple[Expr, ...] = ()
    value: int = 0
    depth: int = 1
    size: int = 1


def parse_expression(tokens: Tokens, start: int, stop: int) -> Expr:
    """The expression in ``tokens[start:stop]``, all of it.

    Raises:
        UnreadableError: it is no expression, or one of a kind that is not understood.
    """
    parser = _Parser(tokens, start, stop)
    found = parser.expression()
    if parser.at != stop:
        raise UnreadableError("an expression goes on in an unknown way")
    return found


class _Parser:
    def __init__(self, tokens: Tokens, start: int, stop: int) -> None:
        self.tokens = tokens
        self.texts = tokens.texts
        self.at = start
        self.stop = stop
        self.nesting = 0

    def expression(self) -> Expr:
        condition = self._binary(1)
        if self._peek() == "?":
            self.at += 1
            chosen = self.expression()
            self._expect(":")
            condition = _node(CHOICE, "?", condition, chosen, self.expression())
        return condition

    def _binary(self, lowest: int) -> Expr:
        self.nesting += 1
        if self.nesting > MAX_DEPTH:
            raise UnreadableError("an expression is nested too deeply")
        left = self._unary()
        while (rank := _PRECEDENCE.get(self._peek(), 0)) >= lowest:
            operator = self.texts[self.at]
            self.at += 1
            left = _node(BINARY, operator, left, self._binary(rank + 1))
        self.nesting -= 1
        return left

    def _unary(self) -> Expr:
        operators: list[str] = []
        while True:
            if self._peek() in ("-", "+", "!", "~"):
                operators.append(self.texts[self.at])
                self.at += 1
            elif (cast := self._cast()) is not None:
                operators.append(cast)
            else:
                break
            if len(operators) > MAX_DEPTH:
                raise UnreadableError("an expression is nested too deeply")
        found = self._postfix()
        for operator in reversed(operators):
            kind = UNARY if operator in ("-", "+", "!", "~") else CAST
            found = _node(kind, operator, found)
        return found

    def _cast(self) -> str | None:
        """The type of a cast at this place, as ``float*``; None when there is none."""
        end = self.at + 1
        while end < self.stop and self.texts[end] in _TYPE_WORDS:
            end += 1
        if self._peek() != "(" or end == self.at + 1:
            return None
        while end < self.stop and self.texts[end] == "*":
            end += 1
        if end >= self.stop or self.texts[end] != ")":
            return None
        words = self.texts[self.at + 1 : end]
        self.at = end + 1
        stars = words.count("*")
        return " ".join(words[: len(words) - stars]) + "*" * stars

    def _postfix(self) -> Expr:
        found = self._primary()
        while (text := self._peek()) in ("[", "(", ".", "->"):
            self.at += 1
            if text == "[":
                found = _node(INDEX, "", found, self.expression())
                self._expect("]")
            elif text == "(":
                if found.kind != NAME:
                    raise UnreadableError("something else than a function is called")
                found = _node(CALL, found.text, *self._arguments())
            else:
                found = _node(FIELD, self._peek(), found)
                self.at += 1
        return found

    def _arguments(self) -> list[Expr]:
        arguments: list[Expr] = []
        while self._peek() != ")":
            arguments.append(self.expression())
            if self._peek() != ")":
                self._expect(",")
        self.at += 1
        return arguments

    def _primary(self) -> Expr:
        text = self._peek()
        kind = self.tokens.kinds[self.at] if self.at < self.stop else ""
        self.at += 1
        if text == "(":
            found = self.expression()
            self._expect(")")
            return found
        if kind == NUMBER:
            match = _INTEGER.fullmatch(text)
            return Expr(CONSTANT, text, value=int(match.group(1), 0)) if match else Expr(OTHER, text)
        if kind == IDENTIFIER and text not in KEYWORDS:
            return Expr(NAME, text)
        if kind in (STRING, CHARACTER):
            return Expr(OTHER, text)
        raise UnreadableError(f"{text[:40]!r} is no expression")

    def _peek(self) -> str:
        return self.texts[self.at] if self.at < self.stop else ""

    def _expect(self, text: str) -> None:
        if self._peek() != text:
            raise UnreadableError(f"a {text!r} is missing in an expression")
        self.at += 1


def _node(kind: str, text: str, *args: Expr) -> Expr:
    depth = 1 + max((arg.depth for arg in args), default=0)
    size = 1 + sum(arg.size for arg in args)
    if depth > MAX_DEPTH or size > MAX_SIZE:
        raise UnreadableError("an expression is nested too deeply, or too long")
    return Expr(kind, text, args, 0, depth, size)


def substitute(expression: Expr, values: Mapping[str, Expr]) -> Expr:
    """``expression`` with names replaced by what they stand for.

    Raises:
        UnreadableError: the result is too large.
    """
    if expression.kind == NAME:
        return values.get(expression.text, expression)
    if not values or not expression.args:
        return expression
    return _node(expression.kind, expression.text, *[substitute(arg, values) for arg in expression.args])
