# SPDX-License-Identifier: Apache-2.0
"""The machine code of a linked Thumb image: its functions, its instructions, its words.

Arm's ELF ABI (AAELF32, mapping symbols) marks where code (``$t``) and data (``$d``) begin in a section.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import capstone
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import ARMAttributesSection, SymbolTableSection

from mlf_sdk.errors import InputError

_SHF_ALLOC, _SHF_EXECINSTR = 0x2, 0x4
_WIDE = (0b11101, 0b11110, 0b11111)  # first five bits of a 32-bit Thumb instruction
_FP_TAGS = ("TAG_FP_ARCH", "TAG_MVE_ARCH")

if TYPE_CHECKING:
    from typing import Any

    Instruction: TypeAlias = Any  # of a library without types


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The bytes of a section that lie in the image."""

    address: int
    data: bytes
    is_code: bool
    is_copied: bool  # to where it lies, before main(): variables

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSymbol:
    """A function or an object: its first address (without the Thumb bit) and the one behind it."""

    name: str
    address: int
    end: int
    is_function: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """An instruction that the decoder does not know, of Armv8.1-M for the most part."""

    address: int
    size: int
    first: int
    second: int


class CodeImage:
    """Code and constants of a linked Thumb image, decoded on demand."""

    def __init__(
        self,
        blocks: tuple[Block, ...],
        symbols: tuple[CodeSymbol, ...],
        marks: tuple[tuple[int, bool], ...],
        *,
        labels: Mapping[str, int],
        entry: int,
        has_fpu: bool,
    ) -> None:
        """Index what was read; ``marks`` are addresses at which code (True) or data begins, in order."""
        self.blocks = blocks
        self.labels = labels
        self.entry = entry
        self.has_fpu = has_fpu
        self.symbols = symbols
        self.functions = {s.address: s for s in reversed(symbols) if s.is_function}
        self._starts = sorted(self.functions)
        self._objects = [s for s in symbols if not s.is_function and s.end > s.address]
        self._object_starts = [s.address for s in self._objects]
        self._marks = marks
        self._mark_starts = [address for address, _ in marks]
        self._decoder = capstone.Cs(
            capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8
        )
        self._decoder.detail = True

    def find(self, name: str) -> CodeSymbol | None:
        """The function or object called ``name``."""
        return next((s for s in self.symbols if s.name == name), None)

    def block(self, address: int) -> Block | None:
        """The block that ``address`` lies in."""
        return next((b for b in self.blocks if b.address <= address < b.end), None)

    def word(self, address: int) -> int | None:
        """The little-endian word at an address of the image."""
        block = self.block(address)
        if block is None or address + 4 > block.end:
            return None
        return int.from_bytes(block.data[address - block.address :][:4], "little")

    def function_at(self, address: int) -> CodeSymbol | None:
        """The function that ``address`` lies in; code without a symbol is a function of its own."""
        index = bisect.bisect_right(self._starts, address) - 1
        found = self.functions[self._starts[index]] if index >= 0 else None
        if found is not None and found.address <= address < found.end:
            return found
        block = self.block(address)
        if block is None or not block.is_code:
            return None
        after = next((s for s in self._starts[index + 1 : index + 2]), block.end)
        return CodeSymbol(
            name=f"code at 0x{address:08x}", address=address, end=min(after, block.end), is_function=True
        )

    def object_at(self, address: int) -> CodeSymbol | None:
        """The object that ``address`` lies in."""
        index = bisect.bisect_right(self._object_starts, address) - 1
        found = self._objects[index] if index >= 0 else None
        return found if found is not None and address < found.end else None

    def is_constant(self, address: int) -> bool:
        """Whether nothing can change what lies at an address."""
        block = self.block(address)
        return block is not None and not block.is_copied

    def is_code(self, address: int) -> bool:
        """Whether an instruction may begin here, by the nearest mark before it."""
        index = bisect.bisect_right(self._mark_starts, address) - 1
        return index < 0 or self._marks[index][1]

    def instructions(self, start: int, end: int) -> Iterator[Instruction | Undecoded]:
        """Instructions from ``start`` to ``end``, in order; what is data is left out."""
        block = self.block(start)
        if block is None:
            return
        at = start
        while at < end:
            if not self.is_code(at):
                at = self._next_mark(at, end)
                continue
            stop = self._next_mark(at, end)
            for found in self._decoder.disasm(block.data[at - block.address : stop - block.address], at):
                yield found
                at = found.address + found.size
            if at < stop:
                first, second = (
                    int.from_bytes(block.data[at + i - block.address :][:2], "little") for i in (0, 2)
                )
                size = 4 if first >> 11 in _WIDE else 2
                yield Undecoded(address=at, size=size, first=first, second=second)
                at += size

    def _next_mark(self, at: int, end: int) -> int:
        index = bisect.bisect_right(self._mark_starts, at)
        return min(self._mark_starts[index], end) if index < len(self._mark_starts) else end

    def pointers(self, start: int, end: int) -> set[int]:
        """Functions whose addresses, with the Thumb bit, stand in words from ``start`` to ``end``."""
        block = self.block(start)
        if block is None or end <= start:
            return set()
        first = (start + 3) & ~3
        data = block.data[first - block.address : min(end, block.end) - block.address]
        words = struct.unpack_from(f"<{len(data) // 4}I", data)
        return {word & ~1 for word in words if word & 1 and word & ~1 in self.functions}


