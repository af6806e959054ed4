# SPDX-License-Identifier: Apache-2.0
"""What a generated C source defines, declares, includes and calls.

The source is never compiled, expanded or trusted: a source that is not C gives faults and as much
as could be read. Constant tables are skipped, so that megabytes of them cost milliseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from mlf_sdk.analysis.c import tokens as ctokens
from mlf_sdk.analysis.c.body import Head, Surroundings, define_function
from mlf_sdk.analysis.c.declaration import (
    BODY,
    Declaration,
    read_declaration,
    read_pool,
    read_signature,
    read_wrapper,
    variable_names,
)
from mlf_sdk.analysis.c.tokens import Tokens
from mlf_sdk.analysis.c.unit import (
    EntryArgument,
    EntryWrapper,
    FunctionDeclaration,
    FunctionDefinition,
    GlobalVariable,
    Include,
    Pool,
    SourceScan,
)
from mlf_sdk.errors import Fault

__all__ = [
    "EntryArgument",
    "EntryWrapper",
    "FunctionDeclaration",
    "FunctionDefinition",
    "GlobalVariable",
    "Include",
    "Pool",
    "SourceScan",
    "call_graph",
    "known_functions",
    "scan_source",
]

MAX_FAULTS = 20
"""Faults kept of one source."""

MAX_BRACES = 16
"""Pairs of braces, initialisers apart, in one declaration."""

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]*)>|"([^"\n]*)")')
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)")
_TOTAL_SIZE = re.compile(r"[ \t]*// of total size (\d{1,18}) bytes")
_WORD = re.compile(r"[^\W\d]\w*")
_STRUCT_WORDS = frozenset({"struct", "union", "enum", "class"})


def scan_source(text: str, member: str) -> SourceScan:
    """Read one C source or header.

    Args:
        text: the source; decode it with ``errors="replace"``.
        member: its name in the archive.
    """
    return _Scanner(ctokens.splice_lines(text), member).scan()


def known_functions(scans: Iterable[SourceScan]) -> frozenset[str]:
    """Names of all functions that the sources define or declare."""
    scans = list(scans)
    defined = {function.name for scan in scans for function in scan.functions}
    declared = {declaration.name for scan in scans for declaration in scan.declarations}
    return frozenset(defined | declared)


def call_graph(scans: Iterable[SourceScan]) -> dict[str, frozenset[str]]:
    """For each defined function the functions of the archive that it calls (by name)."""
    scans = list(scans)
    known = known_functions(scans)
    graph: dict[str, frozenset[str]] = {}
    for scan in scans:
        for function in scan.functions:
            graph[function.name] = graph.get(function.name, frozenset()) | (function.called & known)
    return graph


class _Scanner:
    """One pass over a source, from one top-level declaration to the next."""

    def __init__(self, text: str, member: str) -> None:
        self.text = text
        self.member = member
        self.end = len(text)
        self.head = Tokens()
        self.linkage_depth = 0
        self.line_at = (0, 1)
        self.remapped = ctokens.has_remapped_characters(text)
        self.includes: list[Include] = []
        self.macros: set[str] = set()
        self.macro_words: set[str] = set()
        self.braces = 0
        self.found: list[tuple[Head, int, int]] = []  # a function, and where its body is
        self.declarations: list[FunctionDeclaration] = []
        self.variables: list[GlobalVariable] = []
        self.pools: list[Pool] = []
        self.faults: list[Fault] = []

    def scan(self) -> SourceScan:
        position = 0
        while position < self.end:
            before = len(self.head)
            position = ctokens.next_token(self.text, position, self.end, self.head)
            if len(self.head) > before:
                position = self._take(position)
        for offset, what in self.head.problems:
            self._fault(offset, what)
        if self.linkage_depth:
            self._fault(self.end, "a brace does not close")
        functions = self._functions()
        wrappers = (read_wrapper(function.name, function.tokens.texts) for function in functions)
        return SourceScan(
            member=self.member,
            includes=tuple(self.includes),
            functions=functions,
            declarations=tuple(self.declarations),
            variables=tuple(self.variables),
            pools=tuple(self.pools),
            wrappers=tuple(wrapper for wrapper in wrappers if wrapper is not None),
            macros=frozenset(self.macros),
            called=frozenset[str]().union(*(function.called for function in functions)),
            faults=tuple(self.faults),
        )

    def _take(self, position: int) -> int:
        """Act on the token that was read last; return where to go on."""
        text, kind = self.head.texts[-1], self.head.kinds[-1]
        if kind == ctokens.DIRECTIVE:
            self._directive(text)
            self._drop_last()
        elif text == ";":
            self._drop_last()
            self._end_declaration(position)
        elif text == "{":
            return self._open_brace(self.head.starts[-1])
        elif text == "}":
            if self.linkage_depth == 0:
                self._fault(self.head.starts[-1], "a closing brace has no opening one")
            self.linkage_depth = max(0, self.linkage_depth - 1)
            self._clear()
        return position

    def _directive(self, text: str) -> None:
        self.macro_words.update(_WORD.findall(text))
        if (include := _INCLUDE.match(text)) is not None:
            name = include.group(1) if include.group(1) is not None else include.group(2)
            self.includes.append(Include(name=name.strip(), is_system=include.group(1) is not None))
        elif (define := _DEFINE.match(text)) is not None:
            self.macros.add(define.group(1))

    def _open_brace(self, start: int) -> int:
        """A body, an initialiser, a struct's members or a linkage block begins."""
        self._drop_last()
        texts = self.head.texts
        linkage = len(texts) > 1 and texts[-2] == "extern" and self.head.kinds[-1] == ctokens.STRING
        if linkage or "namespace" in texts[:2]:
            self.linkage_depth += 1
            self._clear()
            return start + 1
        stop, closed = ctokens.skip_braces(self.text, start, self.end)
        if not closed:
            self._fault(start, "a brace does not close")
            self._clear()
            return self.end
        if texts and texts[-1] == "=":
            self.head.add(ctokens.PUNCTUATION, BODY, start)
            return stop
        self.braces += 1
        if self.braces > MAX_BRACES:
            self._fault(start, "a declaration has too many braces")
            self._clear()
            return self.end
        if not _STRUCT_WORDS.isdisjoint(texts) and read_signature(read_declaration(self.head)) is None:
            self.head.add(ctokens.PUNCTUATION, BODY, start)
            return stop
        self._body(start, stop)
        self._clear()
        return stop

    def _body(self, start: int, stop: int) -> None:
        declaration = read_declaration(self.head)
        signature = read_signature(declaration)
        if signature is None:
            self._fault(start, "braces follow something that is no function, struct or initialiser")
            return
        name_at = self.head.starts[self.head.texts.index(signature.name)]
        head = Head(signature, declaration.is_static, name_at, self._line(name_at))
        self.found.append((head, start + 1, stop - 1))

    def _end_declaration(self, position: int) -> None:
        """A declaration ended in a semicolon: a prototype, variables, a type, or nothing."""
        if self.head.texts:
            declaration = read_declaration(self.head)
            line = self._line(self.head.starts[0])
            signature = read_signature(declaration)
            if signature is not None and signature.return_type:
                self.declarations.append(
                    FunctionDeclaration(
                        name=signature.name,
                        return_type=signature.return_type,
                        parameters=signature.parameters,
                        is_packed=signature.is_packed,
                        line=line,
                    )
                )
            elif signature is None:
                self._variables(declaration, line, position)
        self._clear()

    def _variables(self, declaration: Declaration, line: int, position: int) -> None:
        self.variables += [GlobalVariable(name=name, line=line) for name in variable_names(declaration)]
        if declaration.section and declaration.is_static:
            pool = read_pool(declaration, line, _TOTAL_SIZE.match(self.text, position))
            if pool is not None:
                self.pools.append(pool)

    def _functions(self) -> tuple[FunctionDefinition, ...]:
        """Tokens first: macros that are defined inside a body count for every function."""
        bodies = []
        for head, start, stop in self.found:
            tokens = ctokens.tokenise(self.text, start, stop)
            for text, kind in zip(tokens.texts, tokens.kinds, strict=True):
                if kind == ctokens.DIRECTIVE:
                    self._directive(text)
            for at, what in tokens.problems:
                self._fault(at, what)
            bodies.append((head, tokens))
        source = Surroundings(
            member=self.member,
            macros=frozenset(self.macros),
            macro_words=frozenset(self.macro_words),
            remapped=self.remapped,
            has_faults=bool(self.faults),
            definitions=Counter(head.signature.name for head, _ in bodies),
        )
        return tuple(define_function(head, tokens, source) for head, tokens in bodies)

    def _drop_last(self) -> None:
        for column in (self.head.texts, self.head.kinds, self.head.starts):
            column.pop()

    def _clear(self) -> None:
        for offset, what in self.head.problems:
            self._fault(offset, what)
        self.head = Tokens()
        self.braces = 0

    def _fault(self, offset: int, what: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(member=self.member, field=f"line {self._line(offset)}", what=what))

    def _line(self, offset: int) -> int:
        at, line = self.line_at
        if offset >= at:
            line += self.text.count("\n", at, offset)
        else:
            line -= self.text.count("\n", offset, at)
        self.line_at = (offset, line)
        return line
