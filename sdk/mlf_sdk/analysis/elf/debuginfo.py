# SPDX-License-Identifier: Apache-2.0
"""Debug information (DWARF) of an image by code address: source file, line, stack frame.

Missing or damaged information counts as not known and raises nothing. Addresses carry no bit that tells the
instruction set.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from elftools.common.exceptions import DWARFError, ELFError, ELFParseError
from elftools.elf.elffile import ELFFile

_DAMAGED = (DWARFError, ELFError, ELFParseError, LookupError, ValueError, AttributeError, RecursionError)
_DWARF5 = 5


class SourceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a source file; the path as the compiler recorded it."""

    path: str
    line: int


class FrameRule(msgspec.Struct, frozen=True, kw_only=True):
    """End of a function's frame at an instruction.

    Attributes:
        size_bytes: from the stack pointer up to that of the caller, before the call.
        return_at: of the return address, from there (negative); None: it is still in its register.
    """

    size_bytes: int
    return_at: int | None


class DebugInfo:
    """Answers questions about the code of one linked image.

    Args:
        file: the ELF file, which stays open.
        registers: DWARF's numbers of the stack pointer and of the register of return addresses.
    """

    def __init__(self, file: BinaryIO, registers: tuple[int, int]) -> None:
        self._registers = registers
        self._dwarf: Any = None
        with suppress(*_DAMAGED):  # relocations were applied by the linker
            self._dwarf = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)

    # ---- files ----

    def path_at(self, address: int) -> str:
        """The source file of the code at an address; empty when that is not known."""
        index = bisect_right(self._ranges, address, key=lambda r: r[0]) - 1
        if index < 0 or address >= self._ranges[index][1]:
            return ""
        return self._ranges[index][2]

    def full_path(self, file: str) -> str:
        """The path of the one source file with a name; the name itself when there is not exactly one."""
        paths = {path for path in self._units.values() if path.rpartition("/")[2] == file} if file else set()
        return paths.pop() if len(paths) == 1 else file

    @cached_property
    def _units(self) -> dict[int, str]:
        """Source files of the compiled units, as the compiler saw them, by offset."""
        with suppress(*_DAMAGED):
            if self._dwarf is not None and self._dwarf.has_debug_info:
                return {cu.cu_offset: _unit_path(cu.get_top_DIE()) for cu in self._dwarf.iter_CUs()}
        return {}

    @cached_property
    def _ranges(self) -> list[tuple[int, int, str]]:
        """(start, end, path) of code, by address, without overlap."""
        result: list[tuple[int, int, str]] = []
        with suppress(*_DAMAGED):
            table = self._dwarf.get_aranges() if self._units else None
            for entry in sorted(table.entries if table else (), key=lambda e: (e.begin_addr, -e.length)):
                start, path = entry.begin_addr, self._units.get(entry.info_offset)
                # What the linker left out has address 0.
                if path is not None and start and (not result or start >= result[-1][1]):
                    result.append((start, start + entry.length, path))
        return result

    # ---- lines ----

    def line_at(self, address: int, *, is_entry: bool = False) -> SourceLine | None:
        """The source of an instruction; of a function's first one: the line where the function begins."""
        with suppress(*_DAMAGED):
            for unit in self._units_of(address):
                line = self._line_in(unit, address, is_entry=is_entry)
                if line is not None:
                    return line
        return None

    def _units_of(self, address: int) -> Iterator[Any]:
        ranges = self._dwarf.get_aranges() if self._dwarf.has_debug_info else None
        offset = ranges.cu_offset_at_addr(address) if ranges is not None else None
        if offset is not None:
            yield self._dwarf.get_CU_at(offset)
        elif self._dwarf.has_debug_info and ranges is None:
            yield from self._dwarf.iter_CUs()

    def _line_in(self, unit: Any, address: int, *, is_entry: bool) -> SourceLine | None:  # noqa: ANN401
        program = self._dwarf.line_program_for_CU(unit)
        if program is None:
            return None
        best, best_start = None, -1
        start, last = None, None
        for state in (e.state for e in program.get_entries() if e.state is not None):
            if is_entry and state.address == address and not state.end_sequence:
                return SourceLine(path=_path(program, state.file), line=state.line)
            if last is not None and last.address <= address < state.address and (start or 0) >= best_start:
                best, best_start = last, start or 0
            start = state.address if start is None else start
            last = state
            if state.end_sequence:
                start = last = None
        return SourceLine(path=_path(program, best.file), line=best.line) if best is not None else None

    # ---- frames ----

    def frame_at(self, address: int) -> FrameRule | None:
        """The frame at an instruction; None where the stack pointer does not give it."""
        for start, end, entry in self._frames:
            if start <= address < end:
                with suppress(*_DAMAGED):
                    return _rule(entry.get_decoded().table, address, *self._registers)
        return None

    @cached_property
    def _frames(self) -> list[tuple[int, int, Any]]:
        with suppress(*_DAMAGED):
            if self._dwarf.has_CFI():
                return [
                    (e["initial_location"], e["initial_location"] + e["address_range"], e)
                    for e in self._dwarf.CFI_entries()
                    if "initial_location" in e.header and e["initial_location"]
                ]
        return []


def _unit_path(top: Any) -> str:  # noqa: ANN401
    attribute = top.attributes.get("DW_AT_name")
    value = attribute.value if attribute is not None else b""
    return value.decode("utf-8", "replace").removeprefix("./") if isinstance(value, bytes) else ""


def _path(program: Any, number: int) -> str:  # noqa: ANN401
    header = program.header
    since_5 = header["version"] >= _DWARF5
    file = header["file_entry"][number if since_5 else number - 1]
    folders = header["include_directory"]
    index = file["dir_index"]
    folder = folders[index] if since_5 else (folders[index - 1] if index else b"")
    name, folder = file["name"].decode("utf-8", "replace"), folder.decode("utf-8", "replace")
    return Path(folder, name).as_posix()


def _rule(table: list[dict[Any, Any]], address: int, stack: int, back: int) -> FrameRule | None:
    lines = [line for line in table if line["pc"] <= address]
    if not lines or lines[-1]["cfa"].reg != stack:
        return None
    saved = lines[-1].get(back)
    return FrameRule(
        size_bytes=lines[-1]["cfa"].offset,
        return_at=saved.arg if saved is not None and saved.type == "OFFSET" else None,
    )
