# SPDX-License-Identifier: Apache-2.0
"""A function of a C source from its head and the tokens of its body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mlf_sdk.analysis.c import tokens as ctokens
from mlf_sdk.analysis.c.declaration import Signature
from mlf_sdk.analysis.c.tokens import Tokens
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.cwords import KEYWORDS

_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma\b")
_NOT_CALLS = KEYWORDS | {"__attribute__", "_Alignas", "_Alignof", "defined"}
_C_SUFFIXES = (".c", ".h")


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before a body, and where its name stands in the text."""

    signature: Signature
    is_static: bool
    offset: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a source says outside of the body.

    Attributes:
        macros: those it defines; macro_words: all words in its preprocessor lines.
        remapped: it has trigraphs, digraphs or raw strings.
        definitions: how often each function is defined.
    """

    member: str
    macros: frozenset[str]
    macro_words: frozenset[str]
    remapped: bool
    has_faults: bool
    definitions: Mapping[str, int]


def define_function(head: Head, tokens: Tokens, source: Surroundings) -> FunctionDefinition:
    """The function that ``head`` and the tokens of its body make."""
    texts, kinds = tokens.texts, tokens.kinds
    called = {
        text
        for text, kind, following in zip(texts, kinds, texts[1:], strict=False)
        if following == "(" and kind == ctokens.IDENTIFIER
    }
    names = {text for text, kind in zip(texts, kinds, strict=True) if kind == ctokens.IDENTIFIER}
    return FunctionDefinition(
        name=head.signature.name,
        member=source.member,
        return_type=head.signature.return_type,
        parameters=head.signature.parameters,
        is_static=head.is_static,
        is_packed=head.signature.is_packed,
        offset=head.offset,
        line=head.line,
        tokens=tokens,
        called=frozenset(called - _NOT_CALLS),
        identifiers=frozenset(names - KEYWORDS),
        doubts=_doubts(head, tokens, source),
        macros=source.macros,
        macro_words=source.macro_words,
    )


def _doubts(head: Head, tokens: Tokens, source: Surroundings) -> tuple[str, ...]:
    """Why the tokens of a body may not be what a compiler sees."""
    has_directive = any(
        kind == ctokens.DIRECTIVE and _PRAGMA.match(text) is None
        for text, kind in zip(tokens.texts, tokens.kinds, strict=True)
    )
    doubts = {
        "a preprocessor line is in the body": has_directive,
        "the body has characters that are not C": ctokens.OTHER in tokens.kinds or bool(tokens.problems),
        "the source has trigraphs, digraphs or raw strings": source.remapped,
        "the source is not C": not source.member.endswith(_C_SUFFIXES),
        "the source has faults": source.has_faults,
        "the function is defined more than once": source.definitions[head.signature.name] > 1,
    }
    return tuple(doubt for doubt, holds in doubts.items() if holds)
