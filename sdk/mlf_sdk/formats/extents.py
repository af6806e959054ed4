# SPDX-License-Identifier: Apache-2.0
"""How many elements of each argument a kernel touches, and which arguments it writes.

The kernels that TVM prints are loops with constant bounds around accesses such as
``((float*)x)[(i * 4) + j]``. Two numbers are given for each argument: elements that it must have
at least (some access certainly reaches the last of them), and elements at or beyond which there is
certainly no access. A kernel that is anything else has no answer, and a reason why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from mlf_sdk.formats.callocs import SCALAR_TYPES
from mlf_sdk.formats.cexpr import (
    CALL,
    CAST,
    CHOICE,
    INDEX,
    NAME,
    BINARY,
    Expr,
    UnreadableError,
    parse_expression,
)
from mlf_sdk.formats.cranges import Scope, range_of, value_at
from mlf_sdk.formats.ctokens import DIRECTIVE, match_brackets
from mlf_sdk.formats.cunit import FunctionDefinition

MAX_STATEMENTS: Final = 100_000
"""Statements of one kernel."""

MAX_BLOCKS: Final = 60
"""Nesting of blocks."""

_HANDLE: Final = re.compile(
    r"void \* (\w+) = \( \( \( TVMValue \* \) (\w+) \) \[ (?:\( )?(\d{1,3})(?: \))? \] \. v_handle \) ;"
)
_DATA: Final = re.compile(
    r"void \* (\w+) = \( \( \( DLTensor \* \) (\w+) \) \[ (?:0|\( 0 \)) \] \. data \) ;"
)
_COPY: Final = re.compile(r"void \* (\w+) = (\w+) ;")
_LONGEST_PROLOGUE: Final = 24
_ASSIGNMENTS: Final = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
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


def kernel_extents(function: FunctionDefinition) -> KernelExtents:
    """Analyse one kernel: packed ABI, or pointers as parameters."""
    try:
        arguments = _Walk(function).run()
    except UnreadableError as error:
        return KernelExtents(name=function.name, arguments=(), reason=str(error))
    return KernelExtents(name=function.name, arguments=arguments)


@dataclass(slots=True)
class _Reach:
    """Accesses of one argument so far."""

    types: set[str] = field(default_factory=set)
    at_least: int = 0
    at_most: int | None = 0
    is_written: bool = False
    written_at_least: int = 0
    written_at_most: int | None = 0

    def take(self, element_type: str, least: int, most: int | None, *, written: bool) -> None:
        self.types.add(element_type)
        self.at_least = max(self.at_least, least)
        self.at_most = _larger(self.at_most, most)
        if written:
            self.is_written = True
            self.written_at_least = max(self.written_at_least, least)
            self.written_at_most = _larger(self.written_at_most, most)


def _larger(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


class _Walk:
    """One pass over the body of a kernel."""

    def __init__(self, function: FunctionDefinition) -> None:
        self.function = function
        self.tokens = function.tokens
        self.texts = function.tokens.texts
        self.data: dict[str, int] = {}
        self.types: dict[str, str] = {}
        self.reach: dict[int, _Reach] = {}
        self.declared: set[str] = set()
        self.statements = 0
        self.blocks = 0

    def run(self) -> tuple[ArgumentExtent, ...]:
        partner = match_brackets(self.tokens)
        if self.function.doubts or partner is None:
            raise UnreadableError(next(iter(self.function.doubts), "brackets do not nest"))
        if self.function.macros & (self.function.identifiers | {p.name for p in self.function.parameters}):
            raise UnreadableError("macros of the source are used")
        self.partner = partner
        self._block(self._prologue(), len(self.texts), Scope())
        count = len(self.reach)
        if sorted(self.reach) != list(range(count)):
            raise UnreadableError("not every argument is unpacked")
        return tuple(self._extent(index) for index in range(count))

    def _extent(self, index: int) -> ArgumentExtent:
        reach = self.reach[index]
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

    # ---- what the arguments are called ----

    def _prologue(self) -> int:
        """Find the names of the arguments' data; where the rest of the body begins."""
        if not self.function.is_packed:
            for index, parameter in enumerate(self.function.parameters):
                self._parameter(index, parameter.type, parameter.name)
        handles: dict[str, int] = {}
        index = end = 0
        while (stop := self._simple_statement(index)) is not None:
            line = " ".join(self.texts[index:stop])
            if self.function.is_packed:
                known = self._unpack(line, handles)
            elif (copy := _COPY.fullmatch(line)) is not None and copy.group(2) in self.data:
                self._name(copy.group(1), self.data.pop(copy.group(2)))
                known = True
            else:
                break
            index = stop
            end = stop if known else end
        for argument in handles.values():
            self.reach.setdefault(argument, _Reach())
        return end

    def _simple_statement(self, start: int) -> int | None:
        """Where the short statement at ``start`` ends; None when there is none."""
        for stop in range(start, min(start + _LONGEST_PROLOGUE, len(self.texts))):
            if self.texts[stop] in ("{", "}"):
                return None
            if self.texts[stop] == ";":
                return stop + 1
        return None

    def _unpack(self, line: str, handles: dict[str, int]) -> bool:
        packed = self.function.parameters[0].name
        if (handle := _HANDLE.fullmatch(line)) is not None and handle.group(2) == packed:
            if handle.group(1) in handles or int(handle.group(3)) in handles.values():
                raise UnreadableError("an argument is unpacked twice")
            handles[handle.group(1)] = int(handle.group(3))
            return True
        if (data := _DATA.fullmatch(line)) is not None and data.group(2) in handles:
            self._name(data.group(1), handles[data.group(2)])
            return True
        return False

    def _parameter(self, index: int, type_name: str, name: str) -> None:
        words = type_name.replace("*", " * ").split()
        if words[-1:] != ["*"] or words.count("*") != 1 or not set(words[:-1]) <= SCALAR_TYPES | {"void"}:
            raise UnreadableError(f"the parameter {name} is no pointer to data")
        self._name(name, index)
        if "void" not in words:
            self.types[name] = element_type("".join(f"{word} " for word in words[:-1]).strip())

    def _name(self, name: str, index: int) -> None:
        if name in self.data or not name:
            raise UnreadableError("one name stands for two arguments")
        self.data[name] = index
        self.reach.setdefault(index, _Reach())

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
        if text == "{":
            self._block(index + 1, self.partner[index], scope)
            return self.partner[index] + 1, scope
        if text == "for":
            return self._for(index, scope), scope
        if text == "if":
            return self._if(index, scope), scope
        if text in _UNKNOWN_FLOW:
            raise UnreadableError(f"{text} is used")
        if self.tokens.kinds[index] == DIRECTIVE:
            return index + 1, scope
        stop = self._end(index)
        if text == "return":
            if stop > index + 1:
                self._look(parse_expression(self.tokens, index + 1, stop), scope)
        elif text in SCALAR_TYPES or text in ("void", "const"):
            return stop + 1, self._declaration(index, stop, scope)
        elif stop > index:
            self._plain(index, stop, scope)
        return stop + 1, scope

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
        head = _LOOP.fullmatch(" ".join(self.texts[index + 2 : close])) if close > 0 else None
        names = {name for name in head.group(1, 3, 5, 6, 7) if name} if head is not None else set()
        if len(names) != 1:
            raise UnreadableError("a loop does not count up by one")
        name = names.pop()
        first = self._end(index + 2)
        second = self._end(first + 1)
        begin = parse_expression(self.tokens, index + 5, first)
        end = parse_expression(self.tokens, first + 3, second)
        self._look(begin, scope)
        self._look(end, scope)
        low, high = range_of(begin, scope), range_of(end, scope)
        if low is None or high is None:
            raise UnreadableError(f"the bounds of the loop over {name} are not known")
        start, stop, after = self._body(close + 1)
        self._declare(name)
        if low[0] < high[1]:
            constant = low[0] == low[1] and high[0] == high[1]
            inner = scope.with_loop(name, (low[0], high[1] - 1), independent=constant)
            self._block(start, stop, inner if constant else _uncertain(inner))
        return after

    def _if(self, index: int, scope: Scope) -> int:
        if self.texts[index + 1 : index + 2] != ["("]:
            raise UnreadableError("an if has no condition")
        close = self.partner[index + 1]
        condition = parse_expression(self.tokens, index + 2, close)
        self._look(condition, scope)
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

    def _declare(self, name: str) -> None:
        if name in self.data or name in self.types:
            raise UnreadableError(f"{name} is declared again")
        self.declared.add(name)

    def _declaration(self, index: int, stop: int, scope: Scope) -> Scope:
        """``float x[4]``, ``int32_t y = ...``, ``void* w = TVMBackendAllocWorkspace(...)``."""
        at = index
        while self.texts[at] in SCALAR_TYPES or self.texts[at] in ("void", "const"):
            at += 1
        type_name = " ".join(self.texts[index:at])
        pointer = self.texts[at] == "*"
        at += self.texts[at:stop].count("*") if pointer and self.texts[at + 1 : at + 2] != ["*"] else 0
        at = index + len(type_name.split()) + (1 if pointer else 0)
        name = self.texts[at]
        self._declare(name)
        rest = self.texts[at + 1 : at + 2]
        if rest == ["["]:
            at = self.partner[at + 1]
            rest = self.texts[at + 1 : at + 2]
        if at + 1 == stop:
            return scope.with_local(name, None)
        if rest != ["="]:
            raise UnreadableError(f"the declaration of {name[:40]} is not understood")
        if self.texts[at + 2] == "{":
            if not self.data.keys().isdisjoint(self.texts[at + 2 : stop]):
                raise UnreadableError("an initialiser uses an argument")
            return scope.with_local(name, None)
        value = parse_expression(self.tokens, at + 2, stop)
        self._look(value, scope)
        whole = type_name in ("int32_t", "int64_t", "int") and not pointer
        return scope.with_local(name, range_of(value, scope) if whole and not self._changes(name) else None)

    def _changes(self, name: str) -> bool:
        """Whether a number is ever assigned after its declaration (or declared in two places)."""
        for at, text in enumerate(self.texts):
            if text == name:
                after = self.texts[at + 1 : at + 2]
                before = self.texts[at - 1 : at]
                declared = before and before[0] in SCALAR_TYPES
                if (after and after[0] in _ASSIGNMENTS and not declared) or "++" in (*after, *before):
                    return True
                if "--" in (*after, *before) or before == ["&"]:
                    return True
        return False

    def _plain(self, index: int, stop: int, scope: Scope) -> None:
        """An assignment, or an expression for its effect."""
        at = index
        while at < stop and self.texts[at] not in _ASSIGNMENTS:
            at = (self.partner[at] if self.texts[at] in ("(", "[") else at) + 1
        if at >= stop:
            self._look(parse_expression(self.tokens, index, stop), scope)
            return
        target = parse_expression(self.tokens, index, at)
        self._look(target, scope, written=True)
        if self.texts[at] != "=":
            self._look(target, scope)
        self._look(parse_expression(self.tokens, at + 1, stop), scope)

    # ---- accesses ----

    def _look(self, expression: Expr, scope: Scope, *, written: bool = False) -> None:
        """Note every access in ``expression``; ``written`` is about its outermost element."""
        kind = expression.kind
        if kind == NAME:
            if expression.text in self.data:
                raise UnreadableError(f"{expression.text} is used as a whole")
        elif kind == INDEX:
            self._element(expression, scope, written)
        elif kind == CHOICE or (kind == BINARY and expression.text in ("&&", "||")):
            self._branches(expression, scope)
        else:
            if written and kind != CALL:
                raise UnreadableError("something else than an element or a variable is assigned")
            for part in expression.args:
                self._look(part, scope)

    def _branches(self, expression: Expr, scope: Scope) -> None:
        condition = expression.args[0]
        self._look(condition, scope)
        wanted = (expression.text == "&&",) if expression.kind == BINARY else (True, False)
        for branch, holds in zip(expression.args[1:], wanted, strict=True):
            inner = scope.assuming(condition, holds)
            if inner is not None:
                self._look(branch, inner)

    def _element(self, expression: Expr, scope: Scope, written: bool) -> None:
        base, subscript = expression.args
        self._look(subscript, scope)
        name, type_name = base.text, self.types.get(base.text, "")
        if base.kind == CAST and base.args[0].kind == NAME and base.text.endswith("*"):
            name, type_name = base.args[0].text, element_type(base.text[:-1])
        if name not in self.data:
            self._look(base, scope)
            return
        if not type_name or type_name.endswith("*"):
            raise UnreadableError(f"the type of the elements of {name} is not known")
        values = range_of(subscript, scope)
        most = values[1] + 1 if values is not None and values[0] >= 0 else None
        least = 0
        for highest in (True, False):
            point = scope.point(highest=highest)
            reached = None if point is None else value_at(subscript, point)
            least = max(least, 0 if reached is None else reached + 1)
        self.reach[self.data[name]].take(type_name, least, most, written=written)


def _uncertain(scope: Scope) -> Scope:
    """A scope in which no point is certain: the loop around it may not run."""
    return Scope(scope.names, scope.loops, scope.known, (*scope.conditions, (Expr("other"), True)))


def element_type(type_name: str) -> str:
    """A C type without qualifiers."""
    return " ".join(word for word in type_name.split() if word not in ("const", "volatile"))
