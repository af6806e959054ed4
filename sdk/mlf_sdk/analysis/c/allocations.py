# SPDX-License-Identifier: Apache-2.0
"""Workspace requests of one C function, in order, when its body is plain enough to be sure of them.

Sure means: each request is a declaration ``void* x = TVMBackendAllocWorkspace(1, d, (uint64_t)N, c, b);``
with a literal size, in the body itself or in loops (never under a condition), and is freed last in,
first out in the same block. Everything else gives a reason instead of an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from mlf_sdk.analysis.c.declaration import split_commas
from mlf_sdk.analysis.c.indirect import indirect_call
from mlf_sdk.analysis.c.tokens import IDENTIFIER, match_brackets
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.cwords import ALLOCATE, FREE, KEYWORDS

MAX_REQUEST_BYTES = (1 << 32) - 1
"""Largest request that is believed."""

MAX_LITERAL_WORDS = 16
"""Tokens of a size with its casts and parentheses."""

_ALLOCATORS = frozenset({ALLOCATE, FREE})
_JUMPS = frozenset({"goto", "do", "asm", "__asm__", "__asm", "setjmp", "longjmp", "__builtin_longjmp"})
_LITERAL = re.compile(
    r"(?:\( )*(?:\( (?:uint64_t|int64_t|size_t|uint32_t) \) )?(?:\( )*"
    r"(0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,18})[uUlL]{0,3}(?: \))*"
)
_RETURN_ERROR = ["return", "-", "1", ";"]


class Kind(Enum):
    """What happens at an event."""

    ALLOCATE = "allocate"
    FREE = "free"
    CALL = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that matters for workspaces, in the order of the source.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """Events of a function; ``reason`` says why they are not certain, and is empty when they are.

    ``consumed`` are the token ranges [first, last) of requests with their checks, and of frees.
    """

    events: tuple[Event, ...] = ()
    consumed: tuple[tuple[int, int], ...] = ()
    reason: str = ""


class _UncertainError(Exception):
    """The body is not plain enough; the text says why."""


@dataclass(slots=True)
class _Block:
    """Braces that the walk is in; ``jumps`` tells of a break or continue that may leave it."""

    kind: str
    open_requests: int
    is_plain: bool = True
    is_conditional: bool = False
    allocates: bool = False
    jumps: bool = False

    def inner(self, kind: str, open_requests: int) -> _Block:
        """The block that opens here; what it inherits is kept in it, so that nothing is searched."""
        return _Block(
            kind,
            open_requests,
            is_plain=self.is_plain and kind in ("block", "loop"),
            is_conditional=self.is_conditional or kind == "condition",
        )


def find_allocations(function: FunctionDefinition) -> Allocations:
    """Requests, frees and calls of a function, or why they cannot be told."""
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
    """One pass over the tokens of a body that allocates."""

    def __init__(self, function: FunctionDefinition) -> None:
        self.texts = function.tokens.texts
        self.kinds = function.tokens.kinds
        partner = match_brackets(function.tokens)
        if partner is None:
            raise _UncertainError("brackets do not nest")
        self.partner = partner
        if reason := indirect_call(function):
            raise _UncertainError(reason)
        if jump := min(_JUMPS & set(self.texts), default=""):
            raise _UncertainError(f"the body has {jump}")
        self.blocks = [_Block("body", 0)]
        self.parentheses = 0
        self.open: list[str] = []
        self.open_names: set[str] = set()
        self.events: list[Event] = []
        self.consumed: list[tuple[int, int]] = []

    def run(self) -> Allocations:
        index = 0
        while index < len(self.texts):
            index = self._step(index)
        if self.open:
            raise _UncertainError(f"{self.open[-1]} is not freed")
        return Allocations(events=tuple(self.events), consumed=tuple(self.consumed))

    def _step(self, index: int) -> int:
        text = self.texts[index]
        if text == "{":
            kind = block_kind(self.texts, self.partner, index, self.blocks[-1].kind)
            self.blocks.append(self.blocks[-1].inner(kind, len(self.open)))
        elif text == "}":
            self._close_block()
        elif text in ("(", ")"):
            self.parentheses += 1 if text == "(" else -1
        elif text == ALLOCATE:
            return self._allocate(index)
        elif text == FREE:
            return self._free(index)
        elif text == "return":
            if self.open and self.texts[index : index + 4] != _RETURN_ERROR:
                raise _UncertainError("the function returns with a workspace allocated")
        elif text in ("break", "continue"):
            self.blocks[-1].jumps = True
        elif self.kinds[index] == IDENTIFIER and self.texts[index + 1 : index + 2] == ["("]:
            self._call(index)
        return index + 1

    def _close_block(self) -> None:
        block, outer = self.blocks.pop(), self.blocks[-1]
        if len(self.open) != block.open_requests:
            raise _UncertainError(f"{self.open[-1]} is not freed in its block")
        if block.allocates and block.jumps:
            raise _UncertainError("a loop that allocates has break or continue")
        outer.allocates = outer.allocates or block.allocates
        outer.jumps = outer.jumps or (block.jumps and block.kind != "loop")

    def _allocate(self, index: int) -> int:
        texts = self.texts
        start = index - 4
        name = texts[index - 2] if start >= 0 else ""
        if start < 0 or texts[start:index] != ["void", "*", name, "="] or not self._begins_statement(start):
            raise _UncertainError("a workspace request is not a plain declaration")
        arguments, after = self._arguments(index)
        if len(arguments) != 5 or arguments[0] != ["1"] or any(len(arguments[i]) != 1 for i in (1, 3, 4)):
            raise _UncertainError(f"the request of {name} has unexpected arguments")
        size = literal_size(arguments[2])
        if size is None:
            raise _UncertainError(f"the size of {name} is not a literal number")
        self._require_unconditional(name)
        if name in self.open_names:
            raise _UncertainError(f"{name} is requested while another {name} is open")
        self.events.append(Event(kind=Kind.ALLOCATE, name=name, size_bytes=size, depth=len(self.open)))
        self.open.append(name)
        self.open_names.add(name)
        self.blocks[-1].allocates = True
        after = self._null_check(name, after)
        self.consumed.append((start, after))
        return after

    def _free(self, index: int) -> int:
        texts = self.texts
        arguments, after = self._arguments(index, need_semicolon=False)
        if len(arguments) != 3 or arguments[0] != ["1"] or len(arguments[1]) != 1 or len(arguments[2]) != 1:
            raise _UncertainError("a free has unexpected arguments")
        name = arguments[2][0]
        if texts[after : after + 1] == [";"] and self._begins_statement(index):
            start, stop = index, after + 1
        elif texts[index - 2 : index] == ["if", "("] and self._begins_statement(index - 2, 1):
            start, stop = index - 2, self._error_return(after, ["!=", "0", ")"])
            self.parentheses = 0
        else:
            raise _UncertainError(f"the free of {name} is not a plain statement")
        self._require_unconditional(name)
        if not self.open or self.open[-1] != name or len(self.open) <= self.blocks[-1].open_requests:
            raise _UncertainError(f"{name} is not freed last in, first out in its block")
        self.open_names.discard(self.open.pop())
        self.events.append(Event(kind=Kind.FREE, name=name, depth=len(self.open)))
        self.consumed.append((start, stop))
        return stop

    def _call(self, index: int) -> None:
        name = self.texts[index]
        if name in KEYWORDS:
            return
        before = self.texts[index - 1] if index else ";"
        conditional = self.blocks[-1].is_conditional or before in ("&&", "||", "?", ":", ")", "else")
        self.events.append(Event(kind=Kind.CALL, name=name, conditional=conditional))

    def _arguments(self, index: int, need_semicolon: bool = True) -> tuple[list[list[str]], int]:
        if self.texts[index + 1 : index + 2] != ["("]:
            raise _UncertainError(f"{self.texts[index]} is not called")
        close = self.partner[index + 1]
        after = close + 1
        if need_semicolon:
            if self.texts[after : after + 1] != [";"]:
                raise _UncertainError("a workspace request is not a plain declaration")
            after += 1
        return split_commas(self.texts[index + 2 : close]), after

    def _null_check(self, name: str, index: int) -> int:
        """Offset after an ``if (name == NULL) return -1;`` at ``index``; ``index`` when there is none."""
        for test in ([name, "==", "NULL", ")"], [name, "==", "0", ")"], ["!", name, ")"]):
            if self.texts[index : index + 2 + len(test)] == ["if", "(", *test]:
                return self._error_return(index + 2, test)
        return index

    def _error_return(self, index: int, condition: list[str]) -> int:
        """Offset after ``condition`` and a ``return -1;``, with or without braces."""
        after = index + len(condition)
        if self.texts[index:after] == condition:
            for body in (["{", *_RETURN_ERROR, "}"], _RETURN_ERROR):
                stop = after + len(body)
                if self.texts[after:stop] == body and self.texts[stop : stop + 1] != ["else"]:
                    return stop
        raise _UncertainError("the check of a workspace call does more than return -1")

    def _begins_statement(self, index: int, parentheses: int = 0) -> bool:
        """Whether a statement begins at ``index``, with so many parentheses open where the walk is."""
        return self.parentheses == parentheses and (index == 0 or self.texts[index - 1] in (";", "{", "}"))

    def _require_unconditional(self, name: str) -> None:
        if not self.blocks[-1].is_plain:
            raise _UncertainError(f"{name} is requested or freed under a condition")


def block_kind(texts: list[str], partner: list[int], index: int, outer: str) -> str:
    """What the ``{`` at ``index`` opens: block, loop, condition, initialiser, or unknown."""
    before = texts[index - 1] if index else ";"
    kind = "unknown"
    if before == "=" or (outer == "initialiser" and before in (",", "{")):
        kind = "initialiser"
    elif before in (";", "{", "}") and outer != "initialiser":
        kind = "block"
    elif before == "else":
        kind = "condition"
    elif before == ")":
        keyword = partner[index - 1] - 1
        word = texts[keyword] if keyword >= 0 else ""
        begins = keyword == 0 or texts[keyword - 1] in (";", "{", "}")
        if word in ("if", "switch") or (word in ("for", "while") and not begins):
            kind = "condition"
        elif word in ("for", "while"):
            kind = "loop"
    return kind


def literal_size(words: list[str]) -> int | None:
    """Bytes that ``(uint64_t)36992`` and the like say, or None when it is no literal below 4 GiB."""
    match = _LITERAL.fullmatch(" ".join(words)) if len(words) <= MAX_LITERAL_WORDS else None
    size = int(match.group(1), 0) if match is not None else None
    return size if size is not None and size <= MAX_REQUEST_BYTES else None
