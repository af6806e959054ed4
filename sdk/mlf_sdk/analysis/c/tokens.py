# SPDX-License-Identifier: Apache-2.0
"""Tokens of C source, for any text however broken or hostile, in linear time.

Nothing is expanded and nothing is included: a preprocessor line is one token. What is not C gets
a token of kind ``OTHER``, so that whoever needs certainty sees that there is something to doubt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

IDENTIFIER = "i"
NUMBER = "n"
STRING = "s"
CHARACTER = "c"
PUNCTUATION = "p"
DIRECTIVE = "d"
OTHER = "o"

# Each alternative is a single run of one character class or a fixed string: none can backtrack.
# Strings with escapes, block comments and preprocessor lines match their opening only; see _finish.
_TOKEN = re.compile(
    r"""
      (?P<d>^[ \t]*\#)
    | (?P<w>[ \t\r\f\v]+|\n+|//[^\n]*)
    | (?P<i>[^\W\d]\w*)
    | (?P<n>\.?\d[\w.]*)
    | (?P<s>"[^"\\\n]*"?)
    | (?P<c>'[^'\\\n]*'?)
    | (?P<b>/\*)
    | (?P<p>->|\+\+|--|<<=|>>=|<<|>>|&&|\|\||[-+*/%&|^=!<>]=|\.\.\.|[][{}();,.?:~!<>=+\-*/%&|^])
    | (?P<o>.)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"[\w.]*")
_NEWLINE_OR_QUOTE = re.compile(r"[\n\"'/]")
_STOPPER = {'"': re.compile(r'["\\\n]'), "'": re.compile(r"['\\\n]")}
_BRACE = re.compile(r"[{}\"'/#]")
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_REMAPPED = ("??", "<:", "<%", ":>", "%>", "%:")
_RAW_STRING = re.compile(r'\b(?:u8|[uUL])?R"')
_OPENERS = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = frozenset(_OPENERS.values())


@dataclass(slots=True)
class Tokens:
    """Parallel lists: what a token says, its kind, and the offset of its first character.

    ``problems`` holds (offset, what is wrong) of comments and literals that do not end.
    """

    texts: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        """How many tokens there are."""
        return len(self.texts)

    def add(self, kind: str, text: str, start: int) -> None:
        """Append one token."""
        self.kinds.append(kind)
        self.texts.append(text)
        self.starts.append(start)


def splice_lines(text: str) -> str:
    """Join lines that end in a backslash, as the C preprocessor does before anything else."""
    return _SPLICE.sub("", text) if "\\" in text else text


def has_remapped_characters(text: str) -> bool:
    """Tell whether trigraphs, digraphs or raw strings could give the text another meaning."""
    if any(sign in text for sign in _REMAPPED):
        return True
    return 'R"' in text and _RAW_STRING.search(text) is not None


def end_of_literal(text: str, start: int, end: int) -> tuple[int, bool]:
    """Offset after the string or character literal whose quote is at ``start``, and whether it ends.

    One that does not end stops at the end of its line.
    """
    stopper = _STOPPER[text[start]]
    position = start + 1
    while (found := stopper.search(text, position, end)) is not None:
        if found.group() == text[start]:
            return found.end(), True
        if found.group() == "\n":
            return found.start(), False
        position = min(found.end() + 1, end)
    return end, False


def end_of_comment(text: str, start: int, end: int) -> tuple[int, bool]:
    """Offset after the block comment that begins at ``start``, and whether it ends."""
    close = text.find("*/", start + 2, end)
    return (end, False) if close < 0 else (close + 2, True)


def end_of_directive(text: str, start: int, end: int) -> tuple[int, bool]:
    """Offset of the newline after the preprocessor line at ``start``; False when a comment in it is open."""
    position = start
    while (found := _NEWLINE_OR_QUOTE.search(text, position, end)) is not None:
        position = found.start()
        if found.group() == "\n":
            return position, True
        if found.group() == "/":
            if text.startswith("/*", position):
                position, closed = end_of_comment(text, position, end)
                if not closed:
                    return position, False
            elif text.startswith("//", position):
                newline = text.find("\n", position, end)
                return (end if newline < 0 else newline), True
            else:
                position += 1
        else:
            position, _ = end_of_literal(text, position, end)
    return end, True


def skip_braces(text: str, start: int, end: int) -> tuple[int, bool]:
    """Offset after the ``}`` that matches the ``{`` at ``start``, and whether there is one.

    Jumps from one brace, quote, slash or ``#`` to the next: a constant table costs almost nothing.
    """
    depth = 0
    position = start
    while (found := _BRACE.search(text, position, end)) is not None:
        position = found.start()
        sign = found.group()
        if sign == "{":
            depth += 1
            position += 1
        elif sign == "}":
            depth -= 1
            position += 1
            if depth == 0:
                return position, True
        elif sign == "#":
            position, _ = end_of_directive(text, position, end)
        elif sign != "/":
            position, _ = end_of_literal(text, position, end)
        elif text.startswith("//", position):
            newline = text.find("\n", position, end)
            position = end if newline < 0 else newline
        elif text.startswith("/*", position):
            position, _ = end_of_comment(text, position, end)
        else:
            position += 1
    return end, False


def next_token(text: str, position: int, end: int, tokens: Tokens) -> int:
    """Append the token at ``position`` (nothing for white space and comments); return where to go on."""
    match = _TOKEN.match(text, position, end)
    return end if match is None else _finish(text, match, end, tokens)


def tokenise(text: str, start: int = 0, end: int | None = None) -> Tokens:
    """All tokens of ``text[start:end]``; offsets are those of ``text``."""
    stop = len(text) if end is None else end
    tokens = Tokens()
    texts, kinds, starts = tokens.texts, tokens.kinds, tokens.starts
    position = start
    while position < stop:
        for match in _TOKEN.finditer(text, position, stop):
            kind = match.lastgroup
            if kind == "w":
                continue
            if kind in ("i", "p"):
                kinds.append(kind)
                texts.append(match.group())
                starts.append(match.start())
                continue
            position = _finish(text, match, stop, tokens)
            if position != match.end():
                break
        else:
            break
    return tokens


def _finish(text: str, match: re.Match[str], end: int, tokens: Tokens) -> int:
    """Take in one match of _TOKEN, with the rest of it where the match is only an opening."""
    kind, start, stop = match.lastgroup or OTHER, match.start(), match.end()
    closed = True
    if kind == "w":
        return stop
    if kind == "b":
        stop, closed = end_of_comment(text, start, end)
        if not closed:
            tokens.problems.append((start, "a comment does not end"))
        return stop
    if kind == DIRECTIVE:
        stop, closed = end_of_directive(text, stop, end)
        if not closed:
            tokens.problems.append((start, "a comment does not end"))
    elif kind == NUMBER:
        while text[stop - 1] in "eEpP" and stop < end and text[stop] in "+-":
            rest = _NUMBER.match(text, stop + 1, end)
            stop = rest.end() if rest is not None else stop + 1
    elif kind in (STRING, CHARACTER) and (stop - start == 1 or text[stop - 1] != text[start]):
        stop, closed = end_of_literal(text, start, end)
        if not closed:
            kind = OTHER
            tokens.problems.append((start, "a string or character literal does not end"))
    tokens.add(kind, text[start:stop], start)
    return stop


def match_brackets(tokens: Tokens) -> list[int] | None:
    """For each bracket the index of its partner (-1 for other tokens); None when they do not nest."""
    partner = [-1] * len(tokens)
    open_at: list[int] = []
    for index, text in enumerate(tokens.texts):
        if tokens.kinds[index] != PUNCTUATION:
            continue
        if text in _OPENERS:
            open_at.append(index)
        elif text in _CLOSERS:
            if not open_at or _OPENERS[tokens.texts[open_at[-1]]] != text:
                return None
            partner[index] = open_at.pop()
            partner[partner[index]] = index
    return None if open_at else partner
