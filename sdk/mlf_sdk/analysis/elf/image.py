# SPDX-License-Identifier: Apache-2.0
"""A linked image: its symbols, and how full it makes each memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mlf_sdk.errors import InputError

_SHF_ALLOC = 0x2


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A defined symbol: address (without the Thumb bit), size in bytes, kind and section."""

    name: str
    address: int
    size_bytes: int
    is_function: bool
    is_object: bool
    section: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An allocated section: where it runs, where it is loaded, whether the file holds its bytes."""

    name: str
    address: int
    load_address: int
    size_bytes: int
    in_file: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Symbols and sections of a linked ELF file."""

    path: str
    machine: str
    symbols: tuple[Symbol, ...]
    sections: tuple[Section, ...]

    def find(self, name: str) -> Symbol | None:
        """The symbol called ``name``, or None when it is not linked."""
        return next((s for s in self.symbols if s.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A memory of the board and how much of it the image takes."""

    name: str
    origin: int
    size_bytes: int
    used_bytes: int

    @property
    def fill(self) -> float:
        """Used by size, 0 to 1."""
        return self.used_bytes / self.size_bytes if self.size_bytes else 0.0


def read_image(path: Path) -> Image:
    """Read a linked ELF file.

    Raises:
        InputError: it is missing or no ELF file.
    """
    if not path.is_file():
        raise InputError(
            "the project is not built", where=str(path), hint="Build it first: mlf-sdk build DIR"
        )
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            segments = [
                (s["p_vaddr"], s["p_memsz"], s["p_paddr"])
                for s in elf.iter_segments()
                if s["p_type"] == "PT_LOAD"
            ]
            sections = tuple(
                Section(
                    name=section.name,
                    address=section["sh_addr"],
                    load_address=_load_address(section["sh_addr"], segments),
                    size_bytes=section["sh_size"],
                    in_file=section["sh_type"] != "SHT_NOBITS",
                )
                for section in elf.iter_sections()
                if section["sh_flags"] & _SHF_ALLOC and section["sh_size"]
            )
            return Image(path=str(path), machine=elf["e_machine"], symbols=_symbols(elf), sections=sections)
    except (ELFError, OSError) as error:
        raise InputError(
            f"can't read the image: {error}",
            where=str(path),
            hint="Build the project first: mlf-sdk build DIR",
        ) from error


def _load_address(address: int, segments: Sequence[tuple[int, int, int]]) -> int:
    for start, size, physical in segments:
        if start <= address < start + size:
            return physical + address - start
    return address


def _symbols(elf: ELFFile) -> tuple[Symbol, ...]:
    thumb = elf["e_machine"] == "EM_ARM"
    found = []
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for symbol in table.iter_symbols():
            index, kind = symbol["st_shndx"], symbol["st_info"]["type"]
            if (
                not isinstance(index, int)
                or not symbol.name
                or kind not in ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE")
            ):
                continue
            is_function = kind == "STT_FUNC"
            found.append(
                Symbol(
                    name=symbol.name,
                    address=symbol["st_value"] & ~1 if is_function and thumb else symbol["st_value"],
                    size_bytes=symbol["st_size"],
                    is_function=is_function,
                    is_object=kind == "STT_OBJECT",
                    section=elf.get_section(index).name,
                )
            )
    return tuple(sorted(found, key=lambda s: (s.address, s.name)))


def region_use(image: Image, regions: Sequence[tuple[str, int, int]]) -> tuple[Region, ...]:
    """How full each region (name, origin, size in bytes) is.

    A section counts where it runs, and once more where its bytes are loaded from.
    """
    result = []
    for name, origin, size in regions:
        used = 0
        for section in image.sections:
            if origin <= section.address < origin + size:
                used += section.size_bytes
            if (
                section.in_file
                and section.load_address != section.address
                and origin <= section.load_address < origin + size
            ):
                used += section.size_bytes
        result.append(Region(name=name, origin=origin, size_bytes=size, used_bytes=used))
    return tuple(result)
