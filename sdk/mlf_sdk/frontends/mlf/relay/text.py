# SPDX-License-Identifier: Apache-2.0
"""Pieces of relay text: lists with brackets, strings and comments in them, in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MARK: Final = re.compile(r'/\*|"|[][(){},]')
_QUOTE: Final = re.compile(r'[\\"]')
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}


class UnreadableRelayError(Exception):
    """Relay text that is not understood: what it is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One element of a list, and what the comments in it say."""

    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The elements of a list, and the comment and text that follow it."""

    items: tuple[Piece, ...]
    comment: str = ""
    rest: str = ""

    def __iter__(self) -> Iterator[Piece]:
        """The elements."""
        return iter(self.items)


def strip_comments(text: str) -> str:
    """``text`` without its ``/* ... */``; strings are left alone."""
    return "".join(part for part, is_comment in _parts(text) if not is_comment)


def split_list(text: str, limit: int, *, closing: bool = False) -> Pieces:
    """Split at the commas outside of brackets, strings and comments.

    Args:
        text: the inside of a list; with ``closing`` also its closing parenthesis and what follows.
        limit: most elements.
        closing: the list ends at a closing parenthesis that has no opening one.

    Raises:
        UnreadableRelayError: brackets don't match, or there are too many elements.
    """
    items: list[Piece] = []
    words: list[str] = []
    comments: list[str] = []
    expected: list[str] = []
    parts = list(_parts(text))

    def finish() -> None:
        if len(items) >= limit:
            raise UnreadableRelayError(f"a list has more than {limit} elements")
        items.append(Piece("".join(words).strip(), " ".join(comments)))
        words.clear()
        comments.clear()

    for index, (part, is_comment) in enumerate(parts):
        if is_comment:
            comments.append(part[2:-2].strip())
        elif part == "," and not expected:
            finish()
        elif part in (")", "]", "}"):
            if closing and part == ")" and not expected:
                if items or words or comments:
                    finish()
                return _rest(items, parts[index + 1 :])
            if not expected or expected.pop() != part:
                raise UnreadableRelayError("brackets do not match")
            words.append(part)
        else:
            if part in _OPEN:
                expected.append(_OPEN[part])
            words.append(part)
    if expected or closing:
        raise UnreadableRelayError("brackets do not match")
    if items or "".join(words).strip():
        finish()
    return Pieces(tuple(items))


def _rest(items: list[Piece], parts: list[tuple[str, bool]]) -> Pieces:
    comment = " ".join(part[2:-2].strip() for part, is_comment in parts if is_comment)
    rest = "".join(part for part, is_comment in parts if not is_comment).strip()
    return Pieces(tuple(items), comment, rest)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Text in pieces: runs, strings, single brackets and commas, and comments (True)."""
    start = at = 0
    while (mark := _MARK.search(text, at)) is not None:
        if mark.start() > start:
            yield text[start : mark.start()], False
        at = mark.end()
        if mark.group() == "/*":
            end = text.find("*/", at)
            if end < 0:
                raise UnreadableRelayError("a comment does not end")
            at = end + 2
        elif mark.group() == '"':
            at = _string_end(text, at)
        yield text[mark.start() : at], mark.group() == "/*"
        start = at
    if start < len(text):
        yield text[start:], False


def _string_end(text: str, at: int) -> int:
    while (mark := _QUOTE.search(text, at)) is not None:
        if mark.group() == '"':
            return mark.end()
        at = mark.end() + 1
    raise UnreadableRelayError("a string does not end")
