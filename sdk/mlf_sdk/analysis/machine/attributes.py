# SPDX-License-Identifier: Apache-2.0
"""Sections of build attributes, whose form architectures share: tags with numbers or texts, by vendor.

Source: "Addenda to, and errata in, the ABI for the Arm architecture"; the RISC-V ELF psABI took it over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mlf_sdk.analysis.machine.registry import AttributesError

COMPATIBILITY: Final = 32
"""The tag that has both a number and a text."""

Tags = dict[int, int | str]
IsText = Callable[[int], bool]
_FILE_SCOPE = 1
_MAX_TAGS = 256


def read_tags(data: memoryview, byte_order: str, *, vendor: str, is_text: IsText) -> Tags:
    """Read the tags of the whole file in a section of attributes.

    Args:
        byte_order: ``little`` or ``big``.
        vendor: whose tags; others are skipped.
        is_text: whether a tag has a text; else a number.

    Raises:
        AttributesError: it is malformed.
    """
    content = bytes(data)
    if content[:1] != b"A":
        raise AttributesError("the build attributes are of an unknown version")
    tags: Tags = {}
    position = 1
    while position < len(content):
        end = position + _length(content, position, byte_order, 4)
        result, start = _string(content, position + 4, end)
        if result == vendor:
            _read_vendor(content, start, end, byte_order, is_text, tags)
        position = end
    return tags


def _read_vendor(content: bytes, position: int, end: int, order: str, is_text: IsText, tags: Tags) -> None:
    while position < end:
        scope, after = _uleb(content, position, end)
        size = _length(content, after, order, after + 4 - position)
        if position + size > end:
            raise AttributesError("a group of build attributes lies beyond its section")
        if scope == _FILE_SCOPE:
            _read_group(content, after + 4, position + size, is_text, tags)
        position += size


def _read_group(content: bytes, position: int, end: int, is_text: IsText, tags: Tags) -> None:
    while position < end:
        tag, position = _uleb(content, position, end)
        value: int | str
        if tag == COMPATIBILITY:
            value, position = _uleb(content, position, end)
            _, position = _string(content, position, end)
        elif is_text(tag):
            value, position = _string(content, position, end)
        else:
            value, position = _uleb(content, position, end)
        tags[tag] = value
        if len(tags) > _MAX_TAGS:
            raise AttributesError("there are too many build attributes")


def _length(content: bytes, position: int, order: str, least: int) -> int:
    """A 32-bit length that counts from before itself and stays inside the section."""
    if position + 4 > len(content):
        raise AttributesError("the build attributes are cut off")
    size = int.from_bytes(content[position : position + 4], "little" if order == "little" else "big")
    if size < least or size > len(content):
        raise AttributesError("a length in the build attributes is wrong")
    return size


def _string(content: bytes, position: int, end: int) -> tuple[str, int]:
    stop = content.find(b"\0", position, min(end, position + 256))
    if stop < 0:
        raise AttributesError("a text in the build attributes does not end")
    return content[position:stop].decode("ascii", "replace"), stop + 1


def _uleb(content: bytes, position: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= min(end, len(content)):
            break
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise AttributesError("a number in the build attributes does not end")
