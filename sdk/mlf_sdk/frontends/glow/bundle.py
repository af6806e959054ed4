# SPDX-License-Identifier: Apache-2.0
"""A bundle as its files state it, before anything is concluded from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.glow.types import PlaceholderType
from mlf_sdk.tools.checks import shown

ALIGNMENT: Final = 64
"""Bytes to which offsets and sizes are rounded."""

MAX_BYTES: Final = 256 << 20
MAX_PLACEHOLDERS: Final = 4096


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the three memories of a bundle, in bytes."""

    constant: int
    mutable: int
    activations: int
    alignment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """An input or output: where it lies in the mutable memory.

    Attributes:
        name: as a C identifier.
        offset: bytes.
        elements: number of elements.
        type: None: the bundle does not state it.
    """

    name: str
    offset: int
    elements: int
    type: PlaceholderType | None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A function of a bundle; ``result`` is ``int`` or ``void``."""

    name: str
    result: str


def check_memory(memory: Memory, member: str, faults: FaultCollector) -> None:
    """Check sizes: rounded, bounded, and an alignment that the image can give."""
    for name in ("constant", "mutable", "activations"):
        size = getattr(memory, name)
        if size % ALIGNMENT:
            faults.add(member, f"the size of the {name} memory, {size}, is not a multiple of {ALIGNMENT}")
        if size > MAX_BYTES:
            faults.add(member, f"the size of the {name} memory, {size}, is more than {MAX_BYTES}")
    if memory.alignment not in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        faults.add(member, f"the alignment {memory.alignment} is not a power of two up to 256")


def check_placeholders(
    placeholders: Iterable[Placeholder], memory: Memory, member: str, faults: FaultCollector
) -> None:
    """Check that placeholders lie within the mutable memory, each for itself, and have names of their own."""
    end, last = 0, ""
    seen: set[str] = set()
    for result in sorted(placeholders, key=lambda p: p.offset):
        name = shown(result.name)
        # Without a type, an element has at least one byte.
        size = result.elements if result.type is None else result.type.size_bytes
        if result.name in seen:
            faults.add(member, f"two placeholders are called {name}")
        seen.add(result.name)
        if result.offset % ALIGNMENT:
            faults.add(member, f"the offset {result.offset} of {name} is not a multiple of {ALIGNMENT}")
        if result.offset < end:
            faults.add(member, f"{name} overlaps {last}")
        if result.offset + size > memory.mutable:
            faults.add(
                member,
                f"{name} ends at byte {result.offset + size}; the mutable memory has {memory.mutable}",
            )
        end, last = result.offset + size, name
