# SPDX-License-Identifier: Apache-2.0
"""Reader of serialized data: numbers, texts and vectors, each checked against what remains."""

from __future__ import annotations

import struct
from typing import Final, Self

from mlf_sdk.frontends.mlf.params import Cursor, Damaged

_I32: Final = struct.Struct("<i")
_WORD: Final = 8

MAX_ITEMS: Final = 65536
"""Items of a vector, where nothing else is stated."""


class Stream(Cursor):
    """A position in serialized data; each method raises Damaged when the data is not what it should be."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        """Start at byte ``start``; nothing behind ``end`` is read."""
        super().__init__(data)
        self.at = start
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Bytes that remain."""
        return self.end - self.at

    def part(self, what: str) -> Self:
        """Give the bytes behind their length as a stream of its own, and pass over them."""
        size = self.u64(f"the length of {what}")
        start = self.at
        self.take(size, what)
        return type(self)(self.data, start, self.at)

    def i32(self, what: str) -> int:
        """Give the next number of four bytes."""
        return self.unpack(_I32, what)[0]

    def count(self, what: str, item_bytes: int, most: int = MAX_ITEMS) -> int:
        """Give a count of items of at least ``item_bytes`` each, for which there is room."""
        at, count = self.at, self.u64(f"the number of {what}")
        if count * item_bytes > self.left:
            raise Damaged(f"{count} {what} are stated; {self.left} bytes are left", at)
        if count > most:
            raise Damaged(f"{count} {what}; at most {most} are read", at)
        return count

    def content(self, what: str) -> bytes:
        """Give the bytes behind their length."""
        return self.take(self.u64(f"the length of {what}"), what)

    def text(self, what: str) -> str:
        """Give a text behind its length; what is not UTF-8 is replaced."""
        return self.content(what).decode("utf-8", "replace")

    def texts(self, what: str) -> tuple[str, ...]:
        """Give a vector of texts."""
        return tuple(self.text(f"one of the {what}") for _ in range(self.count(what, _WORD)))

    def numbers(self, what: str, *, signed: bool = False, most: int = MAX_ITEMS) -> tuple[int, ...]:
        """Give a vector of numbers of eight bytes."""
        count = self.count(what, _WORD, most)
        return struct.unpack(f"<{count}{'q' if signed else 'Q'}", self.take(count * _WORD, what))
