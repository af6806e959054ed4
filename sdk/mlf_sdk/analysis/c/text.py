# SPDX-License-Identifier: Apache-2.0
"""Text of a C source made ready for the parser: spliced, without comments, directives and constant tables.

Offsets and line numbers of what remains are those of the text with its spliced lines joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

MIN_TABLE_CHARS: Final = 256
"""Length from which the numbers between two braces are removed: megabytes of constants say nothing."""

_DOUBLE = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*(?P<double>")?'
_SINGLE = r"'[^'\\\n]*(?:\\.[^'\\\n]*)*(?P<single>')?"
# Every alternative begins with a plain character: the search for them is quick.
_LEXEME: Final = re.compile(rf"//|/\*|\#|\{{|\}}|{_DOUBLE}|{_SINGLE}", re.DOTALL)
_IN_DIRECTIVE: Final = re.compile(rf"\n|//|/\*|{_DOUBLE}|{_SINGLE}", re.DOTALL)
_TABLE: Final = re.compile(rf"\{{[\w\s.,+-]{{{MIN_TABLE_CHARS},}}\}}", re.ASCII)
_NAME_IN_TABLE: Final = re.compile(r"(?<![\w.])[A-Za-z_]", re.ASCII)
_SPLICE: Final = re.compile(r"\\[ \t]*\r?\n")
_REMAPPED: Final = ("??", "<:", "<%", ":>", "%>", "%:")
_RAW_STRING: Final = re.compile(r'\b(?:u8|[uUL])?R"')
_NOT_ASCII: Final = re.compile(r"[^\x01-\x7f]")
_WORD: Final = re.compile(
    r""""[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?|\.?\d[\w.]*|([^\W\d]\w*)(\s*\()?""",
    re.DOTALL,
)


class SourceText(msgspec.Struct):
    """A source as the parser gets it.

    Attributes:
        code: the text with comments, directives and long tables of numbers blanked, one byte a character.
        original: the same text before that.
        directives: (offset, text) of each preprocessor line.
        problems: (offset, description) of comments, literals and braces that do not end.
        is_remapped: trigraphs, digraphs or raw strings could give the text another meaning.
    """

    original: str
    code: str = ""
    directives: list[tuple[int, str]] = msgspec.field(default_factory=list)
    problems: list[tuple[int, str]] = msgspec.field(default_factory=list)
    is_remapped: bool = False

    def line(self, offset: int) -> int:
        """Return the line number of an offset, from 1."""
        return self.original.count("\n", 0, offset) + 1


def read_text(text: str) -> SourceText:
    """Prepare ``text`` in linear time, whatever it holds."""
    joined = "".join(_joined(text)) if "\\" in text else text
    is_remapped = any(sign in joined for sign in _REMAPPED) or _RAW_STRING.search(joined) is not None
    source = SourceText(original=joined, is_remapped=is_remapped)
    code = "".join(_Cleaner(source).run())
    source.code = code if code.isascii() and "\0" not in code else _NOT_ASCII.sub("@", code)
    return source


def _joined(text: str) -> Iterator[str]:
    """Logical lines, each with as many newlines behind it as were spliced: later lines keep their numbers."""
    spliced = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        rest = _SPLICE.sub("", line)
        spliced += rest != line
        yield rest
        if rest == line and spliced:
            yield "\n" * spliced
            spliced = 0


def without_tables(text: str) -> str:
    """Empty the long tables of numbers in a text that is still to be preprocessed."""

    def emptied(table: re.Match[str]) -> str:
        return table[0] if _NAME_IN_TABLE.search(table[0]) else "{}"

    return _TABLE.sub(emptied, text)


def words_and_calls(code: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return all words of ``code`` outside literals, and those that a parenthesis follows."""
    result = {(match[1], match[2] is not None) for match in _WORD.finditer(code) if match[1]}
    return frozenset(word for word, _ in result), frozenset(word for word, called in result if called)


def type_text(code: str) -> str:
    """Return a type in one spelling: ``const float*``, ``struct x*``, ``float[3][4]``."""
    words = " ".join(re.findall(r"\w+|\S", code))
    return re.sub(r" (?=[*()[\]])|(?<=[(\[]) ", "", words)


class _Cleaner:
    """One pass over a text from one comment, literal, directive or brace to the next."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.original
        self.parts: list[str] = []
        self.copied = 0
        self.open: list[int] = []

    def run(self) -> list[str]:
        position = 0
        while (match := _LEXEME.search(self.text, position)) is not None:
            position = self._take(match)
        if self.open:
            self._problem(self.open[0], "a brace does not close")
        self.parts.append(self.text[self.copied :])
        return self.parts

    def _take(self, result: re.Match[str]) -> int:
        """Act on one lexeme; return where to go on."""
        start, end, sign = result.start(), result.end(), result.group()
        if sign in ("//", "/*"):
            end = self._comment_end(start)
            self._blank(start, end)
        elif sign == "{":
            end = self._open_brace(start)
        elif sign == "}":
            if self.open:
                self.open.pop()
            else:
                self._problem(start, "a closing brace has no opening one")
        elif sign == "#":
            line = max(self.text.rfind("\n", 0, start) + 1, self.copied)
            if not self.text[line:start].strip():
                end = self._directive_end(end)
                self.source.directives.append((start, self.text[start:end]))
                self._blank(start, end)
        elif result["double"] is None and result["single"] is None:
            self._problem(start, "a string or character literal does not end")
        return end

    def _open_brace(self, start: int) -> int:
        table = _TABLE.match(self.text, start)
        if table is not None and _NAME_IN_TABLE.search(self.text, start, table.end()) is None:
            self._blank(start + 1, table.end() - 1)
            return table.end()
        self.open.append(start)
        return start + 1

    def _comment_end(self, start: int) -> int:
        if self.text.startswith("//", start):
            end = self.text.find("\n", start)
        elif (end := self.text.find("*/", start + 2)) >= 0:
            end += 2
        else:
            self._problem(start, "a comment does not end")
        return len(self.text) if end < 0 else end

    def _directive_end(self, position: int) -> int:
        """Offset of the newline after a preprocessor line; a comment in it may hold further lines."""
        while (match := _IN_DIRECTIVE.search(self.text, position)) is not None:
            if match.group() == "\n":
                return match.start()
            position = match.end()
            if match.group() in ("//", "/*"):
                position = self._comment_end(match.start())
        return len(self.text)

    def _blank(self, start: int, end: int) -> None:
        self.parts.append(self.text[self.copied : start])
        self.parts.append("\n".join(" " * len(line) for line in self.text[start:end].split("\n")))
        self.copied = end

    def _problem(self, offset: int, description: str) -> None:
        self.source.problems.append((offset, description))
