# SPDX-License-Identifier: Apache-2.0
"""Reads files while a program still writes them: each new line, or the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import IO

_PIECE_BYTES = 65_536
_LONGEST_LINE = 8_192  # a longer one is passed on in pieces
_TAIL_LINES = 30
_TAIL_BYTES = 8_192  # what a message shows of an output


class Follower:
    """Follower of growing files: each call reads new data and reports each complete line.

    Args:
        streams: files that are written from their start on; their position is left alone.
        tell: takes a line without its end, decoded as UTF-8 with replacement.
    """

    def __init__(self, streams: Sequence[IO[bytes]], tell: Callable[[str], None]) -> None:
        self._streams = tuple(streams)
        self._tell = tell
        self._offsets = [0] * len(self._streams)
        self._rests = [b""] * len(self._streams)

    def __call__(self) -> None:
        """Report every line that is complete by now."""
        for index, stream in enumerate(self._streams):
            while data := os.pread(stream.fileno(), _PIECE_BYTES, self._offsets[index]):
                self._offsets[index] += len(data)
                *lines, rest = (self._rests[index] + data).split(b"\n")
                self._rests[index] = rest
                for line in lines:
                    self._say(line)
                if len(rest) > _LONGEST_LINE:
                    self._say(rest)
                    self._rests[index] = b""

    def finish(self) -> None:
        """Report all remaining text; the program has ended."""
        self()
        for index, rest in enumerate(self._rests):
            self._rests[index] = b""
            if rest:
                self._say(rest)

    def _say(self, line: bytes) -> None:
        self._tell(line.rstrip(b"\r").decode("utf-8", "replace"))


def read_end(stream: IO[bytes], limit: int) -> str:
    """The last ``limit`` bytes of a file that a program may still be writing to."""
    size = os.fstat(stream.fileno()).st_size
    data = os.pread(stream.fileno(), min(size, limit), max(0, size - limit))
    return data.decode("utf-8", "replace")


def last_lines(text: str) -> str:
    """The end of an output, short enough for a message."""
    return "\n".join(text[-_TAIL_BYTES:].splitlines()[-_TAIL_LINES:])
