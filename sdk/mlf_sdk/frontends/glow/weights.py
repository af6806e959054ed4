# SPDX-License-Identifier: Apache-2.0
"""Constants of a bundle: a binary file, the same bytes as text, or an array in C."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mlf_sdk.errors import FaultCollector

_BINARY: Final = (".weights.bin", ".weights", ".bin")
ENDINGS: Final = (
    *(".weights.bin", ".weights", ".weights.txt", ".inc"),
    *(".weights.c", ".weights.h", ".weights.inc", "_weights.c", "_weights.h", "_weights.inc"),
)
"""Ends of the names of files with constants."""

PLAIN_ENDINGS: Final = (".bin", ".txt")
"""Ends of names that are looked for where there is no other file."""

_ITEM: Final = re.compile(r"\s*0[xX]([0-9a-fA-F]{1,2})\s*(?:,|\Z)", re.ASCII)
_ARRAY: Final = re.compile(r"\b(?:char|u?int8_t)\b[^;={]{1,240}\[[^\]]{0,40}\][^;={]{0,240}=\s{0,8}\{")
_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
_TEXT_PER_BYTE: Final = 16
_TEXT_BYTES: Final = 64 << 10


def read_weights(files: Mapping[str, bytes], size: int, faults: FaultCollector) -> bytes:
    """Read the constants of a bundle from ``files``, which must all hold the same ``size`` bytes.

    Args:
        files: content by name; the suffix of a name distinguishes binary from text.
        size: bytes of the constants, as the bundle states them.

    Returns:
        The constants; empty when there are none, or none that are usable, as ``faults`` say.
    """
    result: dict[str, bytes] = {}
    for name, data in files.items():
        if name.endswith(_BINARY):
            result[name] = data
        elif len(data) > _TEXT_BYTES + _TEXT_PER_BYTE * size:
            faults.add(name, f"the text is too long for {size} bytes of constants")
        else:
            read = parse_bytes(data.decode("latin-1"))
            if read is None:
                faults.add(name, "it is neither a list of bytes nor an array of them")
            else:
                result[name] = read
    first, wanted = "", b""
    for name, data in result.items():
        if len(data) != size:
            faults.add(name, f"it holds {len(data)} bytes; the constants of the bundle have {size}")
        elif not first:
            first, wanted = name, data
        elif data != wanted:
            at = next(i for i in range(size) if data[i] != wanted[i])
            faults.add(name, f"it differs from {first}, first in byte {at}")
    if size and not files:
        faults.add("weights", f"there is no file with the {size} bytes of constants")
    return wanted


def parse_bytes(text: str) -> bytes | None:
    """Read a list of bytes in C's notation, alone or as an array; None when it is neither."""
    bare = _COMMENT.sub(" ", text)
    if array := _ARRAY.search(bare):
        bare, closed, _ = bare[array.end() :].partition("}")
        if not closed:
            return None
    result, at = bytearray(), 0
    while item := _ITEM.match(bare, at):
        result.append(int(item[1], 16))
        at = item.end()
    return None if bare[at:].strip() else bytes(result)
