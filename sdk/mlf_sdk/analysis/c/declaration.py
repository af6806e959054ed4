# SPDX-License-Identifier: Apache-2.0
"""What one top-level declaration of C source says, from its tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlf_sdk.analysis.c.tokens import IDENTIFIER, NUMBER, STRING, Tokens
from mlf_sdk.analysis.c.unit import EntryArgument, EntryWrapper, Parameter, Pool
from mlf_sdk.tools.cwords import KEYWORDS

_ATTRIBUTES = frozenset({"__attribute__", "__attribute", "__declspec", "_Alignas", "alignas", "asm"})
_STORAGE = frozenset({"static", "extern", "inline", "__inline", "__inline__", "TVM_DLL", "_Noreturn"})
_PACKED_COUNT = frozenset({"int32_t", "int"})
_PACKED_ARGS = frozenset({"void*", "TVMValue*"})
_PACKED_CODES = frozenset({"void*", "int32_t*", "int*"})
BODY = "{}"
"""Stands in a declaration for the braces (a struct's members, an initialiser) that were skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Words of a declaration without its attributes, and what the attributes say.

    Attributes:
        words, kinds: the tokens; ``{}`` for skipped braces.
        section: name in a section attribute, or empty.
        alignment: bytes in an aligned attribute, or 0.
    """

    words: list[str]
    kinds: list[str]
    section: str = ""
    alignment: int = 0

    @property
    def is_static(self) -> bool:
        """Internal linkage, by the word itself or by a macro that has it in its name."""
        return any(word == "static" or "STATIC" in word for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Name, return type and parameters of a function."""

    name: str
    return_type: str
    parameters: tuple[Parameter, ...]

    @property
    def is_packed(self) -> bool:
        """Packed ABI of TVM 0.8 - 0.20: args, type codes, count, return value, its type code, resource."""
        types = [parameter.type for parameter in self.parameters]
        return (
            len(types) == 6
            and types[0] in _PACKED_ARGS
            and types[1] in _PACKED_CODES
            and types[2] in _PACKED_COUNT
            and types[3] in _PACKED_ARGS
            and types[4] in _PACKED_CODES
            and types[5] == "void*"
        )


def decimal(text: str, digits: int) -> int | None:
    """The number that at most ``digits`` ASCII digits spell, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def joined(words: list[str]) -> str:
    """Words as a person writes them: ``const float*``, ``struct x*``."""
    return " ".join(words).replace(" *", "*").replace("( ", "(").replace(" )", ")")


def closing(words: list[str], start: int) -> int:
    """Index of the bracket that closes the one at ``start``; the last index when none does."""
    depth = 0
    for index in range(start, len(words)):
        if words[index] in "([":
            depth += 1
        elif words[index] in ")]":
            depth -= 1
            if depth == 0:
                return index
    return len(words) - 1


def opening(words: list[str], last: int) -> int:
    """Index of the bracket that opens the one at ``last``; -1 when none does."""
    depth = 0
    for index in range(last, -1, -1):
        if words[index] in (")", "]"):
            depth += 1
        elif words[index] in ("(", "["):
            depth -= 1
            if depth == 0:
                return index
    return -1


def split_commas(words: list[str]) -> list[list[str]]:
    """Parts between the commas that are outside all brackets; none for no words."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        if word == "," and depth == 0:
            parts.append([])
            continue
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        parts[-1].append(word)
    return parts if words else []


def read_declaration(tokens: Tokens) -> Declaration:
    """Drop attributes and linkage strings from the tokens of a declaration; keep section and alignment."""
    words: list[str] = []
    kinds: list[str] = []
    section, alignment = "", 0
    texts, index = tokens.texts, 0
    while index < len(texts):
        text, kind = texts[index], tokens.kinds[index]
        following = tokens.kinds[index + 1] if index + 1 < len(texts) else ""
        if text in _ATTRIBUTES and index + 1 < len(texts) and texts[index + 1] == "(":
            last = closing(texts, index + 1)
            section = _attribute(tokens, index, last, "section", STRING).strip('"') or section
            aligned = _attribute(tokens, index, last, "aligned", NUMBER)
            alignment = decimal(aligned, 9) or alignment
            index = last + 1
        elif text == "extern" and following == STRING:
            index += 2
        else:
            words.append(text)
            kinds.append(kind)
            index += 1
    return Declaration(words=words, kinds=kinds, section=section, alignment=alignment)


def _attribute(tokens: Tokens, start: int, last: int, name: str, kind: str) -> str:
    """The one operand of an attribute, if it is of the kind looked for."""
    for index in range(start, last - 2):
        if tokens.texts[index] == name and tokens.kinds[index + 2] == kind and tokens.texts[index + 1] == "(":
            return tokens.texts[index + 2]
    return ""


def read_signature(declaration: Declaration) -> Signature | None:
    """The function that a declaration without its body or semicolon declares, or None."""
    words, kinds = declaration.words, declaration.kinds
    if not words or words[-1] != ")" or "typedef" in words or "=" in words:
        return None
    start = opening(words, len(words) - 1)
    if start < 1 or kinds[start - 1] != IDENTIFIER or words[start - 1] in KEYWORDS:
        return None
    if "(" in words[: start - 1] or BODY in words:
        return None
    return_words = [word for word in words[: start - 1] if word not in _STORAGE and "STATIC" not in word]
    return Signature(
        name=words[start - 1],
        return_type=joined(return_words),
        parameters=_parameters(words[start + 1 : -1]),
    )


def _parameters(words: list[str]) -> tuple[Parameter, ...]:
    if words in ([], ["void"]):
        return ()
    return tuple(_parameter(part) for part in split_commas(words))


def _parameter(words: list[str]) -> Parameter:
    """Split one parameter into type and name; one without a name has the name ''."""
    array = words.index("[") if "[" in words else len(words)
    head = words[:array]
    named = len(head) > 1 and (head[-1][0].isalpha() or head[-1][0] == "_") and head[-1] not in KEYWORDS
    name = head[-1] if named else ""
    return Parameter(type=joined(head[:-1] if named else head) + "".join(words[array:]), name=name)


def variable_names(declaration: Declaration) -> list[str]:
    """Names of the variables that a declaration defines with external linkage."""
    words = declaration.words
    if not words or declaration.is_static or "typedef" in words or "extern" in words:
        return []
    names = []
    for number, part in enumerate(split_commas(words)):
        head = part[: part.index("=")] if "=" in part else part
        head = head[: head.index("[")] if "[" in head else head
        if "(" in head:
            head = [word for word in head[: closing(head, head.index("("))] if word not in "(*"]
        types = len(head) > 1 or number > 0
        if head and types and (head[-1][0].isalpha() or head[-1][0] == "_") and head[-1] not in KEYWORDS:
            names.append(head[-1])
    return [] if _declares_type_only(words) else names


def _declares_type_only(words: list[str]) -> bool:
    return (words[-1] == BODY and "=" not in words) or (
        words[0] in ("struct", "union", "enum") and len(words) == 2
    )


def read_pool(declaration: Declaration, line: int, total: re.Match[str] | None) -> Pool | None:
    """The pool that a static variable in a section is, or None.

    ``total`` is a match whose first group is the size in bytes that follows a struct of constants.
    """
    words = [word for word in declaration.words if word != "static"]
    is_struct = words[:1] == ["struct"] and BODY in words[:3]
    if words[:1] == ["uint8_t"] and len(words) >= 5 and words[2] == "[" and words[4] == "]":
        size = decimal(words[3], 18)
        name = words[1]
    elif is_struct and words.index(BODY) + 1 < len(words):
        size = int(total.group(1)) if total is not None else None
        name = words[words.index(BODY) + 1]
    else:
        return None
    return Pool(
        name=name,
        size_bytes=size,
        section=declaration.section,
        alignment=declaration.alignment,
        is_constant=is_struct,
        line=line,
    )


def read_wrapper(name: str, words: list[str]) -> EntryWrapper | None:
    """The call in the body ``words`` of a function when all it says is ``return callee(arguments);``."""
    if len(words) < 5 or words[0] != "return" or words[2] != "(" or words[-1] != ";":
        return None
    if ";" in words[:-1] or closing(words, 2) != len(words) - 2:
        return None
    arguments = tuple(_argument(part) for part in split_commas(words[3:-2]))
    return EntryWrapper(name=name, callee=words[1], arguments=arguments)


def _argument(words: list[str]) -> EntryArgument:
    if len(words) == 3 and words[1] == "->":
        return EntryArgument(group=words[0], name=words[2])
    if len(words) == 2 and words[0] == "&":
        return EntryArgument(group="&", name=words[1])
    return EntryArgument(group="", name=joined(words))
