# SPDX-License-Identifier: Apache-2.0
"""A linked image, read once: sections, segments, symbols, functions and bytes.

For files that were built here (pyelftools reads them); files of unknown origin go through ``raw``.
Addresses of functions carry no bit that tells the instruction set.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

import msgspec

from mlf_sdk.analysis.elf.raw import PF_W, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, Segment, load_address
from mlf_sdk.analysis.machine.registry import AttributesError, BuildAttributes, analysis_of
from mlf_sdk.errors import InputError
from mlf_sdk.tools.isas import Isa, load_isas

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

    from mlf_sdk.analysis.elf.debuginfo import DebugInfo

_DATA_MARK = "$d"  # mapping symbol of every ABI that has such: data begins here, in a section of code


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
    content: bytes = field(default=b"", repr=False)
    elf_class: int = 32

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: derived values are computed again after unpickling."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def isa(self) -> Isa | None:
        """The architecture, as far as it is known."""
        return _isa_of(self.machine, self.elf_class)

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


def read_image(path: Path) -> Image:
    """Read a linked ELF file that was built here.

    Raises:
        InputError: it is missing or no ELF file.
    """
    from elftools.common.exceptions import ELFError

    hint = "Build the project first: mlf-sdk build DIR"
    if not path.exists():
        raise InputError("no such image: the project is not built", where=str(path), hint=hint)
    try:
        return _parsed(path, path.read_bytes(), get_ident())
    except (ELFError, AttributesError, OSError) as error:
        raise InputError(
            f"can't read the image: not an ELF file, or cut off: {error}", where=str(path), hint=hint
        ) from error


@lru_cache(maxsize=8)
def _parsed(path: Path, content: bytes, _thread: int) -> Image:
    """Parse an image once a thread; the reader of its lines has a position, so threads share none."""
    from elftools.elf.elffile import ELFFile

    return _read(path, content, ELFFile(io.BytesIO(content)))


def _read(path: Path, content: bytes, elf: ELFFile) -> Image:
    segments = tuple(
        Segment(
            address=s["p_vaddr"], load_address=s["p_paddr"], size_bytes=s["p_memsz"], data=bytes(s.data())
        )
        for s in elf.iter_segments("PT_LOAD")
    )
    fixed = [s for s in elf.iter_segments("PT_LOAD") if not s["p_flags"] & PF_W]
    isa = _isa_of(elf["e_machine"], elf.elfclass)
    attributes = elf.get_section_by_name(isa.attributes_section) if isa is not None else None
    symbols = list(_symbols(elf, isa))
    # Sections of code alone: .debug_frame has $d as well.
    code = {s.name for s in elf.iter_sections() if s["sh_flags"] & SHF_EXECINSTR}
    kinds = {_DATA_MARK: False, **({isa.code_mark: True} if isa is not None else {})}
    mapping = ((s.address, kinds.get(s.name.split(".")[0])) for s in symbols if s.section in code)
    marks = {address: is_code for address, is_code in mapping if is_code is not None}
    return Image(
        path=path,
        machine=elf["e_machine"],
        symbols=tuple(sorted(symbols, key=lambda s: (s.address, s.name))),
        sections=tuple(
            Section(
                name=section.name,
                address=section["sh_addr"],
                load_address=load_address(section["sh_addr"], segments),
                size_bytes=section["sh_size"],
                in_file=section["sh_type"] != "SHT_NOBITS",
                writable=bool(section["sh_flags"] & SHF_WRITE)
                and not any(s.section_in_segment(section) for s in fixed),
                executable=bool(section["sh_flags"] & SHF_EXECINSTR),
            )
            for section in elf.iter_sections()
            if section["sh_flags"] & SHF_ALLOC and section["sh_size"]
        ),
        segments=segments,
        entry=elf["e_entry"] & ~1,
        marks=tuple(sorted(marks.items())),
        attributes=_read_attributes(isa, attributes.data()) if attributes and isa is not None else None,
        content=content,
        elf_class=elf.elfclass,
    )


def _isa_of(machine: str, elf_class: int) -> Isa | None:
    isas = (isa for isa in load_isas().values() if isa.elf_name == machine)
    return next(isas, None) if elf_class == 32 else None


def _read_attributes(isa: Isa, data: bytes) -> BuildAttributes:
    return analysis_of(isa).read_attributes(memoryview(data), "little")


def _symbols(elf: ELFFile, isa: Isa | None) -> Iterator[Symbol]:
    bit = isa.code_bit if isa is not None else 0
    table: Any

    @cache  # pyelftools reads a section anew each time it is asked for
    def section_name(index: int) -> str:
        return str(elf.get_section(index).name)

    for table in elf.iter_sections("SHT_SYMTAB"):
        file = ""  # its local symbols follow
        for symbol in table.iter_symbols():
            index, kind, binding = symbol["st_shndx"], symbol["st_info"]["type"], symbol["st_info"]["bind"]
            if kind == "STT_FILE":
                file = symbol.name
            if kind not in ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE") or not symbol.name:
                continue
            if isinstance(index, int):
                is_function = kind == "STT_FUNC"
                yield Symbol(
                    name=symbol.name,
                    address=symbol["st_value"] & ~bit if is_function else symbol["st_value"],
                    size_bytes=symbol["st_size"],
                    is_function=is_function,
                    is_object=kind == "STT_OBJECT",
                    section=section_name(index),
                    file=file if binding == "STB_LOCAL" else "",
                    is_weak=binding == "STB_WEAK",
                )
