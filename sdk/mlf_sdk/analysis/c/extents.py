# SPDX-License-Identifier: Apache-2.0
"""How many elements of each argument a kernel touches, and which arguments it writes.

The kernels that TVM prints are loops with constant bounds around accesses such as
``((float*)x)[(i * 4) + j]``. Two numbers are given for each argument: elements that it must have
at least (some access certainly reaches the last of them), and elements at or beyond which there is
certainly no access. A kernel that is anything else has no answer, and a reason why.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from mlf_sdk.analysis.c.accesses import AccessLog
from mlf_sdk.analysis.c.expressions import (
    OTHER,
    Expr,
    UnreadableError,
    parse_expression,
    substitute,
)
from mlf_sdk.analysis.c.kernelargs import ArgumentNames, argument_names
from mlf_sdk.analysis.c.ranges import Scope, range_of
from mlf_sdk.analysis.c.tokens import DIRECTIVE, match_brackets
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.cwords import SCALAR_TYPES

MAX_STATEMENTS: Final = 100_000
"""Statements of one kernel."""

MAX_BLOCKS: Final = 60
"""Nesting of blocks."""

_LONGEST_HEAD: Final = 100
_ASSIGNMENTS: Final = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_DECLARING: Final = SCALAR_TYPES | {"void", "static"}
_UNKNOWN_FLOW: Final = frozenset(
    {"while", "do", "switch", "goto", "break", "continue", "asm", "__asm__", "case", "default"}
)
_LOOP: Final = re.compile(
    r"(?:int|int32_t|int64_t) (\w+) = (.*?) ; (\w+) < (.*) ; (?:\+\+ (\w+)|(\w+) \+\+|(\w+) \+= 1)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentExtent:
    """What a kernel does with one argument; counts are elements of ``element_type``.

    Attributes:
        element_type: C type of the elements; empty when the argument is never accessed.
        at_least: elements that it must have.
        at_most: no access lies at or beyond; None when that is not known.
        written_at_least, written_at_most: the same of writes only; 0 when it is not written.
    """

    index: int
    element_type: str
    at_least: int
    at_most: int | None
    is_written: bool
    written_at_least: int
    written_at_most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelExtents:
    """All arguments of a kernel in order; ``reason`` says why there is no answer."""

    name: str
    arguments: tuple[ArgumentExtent, ...]
    reason: str = ""

    @property
    def outputs(self) -> int:
        """How many arguments are written, when they are the last ones; else 0."""
        written = [argument.is_written for argument in self.arguments]
        count = sum(written)
        return count if all(written[len(written) - count :]) else 0


def kernel_extents(function: FunctionDefinition, *, macros: Collection[str] = ()) -> KernelExtents:
    """Analyse one kernel: packed ABI, or pointers as parameters.

    Args:
        function: the kernel.
        macros: macros of the archive's headers (those of the kernel's own source are known).
    """
    try:
        arguments = _Walk(function).run(frozenset(macros))
    except UnreadableError as error:
        return KernelExtents(name=function.name, arguments=(), reason=str(error))
    return KernelExtents(name=function.name, arguments=arguments)


class _Walk:
    """One pass over the body of a kernel."""

    def __init__(self, function: FunctionDefinition) -> None:
        self.function = function
        self.tokens = function.tokens
        self.texts = function.tokens.texts
        self.names = ArgumentNames()
        self.log = AccessLog(self.names)
        self.statements = 0
        self.blocks = 0

    def run(self, macros: frozenset[str]) -> tuple[ArgumentExtent, ...]:
        partner = match_brackets(self.tokens)
        if self.function.doubts or partner is None:
            raise UnreadableError(next(iter(self.function.doubts), "brackets do not nest"))
        words = {*self.texts, *(parameter.name for parameter in self.function.parameters)}
        if not words.isdisjoint(self.function.macros | macros):
            raise UnreadableError("the code uses macros")
        self.partner = partner
        self.names = argument_names(self.function)
        self.log = AccessLog(self.names)
        self._block(0, len(self.texts), Scope())
        return tuple(self._extent(index) for index in range(self.names.count))

    def _extent(self, index: int) -> ArgumentExtent:
        reach = self.log.reach[index]
        if len(reach.types) > 1:
            raise UnreadableError("an argument is accessed as two types")
        return ArgumentExtent(
            index=index,
            element_type=next(iter(reach.types), ""),
            at_least=reach.at_least,
            at_most=reach.at_most,
            is_written=reach.is_written,
            written_at_least=reach.written_at_least,
            written_at_most=reach.written_at_most,
        )

    # ---- statements ----

    def _block(self, start: int, stop: int, scope: Scope) -> None:
        self.blocks += 1
        if self.blocks > MAX_BLOCKS:
            raise UnreadableError("blocks are nested too deeply")
        index = start
        while index < stop:
            self.statements += 1
            if self.statements > MAX_STATEMENTS:
                raise UnreadableError("the kernel has too many statements")
            index, scope = self._statement(index, scope)
        self.blocks -= 1

    def _statement(self, index: int, scope: Scope) -> tuple[int, Scope]:
        text = self.texts[index]
        after = self.names.skip.get(index, -1)
        if after >= 0:
            return after, scope
        if text == "{":
            after = self.partner[index] + 1
            self._block(index + 1, after - 1, scope)
        elif text == "for":
            after = self._for(index, scope)
        elif text == "if":
            after = self._if(index, scope)
        elif text in _UNKNOWN_FLOW:
            raise UnreadableError(f"{text} is used")
        elif self.tokens.kinds[index] == DIRECTIVE:
            after = index + 1
        else:
            after = self._end(index) + 1
            scope = self._simple(index, after - 1, scope)
        return after, scope

    def _simple(self, index: int, stop: int, scope: Scope) -> Scope:
        """A statement up to its semicolon; the scope after it."""
        if self.texts[index] in _DECLARING:
            return self._declaration(index, stop, scope)
        if self.texts[index] == "return":
            index += 1
        if stop > index:
            self._plain(index, stop, scope)
        return scope

    def _end(self, index: int) -> int:
        """The semicolon that ends the statement at ``index``."""
        while index < len(self.texts) and self.texts[index] != ";":
            index = (self.partner[index] if self.texts[index] in ("(", "[", "{") else index) + 1
        if index >= len(self.texts):
            raise UnreadableError("a statement does not end")
        return index

    def _body(self, index: int) -> tuple[int, int, int]:
        """Tokens of the braces at ``index``, and what follows them."""
        if self.texts[index : index + 1] != ["{"]:
            raise UnreadableError("a loop or condition has no braces")
        return index + 1, self.partner[index], self.partner[index] + 1

    def _for(self, index: int, scope: Scope) -> int:
        close = self.partner[index + 1] if self.texts[index + 1 : index + 2] == ["("] else -1
        words = self.texts[index + 2 : max(close, index + 2)]
        head = _LOOP.fullmatch(" ".join(words)) if len(words) <= _LONGEST_HEAD else None
        names = {name for name in head.group(1, 3, 5, 6, 7) if name} if head is not None else set()
        if len(names) != 1:
            raise UnreadableError("a loop does not count up by one")
        name = names.pop()
        first = self._end(index + 2)
        second = self._end(first + 1)
        begin = self._parse(index + 5, first, scope)
        end = self._parse(first + 3, second, scope)
        self.log.look(begin, scope)
        self.log.look(end, scope)
        low, high = range_of(begin, scope), range_of(end, scope)
        if low is None or high is None:
            raise UnreadableError(f"the bounds of the loop over {name} are not known")
        start, stop, after = self._body(close + 1)
        self._declare(name, scope)
        if low[0] < high[1]:
            constant = low[0] == low[1] and high[0] == high[1]
            inner = scope.with_loop(name, (low[0], high[1] - 1), independent=constant)
            self._block(start, stop, inner if constant else _uncertain(inner))
        return after

    def _if(self, index: int, scope: Scope) -> int:
        if self.texts[index + 1 : index + 2] != ["("]:
            raise UnreadableError("an if has no condition")
        close = self.partner[index + 1]
        condition = self._parse(index + 2, close, scope)
        self.log.look(condition, scope)
        start, stop, after = self._body(close + 1)
        inner = scope.assuming(condition, True)
        if inner is not None:
            self._block(start, stop, inner)
        if self.texts[after : after + 1] == ["else"]:
            after += 1
            inner = scope.assuming(condition, False)
            if self.texts[after : after + 1] == ["if"]:
                self.blocks += 1
                after = self._if(after, inner if inner is not None else scope)
                self.blocks -= 1
            else:
                start, stop, after = self._body(after)
                if inner is not None:
                    self._block(start, stop, inner)
        return after

    def _declare(self, name: str, scope: Scope) -> None:
        if name in self.names or name in scope:
            raise UnreadableError(f"{name[:40]} is declared again")

    def _declaration(self, index: int, stop: int, scope: Scope) -> Scope:
        """``float x[4]``, ``int32_t y = ...``, ``void* w = TVMBackendAllocWorkspace(...)``."""
        at = index
        while self.texts[at] in _DECLARING or self.texts[at] == "*":
            at += 1
        words, name = self.texts[index:at], self.texts[at]
        if at >= stop:
            raise UnreadableError("a declaration has no name")
        self._declare(name, scope)
        if self.texts[at + 1] == "[":
            at = self.partner[at + 1]
        if at + 1 == stop:
            return scope
        if self.texts[at + 1] != "=":
            raise UnreadableError(f"the declaration of {name[:40]} is not understood")
        if self.texts[at + 2] == "{":
            if not self.names.data.keys().isdisjoint(self.texts[at + 2 : stop]):
                raise UnreadableError("an initialiser uses an argument")
            return scope
        value = self._parse(at + 2, stop, scope)
        self.log.look(value, scope)
        whole = words in (["int32_t"], ["int64_t"], ["int"])
        return scope.with_number(name, value) if whole else scope

    def _parse(self, start: int, stop: int, scope: Scope) -> Expr:
        """The expression in these tokens, with local numbers replaced by what they stand for."""
        return substitute(parse_expression(self.tokens, start, stop), scope.numbers)

    def _plain(self, index: int, stop: int, scope: Scope) -> None:
        """An assignment, or an expression for its effect."""
        at = index
        while at < stop and self.texts[at] not in _ASSIGNMENTS:
            at = (self.partner[at] if self.texts[at] in ("(", "[") else at) + 1
        if at >= stop:
            self.log.look(self._parse(index, stop, scope), scope)
            return
        target = self._parse(index, at, scope)
        self.log.look(target, scope, written=True)
        if self.texts[at] != "=":
            self.log.look(target, scope)
        self.log.look(self._parse(at + 1, stop, scope), scope)


def _uncertain(scope: Scope) -> Scope:
    """A scope in which no point is certain: the loop around it may not run."""
    return replace(scope, conditions=(*scope.conditions, (Expr(OTHER), True)))
