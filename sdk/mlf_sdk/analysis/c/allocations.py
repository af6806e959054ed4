# SPDX-License-Identifier: Apache-2.0
"""Workspace requests of one C function, in order, when its body is plain enough to be sure of them.

Sure means: each request is a declaration ``void* x = TVMBackendAllocWorkspace(1, d, (uint64_t)N, c, b);``
with a literal size, in the body itself or in loops (never under a condition), and is freed last in,
first out in the same block. Everything else gives a reason instead of an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from mlf_sdk.analysis.c.calls import calls, indirect_call
from mlf_sdk.analysis.c.syntax import (
    BINARY,
    CALL,
    CAST,
    CONSTANT,
    NAME,
    OTHER,
    UNARY,
    Block,
    Declaration,
    Evaluate,
    Expr,
    If,
    Jump,
    Loop,
    Return,
    Statement,
    Unknown,
    Variable,
)
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.ctext import ALLOCATE, FREE

MAX_REQUEST_BYTES = (1 << 32) - 1
"""Largest request that is believed."""

JUMPS = frozenset({"goto", "do", "asm", "__asm__", "__asm", "__label__", "setjmp", "sigsetjmp"})
JUMPS |= {"longjmp", "siglongjmp", "__builtin_longjmp"}
"""Words of a body whose statements may run in another order than they are written in."""

_ALLOCATORS = frozenset({ALLOCATE, FREE})
_SIZE_TYPES = frozenset({"uint64_t", "int64_t", "size_t", "uint32_t"})


class Kind(Enum):
    """Kind of an event: allocation, free, or call."""

    ALLOCATE = "allocate"
    FREE = "free"
    CALL = "call"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Allocation, free, or call of a function; events are in the order of the source.

    Attributes:
        name: of the variable, or of the function called.
        size_bytes, depth: of a request; depth counts the requests that are open already.
        conditional: a call that may not happen.
    """

    kind: Kind
    name: str
    size_bytes: int = 0
    depth: int = 0
    conditional: bool = False


