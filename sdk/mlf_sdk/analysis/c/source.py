# SPDX-License-Identifier: Apache-2.0
"""Scanner of generated C sources: definitions, declarations, includes and calls.

The source is never compiled, expanded or trusted: a source that is not C gives faults and as much
as could be read. Constant tables are skipped, so that megabytes of them cost milliseconds.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from typing import TYPE_CHECKING, Final

from mlf_sdk.analysis.c.declaration import (
    hides_a_number,
    mutable_names,
    read_pool,
    read_signature,
    read_struct,
    read_wrapper,
    variable_names,
)
from mlf_sdk.analysis.c.expressions import source_of
from mlf_sdk.analysis.c.parser import parse
from mlf_sdk.analysis.c.text import read_text, words_and_calls
from mlf_sdk.analysis.c.unit import FunctionDefinition, LazyBody, Pool, Signature, SourceScan, Struct
from mlf_sdk.errors import Fault
from mlf_sdk.tools.ctext import KEYWORDS

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_FAULTS: Final = 20
"""Faults kept of one source."""

_INCLUDE: Final = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]*)>|"([^"\n]*)")')
_DEFINE: Final = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)([^\n]*)")
_PRAGMA: Final = re.compile(r"[ \t]*#[ \t]*pragma\b")
_TOTAL_SIZE: Final = re.compile(r"[ \t]*// of total size (\d{1,18}) bytes")
_QUALIFIERS: Final = re.compile(r"TVM_DLL\b|__STATIC_FORCEINLINE\b|__STATIC_INLINE\b")  # of TVM and CMSIS
_NOT_CALLS: Final = KEYWORDS | {"__attribute__", "_Alignas", "_Alignof", "defined"}
_C_SUFFIXES: Final = (".c", ".h")
_MAY_HAVE_ERRORS: Final = ("attribute_specifier", "compound_statement")
_CONTAINERS: Final = ("translation_unit", "linkage_specification", "declaration_list")


def scan_source(text: str, member: str, *, doubt: str = "") -> SourceScan:
    """Read one C source or header.

    Args:
        text: the source; decode it with ``errors="replace"``.
        member: its name in the archive.
        doubt: reason why the build may compile another text; empty when there is none.
    """
    return _Scanner(text, member, doubt).scan()


class _Scanner:
    """One pass over the declarations of a source."""

    def __init__(self, text: str, member: str, doubt: str) -> None:
        self.text = read_text(text)
        self.doubt = doubt
        self.member = member
        self.includes: list[str] = []
        self.macros: dict[str, str] = {}
        self.macro_words: set[str] = set()
        self.found: list[tuple[Signature, Node]] = []  # functions with their bodies
        self.lines: list[tuple[int, int]] = []  # of the same functions
        self.declarations: list[Signature] = []
        self.variables: list[str] = []
        self.mutable: set[str] = set()
        self.pools: list[Pool] = []
        self.structs: list[Struct] = []
        self.faults: list[Fault] = []
        self.unclear = ""
        self.conditionals = [o for o, line in self.text.directives if _PRAGMA.match(line) is None]
        self.conditionals.append(len(text))

    def scan(self) -> SourceScan:
        for _, directive in self.text.directives:
            self._directive(directive)
        for offset, problem in sorted(self.text.problems)[:MAX_FAULTS]:
            self._fault(offset, problem)
        if not self.faults:
            self._read()
        functions = self._functions()
        wrappers = (
            read_wrapper(function.name, function.body.parts)
            for function, (_, body) in zip(functions, self.found, strict=True)
            if body.named_child_count == 1
        )
        return SourceScan(
            member=self.member,
            includes=tuple(self.includes),
            functions=functions,
            declarations=tuple(self.declarations),
            variables=tuple(self.variables),
            mutable=frozenset(self.mutable),
            pools=tuple(self.pools),
            structs=tuple(self.structs),
            wrappers=tuple(wrapper for wrapper in wrappers if wrapper is not None),
            macros=self.macros,
            called=frozenset[str]().union(*(function.called for function in functions)),
            unclear=self.unclear,
            faults=tuple(self.faults),
        )

    def _directive(self, text: str) -> None:
        self.macro_words.update(words_and_calls(text)[0])
        if (include := _INCLUDE.match(text)) is not None:
            self.includes.append((include[1] or include[2] or "").strip())
        elif (define := _DEFINE.match(text)) is not None:
            self.macros[define[1]] = define[2].strip()

    def _read(self) -> None:
        """Read every declaration at file scope and in blocks of linkage."""
        root = parse(_QUALIFIERS.sub(_plain_qualifier, self.text.code))
        if root is None:
            self._fault(0, "the source takes too long to read")
            return
        pending = [root]
        while pending:
            syntax = pending.pop()
            if syntax.type in _CONTAINERS or syntax.is_error:
                pending.extend(reversed(syntax.named_children))
            elif syntax.type == "function_definition":
                self._definition(syntax)
            elif syntax.type in ("declaration", "struct_specifier"):
                self._declaration(syntax)
            elif syntax.type == "type_definition" and hides_a_number(syntax):
                self.unclear = self.unclear or f"line {_line(syntax)} gives a type of numbers another meaning"
            if syntax.is_error or (syntax.type not in _CONTAINERS and _is_unclear(syntax)):
                self.unclear = self.unclear or f"line {_line(syntax)} is not understood"

    def _definition(self, syntax: Node) -> None:
        signature, body = read_signature(syntax), syntax.child_by_field_name("body")
        if signature is None or body is None:
            self.unclear = self.unclear or f"the function in line {_line(syntax)} is not understood"
        else:
            self.found.append((signature, body))
            self.lines.append((_line(syntax), syntax.end_point[0] + 1))

    def _declaration(self, syntax: Node) -> None:
        """Read a prototype, variables, a pool, a struct, or nothing."""
        if (struct := read_struct(syntax)) is not None:
            self.structs.append(struct)
        if (signature := read_signature(syntax)) is not None:
            self.declarations.append(signature)
        else:
            self.variables += variable_names(syntax)
            self.mutable.update(mutable_names(syntax))
            total = _TOTAL_SIZE.match(self.text.original, syntax.end_byte)
            if (pool := read_pool(syntax, total)) is not None:
                self.pools.append(pool)

    def _functions(self) -> tuple[FunctionDefinition, ...]:
        definitions = Counter(signature.name for signature, _ in self.found)
        return tuple(
            self._function(signature, body, lines, definitions[signature.name] > 1)
            for (signature, body), lines in zip(self.found, self.lines, strict=True)
        )

    def _function(
        self, signature: Signature, body: Node, lines: tuple[int, int], is_doubled: bool
    ) -> FunctionDefinition:
        words, called = words_and_calls(source_of(body))
        return FunctionDefinition(
            name=signature.name,
            member=self.member,
            lines=lines,
            return_type=signature.return_type,
            parameters=signature.parameters,
            is_static=signature.is_static,
            lazy_body=LazyBody(body),
            words=words,
            called=called - _NOT_CALLS,
            identifiers=words - KEYWORDS,
            doubts=self._doubts(body, is_doubled),
            macros=frozenset(self.macros),
            macro_words=frozenset(self.macro_words),
        )

    def _doubts(self, body: Node, is_doubled: bool) -> tuple[str, ...]:
        """Reasons why a body may mean something else to a compiler."""
        following = bisect(self.conditionals, body.start_byte)
        doubts = {
            self.doubt: bool(self.doubt),
            "a preprocessor line is in the body": self.conditionals[following] < body.end_byte,
            "the body has something that is not C": body.has_error,
            "the source has trigraphs, digraphs or raw strings": self.text.is_remapped,
            "the source is not C": not self.member.endswith(_C_SUFFIXES),
            self.unclear: bool(self.unclear),
            "the function is defined more than once": is_doubled,
        }
        return tuple(doubt for doubt, holds in doubts.items() if holds)

    def _fault(self, offset: int, what: str) -> None:
        self.faults.append(Fault(member=self.member, field=f"line {self.text.line(offset)}", what=what))


def _plain_qualifier(macro: re.Match[str]) -> str:
    """Replace a macro by the part of it that matters here, in as many characters."""
    before = macro.string[max(macro.start() - 1, 0) : macro.start()]
    if before.isalnum() or before == "_":
        return macro[0]
    return ("static" if "STATIC" in macro[0] else "").ljust(len(macro[0]))


def _line(syntax: Node) -> int:
    return syntax.start_point[0] + 1


def _is_unclear(syntax: Node) -> bool:
    """Return whether a declaration has errors outside of its attributes and its body."""
    return syntax.has_error and any(
        child.is_error or child.is_missing or (child.has_error and child.type not in _MAY_HAVE_ERRORS)
        for child in syntax.children
    )
