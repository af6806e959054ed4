# SPDX-License-Identifier: Apache-2.0
"""A linked Thumb image as counting needs it: its functions without gaps, and where they call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from mlf_sdk.analysis.elf.image import Image, Symbol, read_image

_SHF_ALLOC, _SHF_EXECINSTR = 0x2, 0x4
_WIDE = (0b11101, 0b11110, 0b11111)  # top five bits of the first half of a 32-bit instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function; ``names`` are all symbols of its address."""

    names: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call instruction; ``target`` is None when it goes through a register.

    A jump to another function (``is_tail``) does not come back: the other function returns for this one.
    """

    address: int
    after: int
    target: int | None
    is_tail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """An image, its functions by address, and the bytes of its sections: those with code, and all."""

    elf: Path
    image: Image
    functions: tuple[Function, ...]
    code: tuple[tuple[int, bytes], ...]
    blocks: tuple[tuple[int, bytes], ...] = ()

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
        """Where the callee ``name`` returns to: the addresses after all direct calls of it.

        A function that ends with a jump to it hands on where it returns to itself.
        """
        found: dict[int, None] = {}
        seen: set[int] = set()
        waiting = [self.address(name)]
        while waiting:
            callee = waiting.pop()
            if callee in seen:
                continue
            seen.add(callee)
            for function in self.functions:
                for call in self.calls(function):
                    if call.target != callee:
                        continue
                    if call.is_tail and function.start != callee:
                        waiting.append(function.start)
                    elif not call.is_tail:
                        found[call.after] = None
        return tuple(found)

    def handlers(self, table: str = "mlf_vectors") -> frozenset[str]:
        """Functions that run in interrupts only: those in the table of vectors, and what only they call.

        Empty when there is no such table.
        """
        symbol = next((s for s in self.image.symbols if s.name == table), None)
        if symbol is None:
            return frozenset()
        data = next(
            (
                data[symbol.address - base : symbol.address - base + symbol.size_bytes]
                for base, data in self.blocks
                if base <= symbol.address < base + len(data)
            ),
            b"",
        )
        # behind the stack pointer and the entry after reset
        words = {int.from_bytes(data[i : i + 4], "little") & ~1 for i in range(8, len(data), 4)}
        found = {f.start for f in self.functions if f.start in words}
        callers: dict[int, set[int]] = {}
        for function in self.functions:
            for call in self.calls(function):
                if call.target is not None:
                    callers.setdefault(call.target, set()).add(function.start)
        while more := {callee for callee, by in callers.items() if by <= found} - found:
            found |= more
        return frozenset(f.names[0] for f in self.functions if f.start in found)


def read_firmware(elf: Path) -> Firmware:
    """Read a linked image for a Cortex-M CPU.

    Raises:
        InputError: it is no ELF file.
    """
    image = read_image(elf)
    with elf.open("rb") as stream:
        sections = [
            (section["sh_addr"], section.data(), bool(section["sh_flags"] & _SHF_EXECINSTR))
            for section in ELFFile(stream).iter_sections()
            if section["sh_type"] == "SHT_PROGBITS" and section["sh_flags"] & _SHF_ALLOC
        ]
    code = tuple((base, data) for base, data, is_code in sections if is_code)
    blocks = tuple((base, data) for base, data, _ in sections)
    return Firmware(elf=elf, image=image, functions=tuple(_functions(image, code)), code=code, blocks=blocks)


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
    """Calls in the Thumb code of a function that starts at ``address``.

    These are ``bl <label>`` and ``blx <register>``, and the jumps ``b.w`` and ``b`` that leave the function.
    """
    at = 0
    end = address + len(code)
    while at + 2 <= len(code):
        first = int.from_bytes(code[at : at + 2], "little")
        second = int.from_bytes(code[at + 2 : at + 4], "little")
        size = 4 if first >> 11 in _WIDE else 2
        here, after = address + at, address + at + size
        if size == 2 and first & 0xFF87 == 0x4780:
            yield Call(address=here, after=after, target=None)
        elif first >> 11 == 0b11110 and second & 0xD000 == 0xD000:
            yield Call(address=here, after=after, target=here + 4 + _branch_offset(first, second))
        else:
            target = _jump_target(here, first, second)
            if target is not None and not address <= target < end:
                yield Call(address=here, after=after, target=target, is_tail=True)
        at += size


def _jump_target(here: int, first: int, second: int) -> int | None:
    if first >> 11 == 0b11100:  # b
        offset = (first & 0x7FF) << 1
        return here + 4 + offset - (1 << 12 if offset & 0x800 else 0)
    if first >> 11 == 0b11110 and second & 0xD000 == 0x9000:  # b.w
        return here + 4 + _branch_offset(first, second)
    return None


def _branch_offset(first: int, second: int) -> int:
    sign = first >> 10 & 1
    high = 1 - (second >> 13 & 1 ^ sign)
    low = 1 - (second >> 11 & 1 ^ sign)
    offset = (high << 23) | (low << 22) | ((first & 0x3FF) << 12) | ((second & 0x7FF) << 1)
    return offset - (1 << 24 if sign else 0)
