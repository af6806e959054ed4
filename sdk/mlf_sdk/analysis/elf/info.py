# SPDX-License-Identifier: Apache-2.0
"""Facts that a linked ELF file of unknown origin states: build id, provenance, sections, compilers."""

from __future__ import annotations

import msgspec

from mlf_sdk.analysis.elf import provenance
from mlf_sdk.analysis.elf.image import Section
from mlf_sdk.analysis.elf.notes import GNU, NT_GNU_BUILD_ID, SHT_NOTE, NoteFormatError, read_notes
from mlf_sdk.analysis.elf.provenance import Provenance, ProvenanceError, decode_provenance
from mlf_sdk.analysis.elf.raw import (
    ET_DYN,
    ET_EXEC,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_NOBITS,
    ElfFormatError,
    RawElf,
    load_address,
    read_elf,
)
from mlf_sdk.errors import InputError

BUILD_ID_SECTION = ".note.gnu.build-id"
_KINDS = {ET_EXEC: "executable", ET_DYN: "position-independent executable"}
_MAX_COMMENTS = 16


class FirmwareInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that an ELF file states about itself.

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
    sections: tuple[Section, ...]


def read_firmware_info(data: bytes, source: str) -> FirmwareInfo:
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
        build_ids = _descriptions(elf, BUILD_ID_SECTION, GNU, NT_GNU_BUILD_ID)
        notes = _descriptions(elf, provenance.SECTION, provenance.OWNER, provenance.TYPE)
        provenances = tuple(decode_provenance(note) for note in notes)
    except (NoteFormatError, ProvenanceError) as error:
        raise InputError(
            f"a note of the firmware is broken: {error}",
            where=source,
            hint="The file was damaged or edited after it was linked: build it again.",
        ) from error
    return FirmwareInfo(
        machine=elf.machine_name,
        elf_class=elf.elf_class,
        kind=_KINDS[elf.type],
        build_id=build_ids[0].hex() if build_ids else "",
        provenances=provenances,
        toolchain=_toolchain(elf),
        sections=tuple(
            Section(
                name=section.name,
                address=section.address,
                load_address=load_address(section.address, elf.segments),
                size_bytes=section.size,
                in_file=section.type != SHT_NOBITS,
                writable=bool(section.flags & SHF_WRITE),
                executable=bool(section.flags & SHF_EXECINSTR),
            )
            for section in elf.sections
            if section.flags & SHF_ALLOC and section.size
        ),
    )


def _descriptions(elf: RawElf, section_name: str, owner: str, kind: int) -> tuple[bytes, ...]:
    """Different descriptions of the notes of one owner and type in the sections of a name."""
    result: dict[bytes, None] = {}
    for section in elf.sections:
        if section.name == section_name and section.type == SHT_NOTE:
            for note in read_notes(section.data, little_endian=elf.is_little_endian):
                if (note.owner, note.type) == (owner, kind):
                    result[note.description] = None
    return tuple(result)


def _toolchain(elf: RawElf) -> tuple[str, ...]:
    comments: dict[str, None] = {}
    for section in elf.sections:
        if section.name == ".comment":
            for text in bytes(section.data[: 16 << 10]).split(b"\0"):
                if text:
                    comments[text.decode("ascii", "replace")] = None
    return tuple(comments)[:_MAX_COMMENTS]
