# SPDX-License-Identifier: Apache-2.0
"""A linked firmware that nobody vouches for: its build id, its provenance, its sections, its compiler."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.analysis.elf import provenance
from mlf_sdk.analysis.elf.notes import GNU, NT_GNU_BUILD_ID, SHT_NOTE, NoteFormatError, read_notes
from mlf_sdk.analysis.elf.objects import machine_name
from mlf_sdk.analysis.elf.provenance import Provenance, ProvenanceError, decode_provenance
from mlf_sdk.analysis.elf.raw import SHF_EXECINSTR, SHT_NOBITS, ElfFormatError, RawElf, read_elf
from mlf_sdk.errors import InputError

ELF_MAGIC = b"\x7fELF"
BUILD_ID_SECTION = ".note.gnu.build-id"
_KINDS = {2: "executable", 3: "position-independent executable"}
_SHF_WRITE, _SHF_ALLOC = 1, 2
_MAX_COMMENTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareSection:
    """A section that takes memory on the target.

    Attributes:
        load_address: where its bytes lie before start-up copies them.
        in_file: the file holds its bytes; else it is only reserved.
    """

    name: str
    address: int
    load_address: int
    size_bytes: int
    in_file: bool
    writable: bool
    executable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """What an ELF file says about itself.

    Attributes:
        machine: ``ARM``, ``x86-64`` and so on.
        kind: executable or position-independent executable.
        build_id: in hex, as the linker made it; empty: it made none.
        provenances: of each project that is linked; usually one.
        toolchain: what the compilers wrote into ``.comment``.
    """

    machine: str
    elf_class: int
    kind: str
    build_id: str
    provenances: tuple[Provenance, ...]
    toolchain: tuple[str, ...]
    sections: tuple[FirmwareSection, ...]


def read_firmware(data: bytes, source: str) -> Firmware:
    """Read a linked ELF file.

    Args:
        source: what to call it in an error.

    Raises:
        InputError: it is none, or one of its notes is broken.
    """
    try:
        elf = read_elf(data, linked=True)
    except ElfFormatError as error:
        raise InputError(f"the ELF file can't be read: {error}", where=source) from error
    if elf.type not in _KINDS:
        raise InputError(
            "it is an ELF file, but not a linked one",
            where=source,
            hint="Give the linked image (build/app.elf, build/zephyr/zephyr.elf), or an archive.",
        )
    try:
        build_id, provenances = _build_id(elf), _provenances(elf)
    except (NoteFormatError, ProvenanceError) as error:
        raise InputError(
            f"a note of the firmware is broken: {error}",
            where=source,
            hint="The file was damaged or edited after it was linked: build it again.",
        ) from error
    return Firmware(
        machine=machine_name(elf.machine),
        elf_class=elf.elf_class,
        kind=_KINDS[elf.type],
        build_id=build_id,
        provenances=provenances,
        toolchain=_toolchain(elf),
        sections=tuple(
            FirmwareSection(
                name=section.name,
                address=section.address,
                load_address=_load_address(elf, section.address),
                size_bytes=section.size,
                in_file=section.type != SHT_NOBITS,
                writable=bool(section.flags & _SHF_WRITE),
                executable=bool(section.flags & SHF_EXECINSTR),
            )
            for section in elf.sections
            if section.flags & _SHF_ALLOC and section.size
        ),
    )


def _load_address(elf: RawElf, address: int) -> int:
    for segment in elf.segments:
        if segment.address <= address < segment.address + segment.size:
            return segment.load_address + address - segment.address
    return address


def _build_id(elf: RawElf) -> str:
    for section in elf.sections:
        if section.name == BUILD_ID_SECTION and section.type == SHT_NOTE:
            for note in read_notes(section.data, little_endian=elf.is_little_endian):
                if (note.owner, note.type) == (GNU, NT_GNU_BUILD_ID):
                    return note.description.hex()
    return ""


def _provenances(elf: RawElf) -> tuple[Provenance, ...]:
    found: dict[bytes, Provenance] = {}
    for section in elf.sections:
        if section.name == provenance.SECTION and section.type == SHT_NOTE:
            for note in read_notes(section.data, little_endian=elf.is_little_endian):
                if (note.owner, note.type) == (provenance.OWNER, provenance.TYPE):
                    found.setdefault(note.description, decode_provenance(note.description))
    return tuple(found.values())


def _toolchain(elf: RawElf) -> tuple[str, ...]:
    comments: dict[str, None] = {}
    for section in elf.sections:
        if section.name == ".comment":
            for text in bytes(section.data[: 16 << 10]).split(b"\0"):
                if text:
                    comments[text.decode("ascii", "replace")] = None
    return tuple(comments)[:_MAX_COMMENTS]
