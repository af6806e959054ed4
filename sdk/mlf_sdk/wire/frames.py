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


def console_text(data: bytes | bytearray) -> str | None:
    """Return ``data`` as text if all of it is printable, else None."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    good = all(char.isprintable() or char in _CONSOLE_CONTROLS for char in text)
    return text if good else None


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

    Args:
        max_payload: bytes of the largest payload; what is longer is no frame.
        console: called with each piece of text found between frames.

    Attributes:
        dropped: pieces that were neither a frame nor text.
    """

    def __init__(self, max_payload: int, console: Callable[[str], None]) -> None:
        self.max_payload = max_payload
        self.dropped = 0
        self._console = console
        self._pending = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes; return the payloads of the frames that ended in them."""
        payloads: list[bytes] = []
        first, *rest = data.split(DELIMITER)
        self._collect(first)
        for part in rest:
            self._finish(payloads)
            self._collect(part)
        return payloads

    def flush(self) -> None:
        """Hand over console text that no delimiter has ended yet; a frame under way is kept.

        The second byte of a frame is its version, which is not printable, so two bytes tell.
        """
        text = console_text(self._pending)
        if text is not None and len(self._pending) > 1:
            self._pending.clear()
            self._console(text)

    def _collect(self, part: bytes) -> None:
        limit = longest_frame(self.max_payload)
        while part and not self._skipping:
            room = limit + 1 - len(self._pending)
            self._pending += part[:room]
            part = part[room:]
            if len(self._pending) > limit:
                self._overflow()

    def _overflow(self) -> None:
        """Handle data too long for a frame: pass on text so far, skip anything else."""
        cut = self._pending.rfind(b"\n") + 1 or _end_of_characters(self._pending)
        text = console_text(self._pending[:cut])
        if text is None:
            self._skipping = True
            self._pending.clear()
        else:
            del self._pending[:cut]
            self._console(text)

    def _finish(self, payloads: list[bytes]) -> None:
        chunk = bytes(self._pending)
        self._pending.clear()
        skipped, self._skipping = self._skipping, False
        if skipped:
            self.dropped += 1
        elif chunk:
            try:
                payloads.append(decode(chunk))
            except FrameError:
                self._not_a_frame(chunk)

    def _not_a_frame(self, chunk: bytes) -> None:
        text = console_text(chunk)
        if text is None:
            self.dropped += 1
        else:
            self._console(text)
