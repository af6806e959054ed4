# SPDX-License-Identifier: Apache-2.0
"""The configuration of a bundle with the dynamic API: two structs in an object or in a linked image.

All fields are 64 bits wide on every machine, but for pointers, which take the machine's width and are padded.
In an object a pointer is a relocation, whose addend lies in the section (REL) or in the table (RELA); in a
linked image it is the address. The table's symbol gives the number of rows: ``numSymbols`` counts constants
as well in bundles of 2018 and 2019.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from mlf_sdk.analysis.elf.raw import (
    ET_REL,
    SHN_LORESERVE,
    SHN_UNDEF,
    STB_LOCAL,
    RawElf,
    RawSymbol,
)
from mlf_sdk.frontends.glow.bundle import ALIGNMENT, MAX_BYTES, MAX_PLACEHOLDERS, Memory, Placeholder

SUFFIX: Final = "_config"
_CONFIG_BYTES: Final = 48
_EARLY_BYTES: Final = 24  # three sizes, in the first bundles
_ROW_BYTES: Final = 32
_POINTER_AT: Final = 40
_MAX_NAME_BYTES: Final = 1024
_MAX_STATED: Final = 1 << 20


class ConfigError(ValueError):
    """Malformed configuration; the text gives the reason."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration: name of the bundle, sizes, and placeholders without types."""

    bundle: str
    memory: Memory
    placeholders: tuple[Placeholder, ...]


class _Place(msgspec.Struct, frozen=True):
    """A byte of a section: index of the section, offset."""

    section: int
    offset: int


def config_symbols(elf: RawElf) -> tuple[RawSymbol, ...]:
    """Symbols that name a configuration: global objects called ``NAME_config`` of a possible size."""
    return tuple(
        symbol
        for symbol in elf.symbols
        if symbol.name.endswith(SUFFIX)
        and symbol.binding != STB_LOCAL
        and symbol.section not in range(SHN_LORESERVE, 1 << 16)
        and symbol.section != SHN_UNDEF
        and symbol.size in (_CONFIG_BYTES, _EARLY_BYTES)
    )


def read_config(elf: RawElf, symbol: RawSymbol) -> Config:
    """Read the configuration that ``symbol`` names.

    Raises:
        ConfigError: it is malformed.
    """
    return _Reader(elf).config(symbol)


class _Reader:
    """Structs of one file, and the pointers in them."""

    def __init__(self, elf: RawElf) -> None:
        self.elf = elf
        self.order = "<" if elf.is_little_endian else ">"
        self.pointer = struct.Struct(self.order + ("I" if elf.elf_class == 32 else "Q"))
        self.relocations = {(r.section, r.offset): r for r in elf.relocations}
        self.is_linked = elf.type != ET_REL

    def config(self, symbol: RawSymbol) -> Config:
        name = symbol.name.removesuffix(SUFFIX)
        place = _Place(symbol.section, symbol.value - self.elf.sections[symbol.section].address)
        data = self._bytes(place, symbol.size, "the configuration")
        sizes = struct.unpack_from(f"{self.order}3Q", data)
        placeholders: tuple[Placeholder, ...] = ()
        alignment = ALIGNMENT
        if symbol.size == _CONFIG_BYTES:
            alignment, stated = struct.unpack_from(f"{self.order}2Q", data, 24)
            table = self._follow(_Place(place.section, place.offset + _POINTER_AT))
            placeholders = tuple(self._rows(table, self._count(table, stated)))
        memory = Memory(constant=sizes[0], mutable=sizes[1], activations=sizes[2], alignment=alignment)
        return Config(bundle=name, memory=memory, placeholders=placeholders)

    def _count(self, table: _Place, stated: int) -> int:
        """Rows of the table: by the size of its symbol, else as the configuration states it."""
        address = self.elf.sections[table.section].address + table.offset
        known = [
            symbol.size
            for symbol in self.elf.symbols
            if symbol.section == table.section and symbol.value == address and symbol.size
        ]
        rows = stated if not known else max(known) // _ROW_BYTES
        if stated < rows or stated > _MAX_STATED:
            raise ConfigError(f"numSymbols is {stated}; the table has {rows} rows")
        if rows > MAX_PLACEHOLDERS:
            raise ConfigError(f"the table has {rows} rows; at most {MAX_PLACEHOLDERS} are read")
        self._bytes(table, rows * _ROW_BYTES, f"the table of {rows} symbols")
        return rows

    def _rows(self, table: _Place, count: int) -> Iterator[Placeholder]:
        for row in range(count):
            place = _Place(table.section, table.offset + row * _ROW_BYTES)
            data = self._bytes(place, _ROW_BYTES, "a row")
            offset, elements, kind = struct.unpack_from(f"{self.order}QQB", data, 8)
            if kind > 1:
                raise ConfigError(f"row {row} of the table is of the unknown kind {kind}")
            if kind == 0:
                continue  # a constant, in bundles of early 2018
            name = self._text(self._follow(place))
            if max(offset, elements) > MAX_BYTES:
                raise ConfigError(f"row {row} of the table has a size or offset beyond {MAX_BYTES}")
            yield Placeholder(name=name, offset=offset, elements=elements, type=None)

    def _follow(self, place: _Place) -> _Place:
        """The place that the pointer at ``place`` names."""
        width = self.pointer.size
        stored = self.pointer.unpack(self._bytes(place, width, "a pointer"))[0]
        if self.is_linked:
            return self._at_address(stored)
        relocation = self.relocations.get((place.section, place.offset))
        if relocation is None:
            raise ConfigError(f"the pointer at offset {place.offset} has no relocation")
        symbol = self.elf.symbols[relocation.symbol]
        if symbol.section == SHN_UNDEF or symbol.section >= SHN_LORESERVE:
            raise ConfigError(f"the pointer at offset {place.offset} leads out of the object")
        addend = stored if relocation.addend is None else relocation.addend
        return _Place(symbol.section, symbol.value + addend)

    def _at_address(self, address: int) -> _Place:
        for index, section in enumerate(self.elf.sections):
            if section.address and section.address <= address < section.address + len(section.data):
                return _Place(index, address - section.address)
        raise ConfigError(f"a pointer names the address {address:#x}, where nothing is")

    def _bytes(self, place: _Place, size: int, what: str) -> bytes:
        data = self.elf.sections[place.section].data
        if not 0 <= place.offset <= len(data) - size:
            raise ConfigError(f"{what} at offset {place.offset} lies outside its section")
        return bytes(data[place.offset : place.offset + size])

    def _text(self, place: _Place) -> str:
        data = bytes(self.elf.sections[place.section].data[max(place.offset, 0) :][: _MAX_NAME_BYTES + 1])
        end = data.find(b"\0")
        name = data[: max(end, 0)].decode("latin-1")
        if place.offset < 0 or not name or not name.isprintable():
            raise ConfigError(f"the name at offset {place.offset} is empty, unprintable or does not end")
        return name
