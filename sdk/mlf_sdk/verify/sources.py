# SPDX-License-Identifier: Apache-2.0
"""Which source file each symbol of a linked image came from, and which compilers made it."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mlf_sdk.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A compiled file: its path as the compiler saw it, and what the compiler says of itself."""

    path: str
    producer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the code of an image came from; all of it empty without debug information.

    Attributes:
        ranges: (start, end, path) of code, by address, without overlap.
        local_files: (address, symbol) of every local symbol -> name of its file, without its folder.
    """

    units: tuple[Unit, ...] = ()
    ranges: tuple[tuple[int, int, str], ...] = ()
    local_files: Mapping[tuple[int, str], str]

    def path_at(self, address: int) -> str:
        """The file of the code at ``address``; empty when that is not known."""
        index = bisect.bisect_right(self.ranges, address, key=lambda r: r[0]) - 1
        if index < 0 or address >= self.ranges[index][1]:
            return ""
        return self.ranges[index][2]

    def path_of_local(self, address: int, name: str) -> str:
        """The file of a local symbol, with its folder where debug information tells; else empty."""
        file = self.local_files.get((address, name), "")
        paths = {u.path for u in self.units if u.path.rpartition("/")[2] == file} if file else set()
        return paths.pop() if len(paths) == 1 else file


def read_sources(path: Path) -> Sources:
    """Read where an image came from.

    Raises:
        InputError: it is no ELF file. Debug information that can't be read counts as missing.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            local_files = dict(_local_files(elf))
            try:
                units, ranges = _debug_information(elf)
            except (DWARFError, KeyError, ValueError, AttributeError):
                units, ranges = (), ()
            return Sources(units=units, ranges=ranges, local_files=local_files)
    except (ELFError, OSError) as error:
        raise InputError(f"can't read the image: {error}", where=str(path)) from error


def _local_files(elf: ELFFile) -> Iterator[tuple[tuple[int, str], str]]:
    """Local symbols stand behind the name of their file."""
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        file = ""
        for symbol in table.iter_symbols():
            info = symbol["st_info"]
            if info["type"] == "STT_FILE":
                file = symbol.name
            elif info["bind"] == "STB_LOCAL" and symbol.name and isinstance(symbol["st_shndx"], int):
                thumb = info["type"] == "STT_FUNC" and elf["e_machine"] == "EM_ARM"
                yield (symbol["st_value"] & ~1 if thumb else symbol["st_value"], symbol.name), file


def _debug_information(elf: ELFFile) -> tuple[tuple[Unit, ...], tuple[tuple[int, int, str], ...]]:
    if not elf.has_dwarf_info():
        return (), ()
    dwarf = elf.get_dwarf_info()
    by_offset = {cu.cu_offset: _unit(cu.get_top_DIE()) for cu in dwarf.iter_CUs()}
    table = dwarf.get_aranges()
    ranges: list[tuple[int, int, str]] = []
    for entry in sorted(table.entries if table else (), key=lambda e: (e.begin_addr, -e.length)):
        start, end = entry.begin_addr, entry.begin_addr + entry.length
        unit = by_offset.get(entry.info_offset)
        # What the linker left out has address 0.
        if unit is not None and start and (not ranges or start >= ranges[-1][1]):
            ranges.append((start, end, unit.path))
    return tuple(dict.fromkeys(by_offset.values())), tuple(ranges)


def _unit(top: DIE) -> Unit:
    def text(name: str) -> str:
        found = top.attributes.get(name)
        value = found.value if found is not None else b""
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""

    return Unit(path=text("DW_AT_name").removeprefix("./"), producer=text("DW_AT_producer"))
