# SPDX-License-Identifier: Apache-2.0
"""What an image's debug information says of a code address: function, line of the source, frame.

Reads the ELF's symbols and its DWARF (line programs, .debug_frame); where one is missing, what it would
tell is not known. Addresses carry no Thumb bit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import capstone
from elftools.common.exceptions import DWARFError, ELFError, ELFParseError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mlf_sdk.errors import InputError

_SHF_EXECINSTR = 0x4
_DWARF5 = 5
_SP, _LR = 13, 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the image: address of its first instruction, size in bytes."""

    name: str
    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a source file; the path as the compiler was told to write it."""

    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRule:
    """Where a function's frame ends at an instruction.

    Attributes:
        size_bytes: from the stack pointer up to that of the caller, before the call.
        return_at: of the return address, from there (negative); None: it is still in lr.
    """

    size_bytes: int
    return_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """A call instruction: its address, and the function it leads to; None: through a register."""

    address: int
    target: int | None


class CodeMap:
    """Answers questions about the code of one linked image.

    Args:
        path: the ELF file; it is read once, here.

    Raises:
        InputError: it is missing or no ELF file.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                elf = ELFFile(file)
                self.is_thumb = elf.get_machine_arch() == "ARM"
                self._functions = sorted(_functions(elf), key=lambda f: f.address)
                self._code = [
                    (section["sh_addr"], section.data())
                    for section in elf.iter_sections()
                    if section["sh_flags"] & _SHF_EXECINSTR and section["sh_type"] == "SHT_PROGBITS"
                ]
                # Relocations were applied by the linker; sections are read while the file is open.
                self._dwarf: Any = elf.get_dwarf_info(relocate_dwarf_sections=False)
        except FileNotFoundError:
            raise InputError(
                "there is no such image", where=str(path), hint="Give the ELF file that the board runs."
            ) from None
        except (ELFError, OSError) as error:
            raise InputError(f"not an ELF file: {error}", where=str(path)) from error

    def is_code(self, address: int) -> bool:
        """Whether the image has code there."""
        return bool(self.code_at(address, 2))

    def code_at(self, address: int, size: int) -> bytes:
        """``size`` bytes of code; nothing where the image has not that many."""
        for start, data in self._code:
            if start <= address <= start + len(data) - size:
                return bytes(data[address - start : address - start + size])
        return b""

    def function_at(self, address: int) -> Function | None:
        """The function that holds an instruction."""
        index = bisect_right(self._functions, address, key=lambda f: f.address)
        for function in reversed(self._functions[max(0, index - 8) : index]):
            if address < function.address + function.size_bytes:
                return function
        return None

    def function_named(self, name: str) -> Function | None:
        """The first function of that name."""
        return next((f for f in self._functions if f.name == name), None)

    def line_at(self, address: int, *, is_entry: bool = False) -> SourceLine | None:
        """The source of an instruction; of a function's first one: the line where the function begins."""
        with suppress(DWARFError, ELFParseError, KeyError, IndexError):
            for unit in self._units_of(address):
                found = self._line_in(unit, address, is_entry=is_entry)
                if found is not None:
                    return found
        return None

    def frame_at(self, address: int) -> FrameRule | None:
        """The frame at an instruction; None where it is not told by the stack pointer."""
        for start, end, entry in self._frames:
            if start <= address < end:
                with suppress(DWARFError, ELFParseError, KeyError, IndexError):
                    return _rule(entry.get_decoded().table, address)
        return None

    def call_before(self, address: int) -> CallSite | None:
        """The call that returns to an address; None: there is none."""
        wide = self.code_at(address - 4, 4)
        first, second = int.from_bytes(wide[:2], "little"), int.from_bytes(wide[2:], "little")
        if wide and first & 0xF800 == 0xF000 and second & 0xC000 == 0xC000:
            target = _disassembled(wide, address - 4)
            return CallSite(
                address=address - 4, target=int(target[1].lstrip("#"), 16) & ~1 if target else None
            )
        narrow = int.from_bytes(self.code_at(address - 2, 2), "little")
        if narrow & 0xFF87 == 0x4780:
            return CallSite(address=address - 2, target=None)
        return None

    def instruction_at(self, address: int) -> str:
        """The instruction at an address, e.g. ``vadd.f32 s0, s0, s1``; empty: none that is known."""
        for size in (4, 2):
            found = _disassembled(self.code_at(address, size), address)
            if found is not None:
                return " ".join(filter(None, found))
        return ""

    # ---- DWARF ----

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

    @cached_property
    def _frames(self) -> list[tuple[int, int, Any]]:
        if not self._dwarf.has_CFI():
            return []
        with suppress(DWARFError, ELFParseError, KeyError, RecursionError):
            return [
                (e["initial_location"], e["initial_location"] + e["address_range"], e)
                for e in self._dwarf.CFI_entries()
                if "initial_location" in e.header and e["initial_location"]
            ]
        return []


def _functions(elf: ELFFile) -> Iterator[Function]:
    thumb = elf.get_machine_arch() == "ARM"
    for table in elf.iter_sections():
        if isinstance(table, SymbolTableSection):
            for symbol in table.iter_symbols():
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]:
                    address = symbol["st_value"] & ~1 if thumb else symbol["st_value"]
                    yield Function(name=symbol.name, address=address, size_bytes=symbol["st_size"])


def _path(program: Any, number: int) -> str:  # noqa: ANN401
    header = program.header
    since_5 = header["version"] >= _DWARF5
    file = header["file_entry"][number if since_5 else number - 1]
    folders = header["include_directory"]
    index = file["dir_index"]
    folder = folders[index] if since_5 else (folders[index - 1] if index else b"")
    name, folder = file["name"].decode("utf-8", "replace"), folder.decode("utf-8", "replace")
    return Path(folder, name).as_posix()


def _rule(table: list[dict[Any, Any]], address: int) -> FrameRule | None:
    lines = [line for line in table if line["pc"] <= address]
    if not lines or lines[-1]["cfa"].reg != _SP:
        return None
    saved = lines[-1].get(_LR)
    return FrameRule(
        size_bytes=lines[-1]["cfa"].offset,
        return_at=saved.arg if saved is not None and saved.type == "OFFSET" else None,
    )


def _disassembled(code: bytes, address: int) -> tuple[str, str] | None:
    mode = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS
    decoder = capstone.Cs(capstone.CS_ARCH_ARM, mode | capstone.CS_MODE_V8)
    for _, size, mnemonic, operands in decoder.disasm_lite(code, address):
        return (mnemonic, operands) if size == len(code) else None
    return None
