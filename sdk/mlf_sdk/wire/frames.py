# SPDX-License-Identifier: Apache-2.0
"""Frames on a byte stream: COBS(payload, CRC-32) between zero bytes, with console text in between."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from cobs import cobs

from mlf_sdk.errors import MlfError

CRC_SIZE = 4
DELIMITER = b"\x00"
_CONSOLE_CONTROLS = "\t\n\r\x07\x08\x0c\x1b"
_FIRST_PRINTABLE = 32  # versions of the protocol are below
_ZEROS_OF_FRAMES = 2  # in a row; more are noise
_MOST_BAD = 1  # unreadable characters of a short piece of text
_LEAST_LINE = 4  # bytes of a line of text amid noise


class FrameError(MlfError):
    """Bytes between two delimiters are not a frame."""


def encode(payload: bytes) -> bytes:
    """Return the frame of a payload, with a delimiter before and after it."""
    crc = zlib.crc32(payload).to_bytes(CRC_SIZE, "little")
    coded: bytes = cobs.encode(payload + crc)
    return DELIMITER + coded + DELIMITER


def decode(chunk: bytes) -> bytes:
    """Return the payload of the bytes between two delimiters.

    Raises:
        FrameError: it is not COBS, too short, or its CRC-32 is wrong.
    """
    try:
        data: bytes = cobs.decode(chunk)
    except cobs.DecodeError as error:
        raise FrameError("not COBS") from error
    payload, crc = data[:-CRC_SIZE], data[-CRC_SIZE:]
    if len(crc) < CRC_SIZE:
        raise FrameError("too short")
    if int.from_bytes(crc, "little") != zlib.crc32(payload):
        raise FrameError("wrong CRC-32")
    return payload


def longest_frame(max_payload: int) -> int:
    """Return the size of the longest frame of ``max_payload`` bytes, without its delimiters."""
    size = max_payload + CRC_SIZE
    return size + size // 254 + 1


def unreadable(data: bytes | bytearray) -> int:
    """Return how many characters of console output are not printable; a byte that is not UTF-8 is one."""
    text = data.decode("utf-8", "surrogateescape")
    return sum(not (char.isprintable() or char in _CONSOLE_CONTROLS) for char in text)


def _is_text(data: bytes | bytearray, least_bad: int) -> bool:
    """Return True for data of which at least three quarters, or all but ``least_bad``, is readable."""
    bad = unreadable(data)
    return bad <= max(least_bad, len(data) // 4)


def _end_of_characters(data: bytes | bytearray) -> int:
    """Return the size of ``data`` without a UTF-8 character that may be cut off at its end."""
    for back in range(1, min(3, len(data) - 1) + 1):
        if data[-back] & 0xC0 == 0xC0:
            return len(data) - back
        if data[-back] & 0xC0 != 0x80:
            break
    return len(data)


class Deframer:
    """Splits a byte stream into payloads and console text, however the bytes are cut into pieces.

    What is neither is passed on line by line: text with a few bytes that are none is text, noise is dropped.
    No byte mutes what follows it.

    Args:
        max_payload: bytes of the largest payload; what is longer is no frame.
        console: called with each piece of text found between frames, as it came.

    Attributes:
        dropped: pieces that were neither a frame nor text.
        good, bad: bytes of frames and readable characters, and all else: mostly bad at a wrong rate.
    """

    def __init__(self, max_payload: int, console: Callable[[bytes], None]) -> None:
        self.max_payload = max_payload
        self.dropped = self.good = self.bad = 0
        self._console = console
        self._pending = bytearray()
        self._zeros = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes; return the payloads of the frames that ended in them."""
        payloads: list[bytes] = []
        first, *rest = data.split(DELIMITER)
        self._collect(first)
        for part in rest:
            self._finish(payloads)
            self._collect(part)
        return payloads

    def flush(self, *, quiet: bool = False) -> None:
        """Hand over what no delimiter has ended yet; a frame under way is kept.

        The second byte of a frame is its version, which is not printable, so two bytes suffice.

        Args:
            quiet: nothing has come for longer than a pause inside a frame: nothing is kept.
        """
        if quiet or (len(self._pending) > 1 and not self._may_be_frame()):
            self._hand_over(len(self._pending) if quiet else _end_of_characters(self._pending))

    def _may_be_frame(self) -> bool:
        return self._pending[1] < _FIRST_PRINTABLE and chr(self._pending[1]) not in _CONSOLE_CONTROLS

    def _collect(self, part: bytes) -> None:
        limit = longest_frame(self.max_payload)
        while part:
            room = limit + 1 - len(self._pending)
            self._pending += part[:room]
            part = part[room:]
            if len(self._pending) > limit:
                self._hand_over(self._pending.rfind(b"\n") + 1 or _end_of_characters(self._pending))

    def _finish(self, payloads: list[bytes]) -> None:
        self._zeros = 0 if self._pending else self._zeros + 1
        self.bad += self._zeros > _ZEROS_OF_FRAMES
        try:
            payloads.append(decode(bytes(self._pending)))
        except FrameError:
            self._hand_over(len(self._pending))
        else:
            self.good += len(self._pending)
            self._pending.clear()

    def _hand_over(self, size: int) -> None:
        """Take the first bytes that are pending for text, or drop them."""
        data = bytes(self._pending[:size])
        del self._pending[:size]
        bad = unreadable(data)
        self.bad += bad
        self.good += len(data) - bad
        text = data
        if not _is_text(data, _MOST_BAD):
            self.dropped += 1
            lines = data.splitlines(keepends=True)
            text = b"".join(line for line in lines if len(line) >= _LEAST_LINE and _is_text(line, 0))
        if text:
            self._console(text)
