# SPDX-License-Identifier: Apache-2.0
"""Bounded reader of ELF files of unknown origin: sections, symbols, relocations, segments.

Every offset, size and count is checked before it is used, names have a bound, nothing is
decompressed and nothing is read twice: the work is linear in the file's size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec

MAX_SYMBOLS = 200_000
MAX_RELOCATIONS = 1_000_000
MAX_NAME_BYTES = 4096

ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
PT_LOAD = 1
SHT_SYMTAB = 2
SHT_RELA = 4
SHT_NOBITS = 8
SHT_REL = 9
SHT_DYNSYM = 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
PF_W = 2
SHN_UNDEF = 0
SHN_LORESERVE = 0xFF00
SHN_ABS = 0xFFF1
STB_LOCAL, STB_GLOBAL = 0, 1
STT_FUNC = 2

ELF_MAGIC = b"\x7fELF"
_MACHINES = {3: "x86", 8: "MIPS", 40: "ARM", 62: "x86-64", 94: "Xtensa", 183: "AArch64", 243: "RISC-V"}
_IDENT_BYTES = 16
_HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
_SEGMENT = {32: "8I", 64: "IIQQQQQQ"}
_SECTION = {32: "10I", 64: "IIQQQQIIQQ"}
_SYMBOL = {32: "IIIBBH", 64: "IBBHQQ"}
_RELOCATION = {32: {SHT_REL: "II", SHT_RELA: "IIi"}, 64: {SHT_REL: "QQ", SHT_RELA: "QQq"}}


class ElfFormatError(ValueError):
    """Malformed ELF file; the text gives the reason."""


class RawSection(msgspec.Struct, frozen=True, kw_only=True):
    """One section; ``data`` is empty for one that takes no space in the file."""

    name: str
    type: int
    flags: int
    address: int
    size: int
    link: int
    info: int
    entry_bytes: int
    data: memoryview


class RawSymbol(msgspec.Struct, frozen=True, kw_only=True):
    """One symbol; ``section`` is an index or one of the reserved numbers."""

    name: str
    value: int
    size: int
    binding: int
    type: int
    section: int

    @property
    def is_defined(self) -> bool:
        """True when this file defines the symbol."""
        return self.section != SHN_UNDEF and (self.section < SHN_LORESERVE or self.section >= SHN_ABS)


class RawRelocation(msgspec.Struct, frozen=True, kw_only=True):
    """One relocation of ``section`` at ``offset``; ``symbol`` is an index.

    Attributes:
        addend: as the table states it; None: it is in the bytes of the section.
    """

    section: int
    offset: int
    type: int
    symbol: int
    addend: int | None = None


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an image that is loaded.

    Attributes:
        address: where it runs.
        load_address: where its bytes lie before start-up copies them.
        size_bytes: in memory; what ``data`` does not reach is cleared.
        data: its bytes in the file; empty where they were not read.
    """

    address: int
    load_address: int
    size_bytes: int
    data: bytes = b""


