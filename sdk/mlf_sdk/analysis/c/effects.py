# SPDX-License-Identifier: Apache-2.0
"""Effects of a kernel beyond its outputs: inputs that it writes, addresses that it keeps, state that it has.

A pointer into an argument is followed through local variables, whatever their order, and through the
archive's own functions. Where it goes into memory or code that is not followed, it is kept: it may be used
at any later time. Functions of the C library, of the compiler and of CMSIS-NN are known to keep nothing and
to write only where they say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from mlf_sdk.analysis.c.arguments import DESCRIPTOR_FIELDS, argument_names, is_scalar_pointer
from mlf_sdk.analysis.c.syntax import (
    ASSIGN,
    BINARY,
    CALL,
    CAST,
    CHOICE,
    FIELD,
    INDEX,
    NAME,
    UNARY,
    UNKNOWN,
    Declaration,
    Expr,
    Statement,
    Unknown,
)
from mlf_sdk.analysis.c.unit import FunctionDefinition, SourceScan
from mlf_sdk.tools.ctext import ALLOCATE, FREE, REPORTS, SCALAR_TYPES

Roots = frozenset[int]
NONE: Final[Roots] = frozenset()

_WRITE_FIRST: Final = frozenset({"memcpy", "memmove", "memset"})
_MATH: Final = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1
fabs fdim floor fma fmax fmin fmod hypot ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround
nearbyint nextafter pow remainder rint round scalbn sin sinh sqrt tan tanh tgamma trunc"""
_PURE: Final = frozenset(
    [f"{name}{end}" for name in _MATH.split() for end in ("", "f", "l")]
    + ["abs", "labs", "llabs", "memcmp", "strlen", ALLOCATE, FREE, *REPORTS]
)
_PURE_FAMILIES: Final = re.compile(
    r"__builtin_\w+|__[A-Z]\w*|(?:arm_|read_and_pad)\w*|_*(?:is|fp|sign)(?:nan|inf|finite|normal|classify|bit)\w*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Effects of one function; arguments are named by position.

    Attributes:
        written: arguments whose memory it writes.
        kept: arguments whose address it may leave in memory that outlives the call.
        handed: arguments whose address it hands to functions of the compiler or of CMSIS-NN, which may write.
        lasting: variables that outlive a call, and code that is not known, on which it depends.
    """

    written: Roots = NONE
    kept: Roots = NONE
    lasting: frozenset[str] = frozenset()
    handed: Roots = NONE


class EffectsOfCode:
    """Effects of the functions of an archive, each found once."""

    def __init__(self, scans: Iterable[SourceScan]) -> None:
        """Index the functions: those with external linkage, and those of each source."""
        self._scans: dict[str, SourceScan] = {scan.member: scan for scan in scans}
        self._local: dict[tuple[str, str], FunctionDefinition] = {}
        self._global: dict[str, FunctionDefinition] = {}
        for scan in self._scans.values():
            for function in scan.functions:
                self._local[scan.member, function.name] = function
                if not function.is_static:
                    self._global[function.name] = function
        self._known: dict[tuple[str, str], Effects] = {}

    def resolve(self, member: str, name: str) -> FunctionDefinition | None:
        """Find the function that ``name`` means in a source: its own one, else one with external linkage."""
        return self._local.get((member, name)) or self._global.get(name)

    def mutable(self, member: str) -> frozenset[str]:
        """Variables at file scope that a source can change."""
        return self._scans[member].mutable

    def of(self, function: FunctionDefinition) -> Effects:
        """Find the effects of a function and of all that it calls."""
        key = function.member, function.name
        if key not in self._known:
            everything = frozenset(range(len(function.parameters)))
            if function.is_packed:
                everything = frozenset(argument_names(function).indices)
            # A function that calls itself may do anything with what it gets.
            self._known[key] = Effects(
                written=everything, kept=everything, lasting=frozenset({function.name})
            )
            self._known[key] = _Walk(self, function).run()
        return self._known[key]


class _Collected(msgspec.Struct):
    written: set[int] = msgspec.field(default_factory=set)
    kept: set[int] = msgspec.field(default_factory=set)
    handed: set[int] = msgspec.field(default_factory=set)
    lasting: set[str] = msgspec.field(default_factory=set)


class _Walk:
    """Passes over one body until no variable gets a pointer that it did not have."""

    def __init__(self, code: EffectsOfCode, function: FunctionDefinition) -> None:
        self.code = code
        self.function = function
        self.names = argument_names(function)
        self.types: dict[str, str] = {p.name: p.type for p in function.parameters}
        self.held: dict[str, Roots] = self._arguments()
        self.collected = _Collected()
        self.changed = True

    def _arguments(self) -> dict[str, Roots]:
        if self.function.is_packed:
            named = [*self.names.data.items(), *self.names.handles.items()]
        else:
            named = [
                (p.name, index) for index, p in enumerate(self.function.parameters) if not _is_number(p.type)
            ]
        held: dict[str, Roots] = {}
        for name, index in named:
            held[name] = held.get(name, NONE) | {index}
        return held

    def run(self) -> Effects:
        result = self.collected
        result.lasting.update(self.function.identifiers & self.code.mutable(self.function.member))
        unclear = bool(self.function.doubts) or "typedef" in self.function.words
        if unclear or (self.function.is_packed and self.names.problem):
            result.kept.update(*self.held.values())
            result.lasting.add("code that is not understood")
        while self.changed:
            self.changed = False
            for statement in self.function.body.walk():
                if statement.start not in self.names.skip or not self.function.is_packed:
                    self._statement(statement)
        return Effects(
            written=frozenset(result.written),
            kept=frozenset(result.kept),
            lasting=frozenset(result.lasting),
            handed=frozenset(result.handed),
        )

    def _statement(self, statement: Statement) -> None:
        if isinstance(statement, Declaration):
            for variable in statement.variables:
                self.types[variable.name] = variable.type
                words = variable.type.split()
                if "static" in words and ("const" not in words or "*" in variable.type):
                    self.collected.lasting.add(variable.name)
                if variable.value is not None:
                    self._store(Expr(NAME, variable.name), self._value(variable.value))
        for value in statement.values:
            if isinstance(statement, Unknown):
                self._lose(value)
            else:
                self._value(value)

    def _hold(self, name: str, roots: Roots) -> None:
        if not roots <= self.held.get(name, NONE):
            self.held[name] = self.held.get(name, NONE) | roots
            self.changed = True

    def _lose(self, expression: Expr) -> None:
        """Take an expression that is not understood: whatever it names is kept."""
        roots = NONE.union(*(self._name(part.text) for part in expression.walk()))
        self._keep(roots, "code that is not understood")

    def _keep(self, roots: Roots, where: str) -> None:
        if roots:
            self.collected.kept |= roots
            self.collected.lasting.add(where)

    def _value(self, expression: Expr) -> Roots:
        """Arguments that the value of an expression may point into; takes all of its effects."""
        special = self._special(expression)
        if special is not None:
            return special
        kind, text = expression.kind, expression.text
        if (kind, text) == (UNARY, "&") and expression.args[0].kind in (INDEX, FIELD, UNARY):
            return NONE.union(*map(self._value, expression.args[0].args))
        roots = [self._value(part) for part in expression.args]
        if kind == INDEX or (kind, text) == (UNARY, "*"):
            return NONE if self._points_to_numbers(expression.args[0]) else roots[0]
        if kind == FIELD and text.removeprefix("->") in DESCRIPTOR_FIELDS:
            return NONE
        first = 1 if kind == CHOICE or (kind == BINARY and text == ",") else 0
        return NONE.union(*roots[first:])

    def _special(self, expression: Expr) -> Roots | None:
        """Value of a name, call, assignment or unknown expression; None for all others."""
        if expression.kind == NAME:
            return self._name(expression.text)
        if expression.kind == CALL:
            return self._call(expression)
        if expression.kind == UNKNOWN:
            self._lose(expression)
            return NONE
        if expression.kind != ASSIGN:
            return None
        target, *values = expression.args
        value = NONE.union(*map(self._value, values))
        self._store(target, value)
        return value | self._value(target)

    def _name(self, name: str) -> Roots:
        if name not in self.types and (function := self.code.resolve(self.function.member, name)) is not None:
            self.collected.lasting |= self.code.of(function).lasting
        return self.held.get(name, NONE)

    def _points_to_numbers(self, base: Expr) -> bool:
        """Return whether what lies at an address is a plain number, which is no address."""
        if base.kind == CAST:
            return is_scalar_pointer(base.text)
        if base.kind == NAME:
            return is_scalar_pointer(self.types.get(base.text, ""))
        if base.kind == BINARY and base.text in ("+", "-"):
            return any(self._points_to_numbers(part) for part in base.args)
        if base.kind == CHOICE:
            return all(self._points_to_numbers(part) for part in base.args[1:])
        if base.kind == BINARY and base.text == ",":
            return self._points_to_numbers(base.args[-1])
        return base.kind == ASSIGN and self._points_to_numbers(base.args[0])

    def _store(self, target: Expr, value: Roots) -> None:
        """Take a store of a value that may point into the arguments of ``value``."""
        if target.kind == NAME and target.text in self.types and target.text not in self.collected.lasting:
            self._hold(target.text, value)
            return
        if target.kind == NAME:
            self._keep(value, target.text)
            return
        local = self._container(target)
        if local and not target.args[0].args:
            self._hold(local, value)
            return
        # Behind an element of a local array or struct there may be a pointer.
        place = self.held.get(local, NONE) if local else NONE.union(*map(self._value, target.args[:1]))
        self.collected.written |= place
        if local:
            self._hold(local, value)
        if place or not local:
            self._keep(value, "memory")

    def _container(self, target: Expr) -> str:
        """Local array or struct that an element or field is part of; empty when it is none."""
        while target.args and (
            target.kind == INDEX or (target.kind == FIELD and not target.text.startswith("->"))
        ):
            target = target.args[0]
        type_ = self.types.get(target.text, "") if target.kind == NAME else ""
        is_local = bool(type_) and target.text not in self.collected.lasting
        is_parameter = any(p.name == target.text for p in self.function.parameters)
        return (
            target.text if is_local and not is_parameter and (type_.endswith("]") or "*" not in type_) else ""
        )

    def _call(self, expression: Expr) -> Roots:
        name, roots = expression.text, [self._value(argument) for argument in expression.args]
        everything = NONE.union(*roots)
        function = self.code.resolve(self.function.member, name) if name not in self.types else None
        if function is not None:
            effects = self.code.of(function)
            self.collected.lasting |= effects.lasting
            for index, given in enumerate(roots):
                if index >= len(function.parameters) or _is_number(function.parameters[index].type):
                    self._keep(given, "an address as a number")
                if index in effects.written:
                    self.collected.written |= given
                if index in effects.kept:
                    self.collected.kept |= given
                if index in effects.handed:
                    self.collected.handed |= given
            return everything if "*" in function.return_type else NONE
        if name in _WRITE_FIRST and roots:
            self.collected.written |= roots[0]
            return roots[0]
        if name in _PURE:
            return NONE
        if _PURE_FAMILIES.fullmatch(name):
            self.collected.handed |= everything
            return NONE
        self.collected.kept |= everything
        self.collected.lasting.add(f"{name or 'a pointer'}()")
        return everything


def _is_number(type_name: str) -> bool:
    return SCALAR_TYPES.issuperset(type_name.split())