class Allocations(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a function; ``reason``: the cause if they are not certain, else empty.

    ``consumed`` are the offsets of the statements that request, check and free.
    """

    events: tuple[Event, ...] = ()
    consumed: frozenset[int] = frozenset()
    reason: str = ""


class _UncertainError(Exception):
    """Unsupported function body; the text gives the reason."""


class _Flow(msgspec.Struct):
    """Control flow of some statements: allocation, and break or continue statements that may leave them."""

    allocates: bool = False
    jumps: bool = False

    def add(self, other: _Flow) -> None:
        """Add the control flow of further statements."""
        self.allocates = self.allocates or other.allocates
        self.jumps = self.jumps or other.jumps
        if self.allocates and self.jumps:
            raise _UncertainError("a loop that allocates has break or continue")


def find_allocations(function: FunctionDefinition) -> Allocations:
    """Find requests, frees and calls of a function, or the reason why they are not certain."""
    if function.doubts:
        return Allocations(reason=function.doubts[0])
    uses_macros = not function.identifiers.isdisjoint(function.macros)
    names = function.identifiers | (function.macro_words if uses_macros else frozenset())
    allocates = not _ALLOCATORS.isdisjoint(names)
    if allocates and uses_macros:
        return Allocations(reason="the body, which allocates workspace, uses macros of the source")
    try:
        allocations = _Walk(function).run()
        if not uses_macros:
            return allocations
    except _UncertainError as uncertain:
        if allocates or indirect_call(function):
            return Allocations(reason=str(uncertain))
    called = function.called | (names & function.macro_words)
    return Allocations(
        events=tuple(Event(kind=Kind.CALL, name=name, conditional=True) for name in sorted(called))
    )


class _Walk:
    """One pass over a body that allocates."""

    def __init__(self, function: FunctionDefinition) -> None:
        self.function = function
        self.open: dict[str, None] = {}
        self.events: list[Event] = []
        self.consumed: set[int] = set()

    def run(self) -> Allocations:
        if reason := indirect_call(self.function):
            raise _UncertainError(reason)
        if jump := min(JUMPS & self.function.words, default=""):
            raise _UncertainError(f"the body has {jump}")
        self._block(self.function.body.parts, False)
        return Allocations(events=tuple(self.events), consumed=frozenset(self.consumed))

    def _block(self, statements: Sequence[Statement], is_conditional: bool) -> _Flow:
        """Walk the statements of one block, which must free what it requests."""
        already_open = len(self.open)
        flow = _Flow()
        for index, statement in enumerate(statements):
            if statement.start in self.consumed:
                continue
            following = statements[index + 1] if index + 1 < len(statements) else None
            if (name := self._request(statement, is_conditional)) is not None:
                flow.add(_Flow(allocates=True))
                if following is not None and _is_null_check(following, name):
                    self._consume_check(following)
            elif (call := _free_call(statement)) is not None:
                self._free(call, statement, is_conditional, already_open)
            else:
                flow.add(self._other(statement, is_conditional))
        if len(self.open) != already_open:
            where = "" if statements is self.function.body.parts else " in its block"
            raise _UncertainError(f"{next(reversed(self.open))} is not freed{where}")
        return flow

    def _other(self, statement: Statement, is_conditional: bool) -> _Flow:
        """Walk a statement that neither requests nor frees by itself."""
        flow = _Flow(jumps=isinstance(statement, Jump))
        if isinstance(statement, Unknown):
            raise _UncertainError("a statement is not understood")
        if isinstance(statement, Return) and self.open and not is_error_return(statement):
            raise _UncertainError("the function returns with a workspace allocated")
        for value in statement.values:
            self._calls(value, is_conditional)
        if isinstance(statement, Block):
            return self._block(statement.parts, is_conditional)
        below = is_conditional or not isinstance(statement, Loop)
        for part in statement.parts:
            flow.add(self._block(part.parts if isinstance(part, Block) else (part,), below))
        return _Flow(allocates=flow.allocates) if isinstance(statement, Loop) else flow

    def _calls(self, value: Expr, is_conditional: bool) -> None:
        for part in value.walk():
            if part.text in _ALLOCATORS and part.kind in (NAME, CALL):
                raise _UncertainError("a workspace request or free is not a plain statement")
        for name, may_be_skipped in calls(value, is_conditional):
            self.events.append(Event(kind=Kind.CALL, name=name, conditional=may_be_skipped))

    def _request(self, statement: Statement, is_conditional: bool) -> str | None:
        """Take ``void* x = TVMBackendAllocWorkspace(1, d, size, c, b);``; return the name."""
        variable = _only_variable(statement)
        if variable is None or variable.value is None or variable.value.text != ALLOCATE:
            return None
        name, value = variable.name, variable.value
        if variable.type != "void*" or value.kind != CALL:
            raise _UncertainError("a workspace request is not a plain declaration")
        if len(value.args) != 5 or not _is_one(value.args[0]) or any(value.args[i].args for i in (1, 3, 4)):
            raise _UncertainError(f"the request of {name} has unexpected arguments")
        size = literal_size(value.args[2])
        if size is None:
            raise _UncertainError(f"the size of {name} is not a literal number")
        self._require_plain(name, is_conditional)
        if name in self.open:
            raise _UncertainError(f"{name} is requested while another {name} is open")
        self.events.append(Event(kind=Kind.ALLOCATE, name=name, size_bytes=size, depth=len(self.open)))
        self.open[name] = None
        self.consumed.add(statement.start)
        return name

    def _consume_check(self, statement: Statement) -> None:
        """Take ``if (x == NULL) return -1;``."""
        if len(statement.parts) != 1 or not is_error_return(statement.parts[0]):
            raise _UncertainError("the check of a workspace call does more than return -1")
        self.consumed.add(statement.start)

    def _free(self, call: Expr, statement: Statement, is_conditional: bool, already_open: int) -> None:
        is_usual = len(call.args) == 3 and _is_one(call.args[0]) and not call.args[1].args
        if not is_usual or call.args[2].kind != NAME:
            raise _UncertainError("a free has unexpected arguments")
        name = call.args[2].text
        if isinstance(statement, If):
            self._consume_check(statement)
        self._require_plain(name, is_conditional)
        if not self.open or next(reversed(self.open)) != name or len(self.open) <= already_open:
            raise _UncertainError(f"{name} is not freed last in, first out in its block")
        del self.open[name]
        self.events.append(Event(kind=Kind.FREE, name=name, depth=len(self.open)))
        self.consumed.add(statement.start)

    def _require_plain(self, name: str, is_conditional: bool) -> None:
        if is_conditional:
            raise _UncertainError(f"{name} is requested or freed under a condition")


def _only_variable(statement: Statement) -> Variable | None:
    is_one = isinstance(statement, Declaration) and len(statement.variables) == 1
    return statement.variables[0] if is_one and isinstance(statement, Declaration) else None


def _is_one(expression: Expr) -> bool:
    return expression.kind == CONSTANT and expression.value == 1


def _is_zero(expression: Expr) -> bool:
    return expression.kind == CONSTANT and expression.value == 0


def _is_null_check(statement: Statement, name: str) -> bool:
    """Return whether a statement is ``if (name == NULL)``, ``if (name == 0)`` or ``if (!name)``."""
    condition = statement.values[0] if isinstance(statement, If) else None
    if condition is None or not condition.args or condition.args[0] != Expr(NAME, name):
        return False
    if (condition.kind, condition.text) == (UNARY, "!"):
        return True
    null = condition.args[-1]
    while null.kind == CAST and null.text in ("void*", *_SIZE_TYPES):
        null = null.args[0]
    return condition.text == "==" and (_is_zero(null) or null == Expr(NAME, "NULL"))


def _free_call(statement: Statement) -> Expr | None:
    """Return the call in ``TVMBackendFreeWorkspace(...);`` or ``if (TVMBackendFreeWorkspace(...) != 0)``."""
    value = statement.values[0] if isinstance(statement, Evaluate | If) else None
    if isinstance(statement, If) and value is not None and (value.kind, value.text) == (BINARY, "!="):
        value = value.args[0] if _is_zero(value.args[1]) else None
    elif isinstance(statement, If):
        return None
    return value if value is not None and (value.kind, value.text) == (CALL, FREE) else None


def is_error_return(statement: Statement) -> bool:
    """Return whether a statement is ``return -1;``, with or without braces."""
    if isinstance(statement, Block) and len(statement.parts) == 1:
        statement = statement.parts[0]
    values = statement.values if isinstance(statement, Return) else ()
    return (
        len(values) == 1 and (values[0].kind, values[0].text) == (UNARY, "-") and _is_one(values[0].args[0])
    )


def literal_size(size: Expr) -> int | None:
    """Return the value of a literal such as ``(uint64_t)36992``, or None if it is none below 4 GiB."""
    if size.kind == CAST and size.text in _SIZE_TYPES:
        size = size.args[0]
    is_number = size.kind in (CONSTANT, OTHER) and 0 <= size.value <= MAX_REQUEST_BYTES
    return size.value if is_number else None