class RawElf(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed file."""

    elf_class: int
    is_little_endian: bool
    type: int
    machine: int
    flags: int
    sections: tuple[RawSection, ...]
    symbols: tuple[RawSymbol, ...]
    relocations: tuple[RawRelocation, ...]
    segments: tuple[Segment, ...] = ()

    @property
    def machine_name(self) -> str:
        """``ARM``, ``x86-64`` and so on."""
        return machine_name(self.machine)


def machine_name(machine: int) -> str:
    """Name of ``e_machine`` for people: ``ARM``, ``x86-64`` and so on."""
    return _MACHINES.get(machine, f"machine {machine}")


def elf_type(head: bytes) -> int:
    """Type of an ELF file by its first 18 bytes, e.g. `ET_DYN`; 0 for any other file."""
    if len(head) < 18 or not head.startswith(ELF_MAGIC):
        return 0
    return int.from_bytes(head[16:18], "big" if head[5] == 2 else "little")


def read_elf(data: bytes, *, linked: bool = False) -> RawElf:
    """Parse an ELF file of either class and byte order.

    Args:
        linked: read the segments of a linked file, which may lack sections, and neither symbols nor
            relocations.

    Raises:
        ElfFormatError: it is none, it is cut off, or it is beyond the bounds of this module.
    """
    if len(data) < _IDENT_BYTES or data[:4] != ELF_MAGIC:
        raise ElfFormatError("it is not an ELF file")
    if data[4] not in (1, 2) or data[5] not in (1, 2):
        raise ElfFormatError("it is neither 32 nor 64 bit, or of unknown byte order")
    return _Reader(data).read(linked=linked)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.bits = 32 if data[4] == 1 else 64
        self.order = "<" if data[5] == 1 else ">"

    def read(self, *, linked: bool) -> RawElf:
        header = struct.Struct(self.order + _HEADER[self.bits])
        if len(self.data) < _IDENT_BYTES + header.size:
            raise ElfFormatError("it ends inside the header")
        fields = header.unpack_from(self.data, _IDENT_BYTES)
        elf_type, machine, _, _, segments_at, table_at, flags, _, size, number, entry, count, names_index = (
            fields
        )
        sections = () if linked and count == 0 else self._sections(table_at, entry, count, names_index)
        symbols = () if linked else self._symbols(sections)
        relocations = () if linked else tuple(self._relocations(sections, len(symbols)))
        return RawElf(
            elf_class=self.bits,
            is_little_endian=self.order == "<",
            type=elf_type,
            machine=machine,
            flags=flags,
            sections=sections,
            symbols=symbols,
            relocations=relocations,
            segments=self._segments(segments_at, size, number) if linked else (),
        )

    def _sections(self, table_at: int, entry: int, count: int, names_index: int) -> tuple[RawSection, ...]:
        layout = struct.Struct(self.order + _SECTION[self.bits])
        if count == 0 or count >= SHN_LORESERVE or entry != layout.size:
            raise ElfFormatError("it has no usable section table")
        if table_at + count * entry > len(self.data):
            raise ElfFormatError("its section table lies beyond its end")
        rows = list(layout.iter_unpack(self.data[table_at : table_at + count * entry]))
        for _, kind, _, _, offset, size, *_ in rows:
            if kind not in (0, SHT_NOBITS) and offset + size > len(self.data):
                raise ElfFormatError("a section lies beyond its end")
        if names_index >= count:
            raise ElfFormatError("its section names are missing")
        names = bytes(self._content(rows[names_index]))
        return tuple(
            RawSection(
                name=_name(names, row[0]),
                type=row[1],
                flags=row[2],
                address=row[3],
                size=row[5],
                link=row[6],
                info=row[7],
                entry_bytes=row[9],
                data=self._content(row),
            )
            for row in rows
        )

    def _segments(self, table_at: int, entry: int, count: int) -> tuple[Segment, ...]:
        layout = struct.Struct(self.order + _SEGMENT[self.bits])
        if count and (entry != layout.size or table_at + count * entry > len(self.data)):
            raise ElfFormatError("its segment table is malformed or lies beyond its end")
        rows = layout.iter_unpack(self.data[table_at : table_at + count * entry])
        result = []
        for row in rows:
            address, load_address, size = (row[2:4] + row[5:6]) if self.bits == 32 else (row[3:5] + row[6:7])
            if row[0] == PT_LOAD:
                result.append(Segment(address=address, load_address=load_address, size_bytes=size))
        return tuple(result)

    def _content(self, row: tuple[int, ...]) -> memoryview:
        if row[1] in (0, SHT_NOBITS):
            return self.data[:0]
        return self.data[row[4] : row[4] + row[5]]

    def _symbols(self, sections: tuple[RawSection, ...]) -> tuple[RawSymbol, ...]:
        layout = struct.Struct(self.order + _SYMBOL[self.bits])
        tables = [section for section in sections if section.type == SHT_SYMTAB]
        tables = tables or [section for section in sections if section.type == SHT_DYNSYM]
        if not tables:
            return ()
        table = tables[0]
        if len(tables) > 1 or table.entry_bytes != layout.size or table.size % layout.size:
            raise ElfFormatError("its symbol table is malformed")
        if table.size // layout.size > MAX_SYMBOLS:
            raise ElfFormatError(f"it has more than {MAX_SYMBOLS} symbols")
        if table.link >= len(sections):
            raise ElfFormatError("its symbol names are missing")
        names = bytes(sections[table.link].data)
        symbols = []
        for row in layout.iter_unpack(table.data):
            if self.bits == 32:
                name, value, size, info, _, section = row
            else:
                name, info, _, section, value, size = row
            if section < SHN_LORESERVE and section >= len(sections):
                raise ElfFormatError("a symbol is in a section that does not exist")
            symbols.append(
                RawSymbol(
                    name=_name(names, name),
                    value=value,
                    size=size,
                    binding=info >> 4,
                    type=info & 15,
                    section=section,
                )
            )
        return tuple(symbols)

    def _relocations(self, sections: tuple[RawSection, ...], symbols: int) -> Iterator[RawRelocation]:
        shift = 8 if self.bits == 32 else 32
        left = MAX_RELOCATIONS
        for section in sections:
            form = _RELOCATION[self.bits].get(section.type)
            if form is None:
                continue
            layout = struct.Struct(self.order + form)
            if (
                section.entry_bytes != layout.size
                or section.size % layout.size
                or section.info >= len(sections)
            ):
                raise ElfFormatError("a relocation section is malformed")
            left -= section.size // layout.size
            if left < 0:
                raise ElfFormatError(f"it has more than {MAX_RELOCATIONS} relocations")
            for offset, info, *addend in layout.iter_unpack(section.data):
                if info >> shift >= symbols:
                    raise ElfFormatError("a relocation names a symbol that does not exist")
                yield RawRelocation(
                    section=section.info,
                    offset=offset,
                    type=info & ((1 << shift) - 1),
                    symbol=info >> shift,
                    addend=addend[0] if addend else None,
                )


def load_address(address: int, segments: Sequence[Segment]) -> int:
    """The address that the byte at ``address`` is loaded to before start-up copies it."""
    for segment in segments:
        if segment.address <= address < segment.address + segment.size_bytes:
            return segment.load_address + address - segment.address
    return address


def _name(names: bytes, offset: int) -> str:
    """The string at ``offset`` of a string table; what is not ASCII becomes a question mark."""
    if offset == 0 and not names:
        return ""
    if offset >= len(names):
        raise ElfFormatError("a name lies outside its string table")
    end = names.find(b"\0", offset, offset + MAX_NAME_BYTES)
    if end < 0:
        raise ElfFormatError(f"a name does not end within {MAX_NAME_BYTES} bytes")
    return names[offset:end].decode("ascii", "replace")
