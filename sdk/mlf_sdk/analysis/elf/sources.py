# SPDX-License-Identifier: Apache-2.0
"""Which source file each symbol of a linked image came from."""

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
class Sources:
    """Where the code of an image came from; all of it empty without debug information.

    Attributes:
        paths: of all compiled files, as the compiler saw them.
        ranges: (start, end, path) of code, by address, without overlap.
        local_files: (address, symbol) of every local symbol -> name of its file, without its folder.
    """

    paths: tuple[str, ...] = ()
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
        paths = {path for path in self.paths if path.rpartition("/")[2] == file} if file else set()
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
                paths, ranges = _debug_information(elf)
            except (DWARFError, KeyError, ValueError, AttributeError):
                paths, ranges = (), ()
            return Sources(paths=paths, ranges=ranges, local_files=local_files)
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


def _debug_information(elf: ELFFile) -> tuple[tuple[str, ...], tuple[tuple[int, int, str], ...]]:
    if not elf.has_dwarf_info():
        return (), ()
    dwarf = elf.get_dwarf_info()
    by_offset = {cu.cu_offset: _path(cu.get_top_DIE()) for cu in dwarf.iter_CUs()}
    table = dwarf.get_aranges()
    ranges: list[tuple[int, int, str]] = []
    for entry in sorted(table.entries if table else (), key=lambda e: (e.begin_addr, -e.length)):
        start, end = entry.begin_addr, entry.begin_addr + entry.length
        path = by_offset.get(entry.info_offset)
        # What the linker left out has address 0.
        if path is not None and start and (not ranges or start >= ranges[-1][1]):
            ranges.append((start, end, path))
    return tuple(dict.fromkeys(by_offset.values())), tuple(ranges)


def _path(top: DIE) -> str:
    found = top.attributes.get("DW_AT_name")
    value = found.value if found is not None else b""
    return value.decode("utf-8", "replace").removeprefix("./") if isinstance(value, bytes) else ""
