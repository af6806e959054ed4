# SPDX-License-Identifier: Apache-2.0
"""Reader of linked images that were built here, by pyelftools; files of unknown origin go through ``raw``."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

from mlf_sdk.analysis.elf.image import Image, Section, Symbol, isa_of
from mlf_sdk.analysis.elf.raw import PF_W, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, Segment, load_address
from mlf_sdk.analysis.machine.registry import AttributesError, BuildAttributes, analysis_of
from mlf_sdk.errors import InputError
from mlf_sdk.tools.isas import Isa

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_DATA_MARK = "$d"  # mapping symbol of every ABI that has such: data begins here, in a section of code


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
    isa = isa_of(elf["e_machine"], elf.elfclass)
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
        relocated=_relocated(elf),
        content=content,
        elf_class=elf.elfclass,
    )


def _relocated(elf: ELFFile) -> frozenset[int] | None:
    """Addresses that relocations of loaded sections name; None where the file has no such relocations."""
    if elf.elfclass != 32:
        return None
    order = "<" if elf.little_endian else ">"
    layouts = {"SHT_REL": f"{order}II", "SHT_RELA": f"{order}IIi"}  # the address comes first
    tables = [
        section
        for section in elf.iter_sections()
        if section["sh_type"] in layouts and elf.get_section(section["sh_info"])["sh_flags"] & SHF_ALLOC
    ]
    rows = (row for table in tables for row in struct.iter_unpack(layouts[table["sh_type"]], table.data()))
    return frozenset(row[0] for row in rows) if tables else None


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
