# SPDX-License-Identifier: Apache-2.0
"""Accesses to arguments and workspaces in each phase of a kernel's body.

A name that stands for data counts as accessed where it is an element in place: ``((float*)x)[i]``,
or ``x[i]`` when x is declared as a pointer to numbers. Anywhere else it escapes: it may be accessed
at any time by a name that is not followed.
"""

from __future__ import annotations

import re

import msgspec

from mlf_sdk.analysis.c.allocations import Allocations, Kind
from mlf_sdk.analysis.c.arguments import DESCRIPTOR_FIELDS, argument_names, descriptor
from mlf_sdk.analysis.c.syntax import (
    ASSIGN,
    CALL,
    CAST,
    CHOICE,
    FIELD,
    INDEX,
    NAME,
    UNARY,
    Declaration,
    Expr,
    Statement,
)
from mlf_sdk.analysis.c.unit import FunctionDefinition

_WORD = re.compile(r"\w+")


def slot_sizes(allocations: Allocations) -> list[int]:
    """Largest request at each depth of nesting."""
    sizes: list[int] = []
    for event in allocations.events:
        if event.kind is Kind.ALLOCATE:
            sizes += [0] * (event.depth + 1 - len(sizes))
            sizes[event.depth] = max(sizes[event.depth], event.size_bytes)
    return sizes


def written_arguments(function: FunctionDefinition) -> set[int]:
    """Indices of the arguments to whose elements a kernel assigns."""
    names = argument_names(function)
    written: set[int] = set()
    for statement in function.body.walk():
        for value in statement.values:
            for part in value.walk():
                element = names.element(part.args[0]) if part.kind == ASSIGN else None
                if element is not None and element[0] in names.data:
                    written.add(names.data[element[0]])
    return written


class Target(msgspec.Struct):
    """An argument or a slot, and where it is accessed."""

    index: int
    name: str
    phases: list[int]
    escaped: bool = False

    def span(self, phases: int) -> tuple[int | None, int | None]:
        """Return the first and last phase of ``phases`` that access the target; all phases if it escaped."""
        if self.escaped:
            return 0, phases - 1
        return (self.phases[0], self.phases[-1]) if self.phases else (None, None)


class KernelBody:
    """Accesses in the body of a kernel; ``doubt``: the reason if they are not certain, else empty."""

    def __init__(self, function: FunctionDefinition, allocations: Allocations) -> None:
        """Walk the body once."""
        self.names = argument_names(function)
        self.arguments = {i: Target(i, self.names.last_name(i), []) for i in sorted(self.names.indices)}
        self.slots = [Target(depth, "", []) for depth in range(len(slot_sizes(allocations)))]
        self.data = {name: [self.arguments[index]] for name, index in self.names.data.items()}
        for name, index in self.names.data.items():
            if index in self.names.parts:
                self.data[name].append(self.arguments[self.names.parts[index][0]])
        for event in allocations.events:
            if event.kind is Kind.ALLOCATE:
                self.data.setdefault(event.name, []).append(self.slots[event.depth])
        self.phases = 0
        self.doubt = self.names.problem
        self.accessed: list[Target] = []
        self.skip = self.names.skip | allocations.consumed
        for statement in function.body.parts:
            self._take(statement)

    def _take(self, statement: Statement) -> None:
        """Look at one top-level statement, and count it as a phase when it accesses any memory."""
        self.accessed = []
        for part in statement.walk():
            if part.start in self.skip:
                continue
            for variable in part.variables if isinstance(part, Declaration) else ():
                for word in (variable.name, *_WORD.findall(variable.type)):
                    self._escape(word)
            for value in part.values:
                self._look(value)
        for target in self.accessed:
            if not target.phases or target.phases[-1] != self.phases:
                target.phases.append(self.phases)
        self.phases += bool(self.accessed)

    def _look(self, expression: Expr, *, is_address: bool = False) -> None:
        """Note what an expression accesses; ``is_address``: its value is a place, not what is there."""
        kind, args = expression.kind, expression.args
        if kind == NAME or (kind == CALL and expression.text):
            self._escape(expression.text)
        element = None if is_address else self.names.element(expression)
        if element is not None and element[0] in self.data:
            self.accessed += self.data[element[0]]
            self._look(args[1])
        elif kind == INDEX:
            self._look(args[0], is_address=True)
            self._look(args[1])
        elif kind == FIELD:
            self._look_at_field(expression, is_address)
        else:
            passes_on = kind in (CAST, CHOICE) and is_address
            takes_address = kind == UNARY and expression.text in ("&", "sizeof")
            takes_address = takes_address or (kind == CALL and not expression.text)
            for operand in args:
                self._look(operand, is_address=passes_on or takes_address)

    def _look_at_field(self, expression: Expr, is_address: bool) -> None:
        """Look at ``x.y.z``; fields of an argument's descriptor other than its data are nothing."""
        while expression.args[0].kind == FIELD:
            expression = expression.args[0]
        base = expression.args[0]
        handle = descriptor(base, "DLTensor*")
        is_known = expression.text in DESCRIPTOR_FIELDS and handle is not None and handle[1] == 0
        if not is_known or is_address or handle is None or handle[0] not in self.names.handles:
            self._look(base, is_address=True)

    def _escape(self, name: str) -> None:
        """Record a name that is used as a whole."""
        targets = list(self.data.get(name, ()))
        if name in self.names.handles:
            targets.append(self.arguments[self.names.handles[name]])
        if name and name == self.names.packed:
            self.doubt = f"{name} is used in an unknown way"
        for target in targets:
            target.escaped = True
        self.accessed += targets
