# SPDX-License-Identifier: Apache-2.0
"""Number of elements of each argument that a kernel accesses.

The kernels that TVM prints are loops with constant bounds around accesses such as
``((float*)x)[(i * 4) + j]``. Two numbers are given for each argument: elements that it must have
at least (some access certainly reaches the last of them), and elements at or beyond which there is
certainly no access. A kernel that is anything else has no answer, and a reason why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from mlf_sdk.analysis.c.accesses import AccessLog
from mlf_sdk.analysis.c.allocations import is_error_return
from mlf_sdk.analysis.c.arguments import argument_names
from mlf_sdk.analysis.c.ranges import COUNTERS, Scope, range_of
from mlf_sdk.analysis.c.syntax import (
    ASSIGN,
    BINARY,
    CONSTANT,
    NAME,
    OTHER,
    Block,
    Declaration,
    Evaluate,
    Expr,
    If,
    Loop,
    Return,
    Statement,
    UnreadableError,
    Variable,
    substitute,
)
from mlf_sdk.analysis.c.unit import FunctionDefinition

MAX_STATEMENTS: Final = 100_000
"""Statements of one kernel."""


class ArgumentExtent(msgspec.Struct, frozen=True, kw_only=True):
    """Accesses of a kernel to one argument; counts are elements of ``element_type``.

    Attributes:
        element_type: C type of the elements; empty when the argument is never accessed.
        at_least: elements that it must have.
        at_most: no access lies at or beyond; None when that is not known.
        before: elements in front of the first one that some access certainly reaches.
    """

    index: int
    element_type: str
    at_least: int
    at_most: int | None
    before: int


class KernelExtents(msgspec.Struct, frozen=True, kw_only=True):
    """Extents of all arguments of a kernel in order; ``reason``: the cause if they are not known."""

    arguments: tuple[ArgumentExtent, ...] = ()
    reason: str = ""


def kernel_extents(function: FunctionDefinition) -> KernelExtents:
    """Analyse one kernel: packed ABI, or pointers as parameters."""
    try:
        return KernelExtents(arguments=_Walk(function).run())
    except UnreadableError as error:
        return KernelExtents(reason=str(error))


def kernel_accesses(function: FunctionDefinition) -> tuple[AccessLog, tuple[ArgumentExtent, ...]]:
    """Every access to an element of a kernel's arguments in source order, and their extents.

    Raises:
        UnreadableError: the kernel is anything but loops with constant bounds around such accesses.
    """
    walk = _Walk(function)
    return walk.log, walk.run()


class _Walk:
    """One pass over the body of a kernel."""

    def __init__(self, function: FunctionDefinition) -> None:
        self.function = function
        self.names = argument_names(function)
        self.log = AccessLog(self.names)
        self.statements = 0

    def run(self) -> tuple[ArgumentExtent, ...]:
        words = self.function.words | {parameter.name for parameter in self.function.parameters}
        if self.function.doubts:
            raise UnreadableError(self.function.doubts[0])
        if not words.isdisjoint(self.function.macros):
            raise UnreadableError("the code uses macros")
        if self.names.problem:
            raise UnreadableError(self.names.problem)
        if self.names.indices - set(self.names.parts) != set(
            range(len(self.names.indices) - len(self.names.parts))
        ):
            raise UnreadableError("not every argument is unpacked")
        self._block(self.function.body.parts, Scope())
        return tuple(self._extent(index) for index in sorted(self.names.indices))

    def _extent(self, index: int) -> ArgumentExtent:
        reach = self.log.reach[index]
        if len(reach.types) > 1:
            raise UnreadableError("an argument is accessed as two types")
        return ArgumentExtent(
            index=index,
            element_type=next(iter(reach.types), ""),
            at_least=reach.at_least,
            at_most=reach.at_most,
            before=reach.before,
        )

    def _block(self, statements: Sequence[Statement], scope: Scope) -> None:
        for statement in statements:
            scope = self._statement(statement, scope)

    def _statement(self, statement: Statement, scope: Scope) -> Scope:
        """Take one statement; return the scope after it."""
        self.statements += 1
        if self.statements > MAX_STATEMENTS:
            raise UnreadableError("the kernel has too many statements")
        self.log.time = self.statements
        if statement.start in self.names.skip:
            return scope
        if isinstance(statement, Declaration):
            for variable in statement.variables:
                scope = self._variable(variable, scope)
            self._look(statement.values, scope)
        elif isinstance(statement, Return) and not self._ends(statement):
            raise UnreadableError("the kernel may return early")
        elif isinstance(statement, Block | Evaluate | Return):
            self._look(statement.values, scope)
            self._block(statement.parts, scope)
        elif isinstance(statement, If):
            self._if(statement, scope)
        elif isinstance(statement, Loop) and statement.word == "for":
            self._for(statement, scope)
        else:
            raise UnreadableError("a statement is not understood")
        return scope

    def _ends(self, statement: Return) -> bool:
        """Return whether a return is the last statement, or reports a failure."""
        return statement is self.function.body.parts[-1] or is_error_return(statement)

    def _look(self, values: Sequence[Expr], scope: Scope) -> None:
        for value in values:
            self.log.look(substitute(value, scope.numbers), scope)

    def _for(self, loop: Loop, scope: Scope) -> None:
        counter = _counter(loop)
        if counter is None:
            raise UnreadableError("a loop does not count up by one")
        name, begin, end = counter[0], *(substitute(bound, scope.numbers) for bound in counter[1:])
        self._look((begin, end), scope)
        low, high = range_of(begin, scope), range_of(end, scope)
        if low is None or high is None:
            raise UnreadableError(f"the bounds of the loop over {name} are not known")
        self._require_new(name, scope)
        if low[0] < high[1]:
            constant = low[0] == low[1] and high[0] == high[1]
            inner = scope.with_loop(name, (low[0], high[1] - 1), independent=constant)
            self._statement(loop.body, inner if constant else _uncertain(inner))

    def _if(self, statement: If, scope: Scope) -> None:
        condition = substitute(statement.values[0], scope.numbers)
        self.log.look(condition, scope)
        for part, holds in zip(statement.parts, (True, False), strict=False):
            inner = scope.assuming(condition, holds)
            if inner is not None:
                self._statement(part, inner)

    def _require_new(self, name: str, scope: Scope) -> None:
        if name in self.names or name in scope:
            raise UnreadableError(f"{name[:40]} is declared again")

    def _variable(self, variable: Variable, scope: Scope) -> Scope:
        """Take ``float x[4]``, ``int32_t y = ...``, ``void* w = TVMBackendAllocWorkspace(...)``."""
        self._require_new(variable.name, scope)
        if variable.value is None or variable.type not in COUNTERS:
            return scope
        return scope.with_number(variable.name, substitute(variable.value, scope.numbers))


def _counter(loop: Loop) -> tuple[str, Expr, Expr] | None:
    """Name, first value and end of the variable of a loop that counts up by one."""
    first, condition, step = loop.first, loop.condition, loop.step
    if not isinstance(first, Declaration) or condition is None or step is None:
        return None
    variable = first.variables[0]
    name = Expr(NAME, variable.name)
    if len(first.variables) != 1 or variable.type not in COUNTERS or variable.value is None:
        return None
    if (condition.kind, condition.text) != (BINARY, "<") or condition.args[0] != name:
        return None
    by_one = step.text == "++" or (step.text == "+=" and step.args[-1] == Expr(CONSTANT, "1", value=1))
    if step.kind != ASSIGN or not by_one or step.args[0] != name:
        return None
    return variable.name, variable.value, condition.args[1]


def _uncertain(scope: Scope) -> Scope:
    """A scope in which no point is certain: the loop around it may not run."""
    return replace(scope, conditions=(*scope.conditions, (Expr(OTHER), True)))
