# SPDX-License-Identifier: Apache-2.0
"""A linked Thumb image as counting needs it: its functions without gaps, and where they call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from mlf_sdk.verify.image import Image, Symbol, read_image

_WIDE = (0b11101, 0b11110, 0b11111)  # top five bits of the first half of a 32-bit instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function; ``names`` are all symbols of its address."""

    names: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call instruction; ``target`` is None when it goes through a register."""

    address: int
    after: int
    target: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """An image, its functions by address, and the bytes of its sections with code."""

    elf: Path
    image: Image
    functions: tuple[Function, ...]
    code: tuple[tuple[int, bytes], ...]

    def function(self, name: str) -> Function | None:
        """The function ``name``; None when it is not linked."""
        return next((f for f in self.functions if name in f.names), None)

    def address(self, name: str) -> int:
        """The first instruction of the function ``name``.

        Raises:
            LookupError: it is not linked.
        """
        found = self.function(name)
        if found is None:
            raise LookupError(f"{self.elf.name} has no function {name}")
        return found.start

    def calls(self, function: Function) -> Iterator[Call]:
        """All calls in ``function``."""
        for base, data in self.code:
            if base <= function.start < base + len(data):
                yield from thumb_calls(data[function.start - base : function.end - base], function.start)

    def returns_of(self, name: str) -> tuple[int, ...]:
        """Where the callee ``name`` returns to: the addresses after all direct calls of it."""
        callee = self.address(name)
        return tuple(
            call.after
            for function in self.functions
            for call in self.calls(function)
            if call.target == callee
        )


def read_firmware(elf: Path) -> Firmware:
    """Read a linked image for a Cortex-M CPU."""
    image = read_image(elf)
    with elf.open("rb") as stream:
        code = tuple(
            (section["sh_addr"], section.data())
            for section in ELFFile(stream).iter_sections()
            if section["sh_type"] == "SHT_PROGBITS" and section["sh_flags"] & 0x4
        )
    return Firmware(elf=elf, image=image, functions=tuple(_functions(image, code)), code=code)


def _functions(image: Image, code: tuple[tuple[int, bytes], ...]) -> Iterator[Function]:
    """One function for each address; one without a size, or with too large a size, ends with the next."""
    by_address: dict[int, list[Symbol]] = {}
    for symbol in image.symbols:
        if symbol.is_function:
            by_address.setdefault(symbol.address, []).append(symbol)
    starts = sorted(by_address)
    for index, start in enumerate(starts):
        section_end = next((base + len(data) for base, data in code if base <= start < base + len(data)), 0)
        limit = min(section_end, *starts[index + 1 : index + 2] or [section_end])
        size = max(symbol.size_bytes for symbol in by_address[start])
        end = min(start + size, limit) if size else limit
        if end > start:
            names = sorted((s.name for s in by_address[start]), key=lambda name: (name.startswith("_"), name))
            yield Function(names=tuple(names), start=start, end=end)


def thumb_calls(code: bytes, address: int) -> Iterator[Call]:
    """The instructions ``bl <label>`` and ``blx <register>`` in Thumb code that starts at ``address``."""
    at = 0
    while at + 2 <= len(code):
        first = int.from_bytes(code[at : at + 2], "little")
        second = int.from_bytes(code[at + 2 : at + 4], "little")
        size = 4 if first >> 11 in _WIDE else 2
        here, after = address + at, address + at + size
        if size == 2 and first & 0xFF87 == 0x4780:
            yield Call(address=here, after=after, target=None)
        elif first >> 11 == 0b11110 and second & 0xD000 == 0xD000:
            yield Call(address=here, after=after, target=here + 4 + _branch_offset(first, second))
        at += size


def _branch_offset(first: int, second: int) -> int:
    sign = first >> 10 & 1
    high = 1 - (second >> 13 & 1 ^ sign)
    low = 1 - (second >> 11 & 1 ^ sign)
    offset = (high << 23) | (low << 22) | ((first & 0x3FF) << 12) | ((second & 0x7FF) << 1)
    return offset - (1 << 24 if sign else 0)
