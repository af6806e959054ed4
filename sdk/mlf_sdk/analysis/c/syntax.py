# SPDX-License-Identifier: Apache-2.0
"""Typed syntax tree of a function body: statements and expressions.

Code that is not understood is in the tree as well, as `Unknown` or as an expression of kind
``UNKNOWN``, with every name that occurs in it as an operand: to an analysis each of them is used as
a whole, so what is not understood may access everything that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

MAX_DEPTH: Final = 90
"""Nesting of one expression; deeper ones are unknown (generated ones stay below 40)."""

MAX_SIZE: Final = 20_000
"""Nodes of one expression."""

CONSTANT, NAME, UNARY, BINARY, CHOICE, INDEX, CAST, CALL, FIELD, ASSIGN, LIST, OTHER, UNKNOWN = (
    "constant",
    "name",
    "unary",
    "binary",
    "choice",
    "index",
    "cast",
    "call",
    "field",
    "assign",
    "list",
    "other",
    "unknown",
)


class UnreadableError(Exception):
    """Unsupported C construct; the text describes it."""


class Expr(msgspec.Struct, frozen=True):
    """One node of an expression.

    Attributes:
        kind: one of the constants of this module; ``OTHER`` is a literal that is no signed integer.
        text: the operator, name, type of a cast, function that is called (empty when it is called
            through a pointer), or field (``->x`` through a pointer).
        args: operands; of a call its arguments (first the pointer, when there is one); of an index
            the base and the subscript; of an unknown expression the names in it.
        value: of an integer constant; of another literal -1, or what an unsigned one says.
        depth, size: of the tree below.
    """

    kind: str
    text: str = ""
    args: tuple[Expr, ...] = ()
    value: int = 0
    depth: int = 1
    size: int = 1

    def walk(self) -> Iterator[Expr]:
        """Yield this node and all below it."""
        pending = [self]
        while pending:
            entry = pending.pop()
            yield entry
            pending.extend(reversed(entry.args))


class Statement(msgspec.Struct, frozen=True):
    """A statement; ``start`` is the offset of its first character.

    ``parts`` are the statements and ``values`` the expressions directly in it, in source order.
    """

    start: int
    parts: tuple[Statement, ...] = ()
    values: tuple[Expr, ...] = ()

    def walk(self) -> Iterator[Statement]:
        """Yield this statement and all below it, in source order."""
        pending = [self]
        while pending:
            entry = pending.pop()
            yield entry
            pending.extend(reversed(entry.parts))


class Block(Statement, frozen=True):
    """Statements between braces, or none at all: an empty statement."""


class Evaluate(Statement, frozen=True):
    """An expression for its effect."""


class Return(Statement, frozen=True):
    """A return, with at most one value."""


class Jump(Statement, frozen=True):
    """A break, continue or goto."""


class Unknown(Statement, frozen=True):
    """Unsupported code; its value has every name in it as an operand."""


class Variable(msgspec.Struct, frozen=True):
    """One declarator: its name, its whole type (``float*``), its initial value if there is one."""

    name: str
    type: str
    value: Expr | None


class Declaration(Statement, frozen=True):
    """Declaration of local variables; ``values`` are array lengths and initial values."""

    variables: tuple[Variable, ...] = ()


class If(Statement, frozen=True):
    """A condition (the value) and its one or two branches (the parts)."""


class Switch(Statement, frozen=True):
    """A switch: its value, and the statements and labels below it."""


class Loop(Statement, frozen=True):
    """A for, while or do.

    Attributes:
        word: which of them.
        first: of a for, its first statement (also the first part).
        condition, step: of a for; None where it has none.
    """

    word: str = ""
    first: Statement | None = None
    condition: Expr | None = None
    step: Expr | None = None

    @property
    def body(self) -> Statement:
        """The repeated statement."""
        return self.parts[-1]


def node(kind: str, text: str, *args: Expr) -> Expr:
    """Make an inner node.

    Raises:
        UnreadableError: the tree is too deep or too large.
    """
    depth = 1 + max((arg.depth for arg in args), default=0)
    size = 1 + sum(arg.size for arg in args)
    if depth > MAX_DEPTH or size > MAX_SIZE:
        raise UnreadableError("an expression is nested too deeply, or too long")
    return Expr(kind, text, args, 0, depth, size)


def substitute(expression: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replace names by what they stand for.

    Raises:
        UnreadableError: the result is too large.
    """
    if expression.kind == NAME:
        return values.get(expression.text, expression)
    if not values or not expression.args:
        return expression
    return node(expression.kind, expression.text, *[substitute(arg, values) for arg in expression.args])
