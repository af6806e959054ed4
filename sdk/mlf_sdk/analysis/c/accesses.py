# SPDX-License-Identifier: Apache-2.0
"""Elements of a kernel's arguments that the expressions of its code access."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mlf_sdk.analysis.c.arguments import ArgumentNames, descriptor
from mlf_sdk.analysis.c.ranges import Scope, range_of, value_at
from mlf_sdk.analysis.c.syntax import (
    ASSIGN,
    BINARY,
    CALL,
    CHOICE,
    FIELD,
    INDEX,
    NAME,
    UNARY,
    UNKNOWN,
    Expr,
    UnreadableError,
)


class Reach(msgspec.Struct):
    """Accesses of one argument so far.

    Attributes:
        types: C types of the elements.
        at_least: elements that it must have.
        at_most: no access lies at or beyond; None when that is not known.
        before: elements in front of the first one that some access certainly reaches.
    """

    types: set[str] = msgspec.field(default_factory=set)
    at_least: int = 0
    at_most: int | None = 0
    before: int = 0

    def take(self, type_name: str, least: int, most: int | None) -> None:
        """Note one access."""
        self.types.add(type_name)
        self.at_least = max(self.at_least, least)
        self.at_most = None if self.at_most is None or most is None else max(self.at_most, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access to an element in the code.

    Attributes:
        argument: index of the argument.
        time: number of the statement, in source order.
    """

    argument: int
    subscript: Expr
    scope: Scope
    is_write: bool
    time: int


class AccessLog:
    """Collects the accesses of one kernel; UnreadableError when an argument is used in another way."""

    def __init__(self, names: ArgumentNames) -> None:
        self.names = names
        self.reach = {index: Reach() for index in names.indices}
        self.accesses: list[Access] = []
        self.time = 0

    def look(self, expression: Expr, scope: Scope, *, written: bool = False) -> None:
        """Note every access in ``expression``; ``written`` is about its outermost element.

        Raises:
            UnreadableError: an argument is used in another way than element by element.
        """
        kind = expression.kind
        if kind == NAME or (kind == CALL and expression.text in self.names):
            if expression.text in self.names:
                raise UnreadableError(f"{expression.text[:40]} is used as a whole")
            if written and expression.text in scope:
                raise UnreadableError(f"{expression.text[:40]} changes")
        elif kind == UNKNOWN or (kind, expression.text) == (UNARY, "&"):
            raise UnreadableError(
                "an address is taken" if kind == UNARY else "an expression is not understood"
            )
        elif kind == INDEX:
            self._element(expression, scope, written=written)
        elif written:
            raise UnreadableError("something else than an element or a variable is assigned")
        elif kind == ASSIGN:
            self._assignment(expression, scope)
        elif kind == FIELD:
            self._field(expression, scope)
        elif kind == CHOICE or (kind == BINARY and expression.text in ("&&", "||")):
            self._branches(expression, scope)
        else:
            for part in expression.args:
                self.look(part, scope)

    def _assignment(self, expression: Expr, scope: Scope) -> None:
        """An assignment; all but the plain one read their target too."""
        target, *value = expression.args
        self.look(target, scope, written=True)
        if expression.text != "=":
            self.look(target, scope)
        for part in value:
            self.look(part, scope)

    def _field(self, expression: Expr, scope: Scope) -> None:
        """A field of an argument's descriptor that is not its data: shape, strides, device."""
        if expression.text in ("data", "v_handle"):
            raise UnreadableError("the data of an argument is unpacked late")
        base = expression.args[0]
        while base.kind == FIELD:
            base = base.args[0]
        described = descriptor(base, "DLTensor*")
        if described is None or described[0] not in self.names.handles:
            self.look(base, scope)

    def _branches(self, expression: Expr, scope: Scope) -> None:
        condition = expression.args[0]
        self.look(condition, scope)
        wanted = (expression.text == "&&",) if expression.kind == BINARY else (True, False)
        for branch, holds in zip(expression.args[1:], wanted, strict=True):
            inner = scope.assuming(condition, holds)
            if inner is not None:
                self.look(branch, inner)

    def _element(self, expression: Expr, scope: Scope, *, written: bool) -> None:
        base, subscript = expression.args
        self.look(subscript, scope)
        name, type_name = self.names.element(expression) or ("", "")
        if name not in self.names.data:
            self.look(base, scope)
            return
        self.accesses.append(
            Access(
                argument=self.names.data[name],
                subscript=subscript,
                scope=scope,
                is_write=written,
                time=self.time,
            )
        )
        values = range_of(subscript, scope)
        most = values[1] + 1 if values is not None and values[0] >= 0 else None
        least, reach = 0, self.reach[self.names.data[name]]
        for highest in (True, False):
            point = scope.point(highest=highest)
            reached = None if point is None else value_at(subscript, point)
            least = max(least, 0 if reached is None else reached + 1)
            reach.before = max(reach.before, 0 if reached is None else -reached)
        reach.take(type_name, least, most)
        if self.names.data[name] in self.names.parts:
            self.reach[self.names.parts[self.names.data[name]][0]].take("uint8_t", 0, None)