def read_code(path: Path) -> CodeImage | None:
    """Read the code of a linked image; None when it is not for an Arm Cortex-M.

    Raises:
        InputError: it is missing or no ELF file.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf["e_machine"] != "EM_ARM":
                return None
            blocks = tuple(
                Block(
                    address=section["sh_addr"],
                    data=section.data(),
                    is_code=bool(section["sh_flags"] & _SHF_EXECINSTR),
                    is_copied=_is_copied(elf, section["sh_addr"]),
                )
                for section in elf.iter_sections()
                if section["sh_flags"] & _SHF_ALLOC
                and section["sh_type"] != "SHT_NOBITS"
                and section["sh_size"]
            )
            symbols, marks, labels = _symbols(elf)
            return CodeImage(
                blocks,
                _sized(symbols, blocks),
                marks,
                labels=labels,
                entry=elf["e_entry"] & ~1,
                has_fpu=_has_fpu(elf),
            )
    except (ELFError, OSError) as error:
        raise InputError(
            f"can't read the image: {error}", where=str(path), hint="Build it first: mlf-sdk build DIR"
        ) from error


def _is_copied(elf: ELFFile, address: int) -> bool:
    """Whether what runs at ``address`` is loaded elsewhere (a section's flags say writable too often)."""
    return any(
        s["p_type"] == "PT_LOAD"
        and s["p_vaddr"] <= address < s["p_vaddr"] + s["p_memsz"]
        and s["p_paddr"] != s["p_vaddr"]
        for s in elf.iter_segments()
    )


def _symbols(elf: ELFFile) -> tuple[list[CodeSymbol], tuple[tuple[int, bool], ...], dict[str, int]]:
    symbols: list[CodeSymbol] = []
    marks: dict[int, bool] = {}
    labels: dict[str, int] = {}
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for symbol in table.iter_symbols():
            kind, value, index = symbol["st_info"]["type"], symbol["st_value"], symbol["st_shndx"]
            if symbol.name.startswith(("$t", "$d")) and len(symbol.name.split(".")[0]) == 2:
                marks[value] = symbol.name[1] == "t"
            elif kind == "STT_NOTYPE":
                labels[symbol.name] = value
            elif isinstance(index, int) and symbol.name and kind in ("STT_FUNC", "STT_OBJECT"):
                address = value & ~1 if kind == "STT_FUNC" else value
                symbols.append(
                    CodeSymbol(
                        name=symbol.name,
                        address=address,
                        end=address + symbol["st_size"],
                        is_function=kind == "STT_FUNC",
                    )
                )
    symbols.sort(key=lambda s: (s.address, s.name))
    return symbols, tuple(sorted(marks.items())), labels


def _sized(symbols: list[CodeSymbol], blocks: tuple[Block, ...]) -> tuple[CodeSymbol, ...]:
    """Symbols where functions without a size (assembly) reach to the next function."""
    starts = sorted({s.address for s in symbols if s.is_function})
    found = []
    for s in symbols:
        if s.is_function and s.end == s.address:
            block = next((b for b in blocks if b.address <= s.address < b.end), None)
            index = bisect.bisect_right(starts, s.address)
            ends = [*starts[index : index + 1], *([block.end] if block else [])]
            s = CodeSymbol(name=s.name, address=s.address, end=min(ends, default=s.address), is_function=True)  # noqa: PLW2901
        found.append(s)
    return tuple(found)


def _has_fpu(elf: ELFFile) -> bool:
    """Whether the image may use floating-point or vector registers (its build attributes say so)."""
    section = elf.get_section_by_name(".ARM.attributes")
    if not isinstance(section, ARMAttributesSection):
        return False
    return any(
        attribute.tag in _FP_TAGS and attribute.value
        for part in section.iter_subsections()
        for scope in part.iter_subsubsections()
        for attribute in scope.iter_attributes()
    )
