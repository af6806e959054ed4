# SPDX-License-Identifier: Apache-2.0
"""A linked image: sections, segments, symbols, functions and bytes.

Addresses of functions carry no bit that tells the instruction set.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mlf_sdk.analysis.elf.raw import Segment
from mlf_sdk.analysis.machine.registry import BuildAttributes
from mlf_sdk.tools.isas import Isa, load_isas

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.debuginfo import DebugInfo


class Symbol(msgspec.Struct, frozen=True, kw_only=True):
    """A defined symbol.

    Attributes:
        section: name of the section that it lies in.
        file: of a local symbol: its source file, without the folder; else empty.
        is_weak: another definition of the name may take its place.
    """

    name: str
    address: int
    size_bytes: int
    is_function: bool
    is_object: bool
    section: str
    file: str = ""
    is_weak: bool = False

    @property
    def end(self) -> int:
        """End address (exclusive)."""
        return self.address + self.size_bytes


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section that takes memory on the target.

    Attributes:
        load_address: where its bytes lie before start-up copies them.
        in_file: the file holds its bytes; else it is only reserved.
        writable: its own flags say so, and those of the segment that it is loaded with.
    """

    name: str
    address: int
    load_address: int
    size_bytes: int
    in_file: bool
    writable: bool = False
    executable: bool = False

    @property
    def end(self) -> int:
        """End address (exclusive)."""
        return self.address + self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function.

    Attributes:
        names: of all its symbols: weak ones last, those without a leading underscore first.
        end: the address behind it; without a stated size: where the next function begins.
        limit: the address behind the bytes that are its own: ``end``, or where the next function begins.
    """

    names: tuple[str, ...]
    address: int
    end: int
    limit: int

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Image:
    """A linked ELF file.

    Attributes:
        machine: as ELF calls it, e.g. ``EM_ARM``.
        symbols: by address and name.
        segments: parts that are loaded, with their bytes.
        entry: the address where it begins.
        marks: addresses at which code (True) or data (False) begins inside sections of code, in order.
        attributes: build attributes; None where there are none.
        relocated: addresses of the words that the linker wrote addresses into; None where it did not keep
            its relocations (``--emit-relocs``).
        content: bytes of the file.
        elf_class: 32 or 64.
    """

    path: Path
    machine: str
    symbols: tuple[Symbol, ...]
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...] = ()
    entry: int = 0
    marks: tuple[tuple[int, bool], ...] = ()
    attributes: BuildAttributes | None = None
    relocated: frozenset[int] | None = None
    content: bytes = field(default=b"", repr=False)
    elf_class: int = 32

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: derived values are computed again after unpickling."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def isa(self) -> Isa | None:
        """The architecture, as far as it is known."""
        return isa_of(self.machine, self.elf_class)

    @cached_property
    def _by_name(self) -> dict[str, Symbol]:
        return {s.name: s for s in reversed(self.symbols)}

    @cached_property
    def functions(self) -> dict[int, Function]:
        """All functions by address, in order."""
        return {f.address: f for f in self._functions()}

    @cached_property
    def _starts(self) -> list[int]:
        return list(self.functions)

    @cached_property
    def _objects(self) -> list[Symbol]:
        return [s for s in self.symbols if s.is_object and s.size_bytes]

    @cached_property
    def debug(self) -> DebugInfo:
        """Sources, lines and frames, as far as the image has debug information."""
        from mlf_sdk.analysis.elf.debuginfo import DebugInfo

        isa = self.isa
        registers = (isa.stack_register, isa.return_register) if isa is not None else (-1, -1)
        return DebugInfo(io.BytesIO(self.content), registers)

    def find(self, name: str) -> Symbol | None:
        """The symbol called ``name``, or None when it is not linked."""
        return self._by_name.get(name)

    def address_of(self, function: str) -> int:
        """The first instruction of a function.

        Raises:
            LookupError: it is not linked.
        """
        symbol = self.find(function)
        if symbol is None or not symbol.is_function:
            raise LookupError(f"{self.path.name} has no function {function}")
        return symbol.address

    def section_at(self, address: int) -> Section | None:
        """The section that the file holds for an address."""
        return next((s for s in self.sections if s.in_file and s.address <= address < s.end), None)

    def bytes_at(self, address: int, size: int) -> bytes:
        """``size`` bytes that are loaded to run at an address; fewer where a segment ends."""
        for segment in self.segments:
            offset = address - segment.address
            if 0 <= offset < len(segment.data):
                return segment.data[offset : offset + size]
        return b""

    def word(self, address: int) -> int | None:
        """The word of 32 bits at an address; None outside."""
        data = self.bytes_at(address, 4)
        return int.from_bytes(data, "little") if len(data) == 4 else None

    def words(self, start: int, end: int) -> tuple[int, ...]:
        """Words of 32 bits that lie aligned from ``start`` to ``end``."""
        first = (start + 3) & ~3
        data = self.bytes_at(first, max(0, end - first))
        return struct.unpack_from(f"<{len(data) // 4}I", data)

    def addresses(self, start: int, end: int) -> tuple[int, ...]:
        """Aligned words from ``start`` to ``end`` that may hold addresses: those that the linker relocated.

        Where an image does not say which, all of them: a number or a piece of text may look like one.
        """
        words, relocated = self.words(start, end), self.relocated
        if relocated is None:
            return words
        return tuple(word for at, word in enumerate(words) if ((start + 3) & ~3) + 4 * at in relocated)

    def is_constant(self, address: int) -> bool:
        """True when the contents at an address cannot change."""
        section = self.section_at(address)
        return section is not None and section.load_address == section.address

    def is_code(self, address: int) -> bool:
        """True when the image has code at an address."""
        section = self.section_at(address)
        return section is not None and section.executable

    def function_at(self, address: int) -> Function | None:
        """The function that an address lies in, the innermost of several."""
        index = bisect_right(self._starts, address)
        for start in reversed(self._starts[max(0, index - 8) : index]):
            if address < self.functions[start].end:
                return self.functions[start]
        return None

    def object_at(self, address: int) -> Symbol | None:
        """The object (variable or constant) that an address lies in."""
        index = bisect_right(self._objects, address, key=lambda s: s.address) - 1
        result = self._objects[index] if index >= 0 else None
        return result if result is not None and address < result.end else None

    def _functions(self) -> Iterator[Function]:
        by_address: dict[int, list[Symbol]] = {}
        for symbol in self.symbols:
            if symbol.is_function:
                by_address.setdefault(symbol.address, []).append(symbol)
        starts = [*by_address]
        for start, after in zip(starts, [*starts[1:], None], strict=True):
            section = self.section_at(start)
            limit = section.end if section is not None else start
            limit = limit if after is None else min(limit, after)
            symbols = sorted(by_address[start], key=lambda s: (s.is_weak, s.name.startswith("_"), s.name))
            size = max(s.size_bytes for s in symbols)
            end = start + size if size else limit
            names = tuple(dict.fromkeys(s.name for s in symbols))
            yield Function(names=names, address=start, end=end, limit=min(end, limit))


def isa_of(machine: str, elf_class: int) -> Isa | None:
    """The architecture that an ELF header names; None where it is unknown."""
    isas = (isa for isa in load_isas().values() if isa.elf_name == machine)
    return next(isas, None) if elf_class == 32 else None
