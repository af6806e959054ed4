# SPDX-License-Identifier: Apache-2.0
"""Notes, provenance and linked files: what is written is read back, and hostile bytes give one clear error."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Sequence

import msgspec
import pytest
from elftools.elf.elffile import ELFFile

from mlf_sdk.analysis.elf.info import read_firmware_info
from mlf_sdk.analysis.elf.notes import SHT_NOTE, Note, NoteFormatError, read_notes
from mlf_sdk.analysis.elf.provenance import (
    MAX_BYTES,
    NoteModel,
    Provenance,
    ProvenanceError,
    decode_provenance,
    encode_provenance,
)
from mlf_sdk.errors import InputError

SAID = Provenance(
    format=1,
    sdk="1.2.3",
    platform="zephyr",
    board='größe "b"',
    zephyr="4.1",
    app="rpc",
    executor="graph",
    params="ram",
    cflags="-O2",
    cmsis_nn=True,
    models=(NoteModel(name="m\\\0\n", archive_sha256="ab" * 32, format="MLF 7", compiler="TVM 0.11.1"),),
)
BUILD_ID = bytes(range(20))


def note(owner: bytes, kind: int, description: bytes, order: str = "<") -> bytes:
    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    return (
        struct.pack(f"{order}III", len(owner), len(description), kind) + padded(owner) + padded(description)
    )


def elf(
    sections: Sequence[tuple[str, int, int, bytes]], *, bits: int = 32, order: str = "<", kind: int = 2
) -> bytes:
    """A linked file of sections (name, type, flags, bytes), by hand."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    head = struct.Struct(order + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"))
    row = struct.Struct(order + ("10I" if bits == 32 else "IIQQQQIIQQ"))
    at = 16 + head.size
    body, rows = b"", [row.pack(*[0] * 10)]
    for name, section_kind, flags, data in [*sections, (".shstrtab", 3, 0, names)]:
        body += bytes(-(at + len(body)) % 4)
        start = names.index(b"\0" + name.encode() + b"\0") + 1
        rows.append(
            row.pack(start, section_kind, flags, 0x1000 * len(rows), at + len(body), len(data), 0, 0, 4, 0)
        )
        body += data
    body += bytes(-(at + len(body)) % 8)
    ident = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1]) + bytes(9)
    header = head.pack(
        kind, 40, 1, 0, 0, at + len(body), 0, 16 + head.size, 0, 0, row.size, len(rows), len(rows) - 1
    )
    return ident + header + body + b"".join(rows)


def firmware(order: str = "<", **changed: int) -> bytes:
    return elf(
        [
            (".text", 1, 6, b"code"),
            (".note.gnu.build-id", SHT_NOTE, 2, note(b"GNU\0", 3, BUILD_ID, order)),
            (".note.mlf", SHT_NOTE, 2, note(b"mlf-sdk\0", 1, encode_provenance(SAID), order)),
            (".comment", 1, 0x30, b"GCC: one\0GCC: two\0\0GCC: one\0"),
        ],
        order=order,
        **changed,
    )


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bits", [32, 64])
def test_what_is_written_is_read(bits: int, order: str) -> None:
    found = read_firmware_info(firmware(order, bits=bits), "x")
    assert found.provenances == (SAID,)
    assert found.build_id == BUILD_ID.hex()
    assert found.toolchain == ("GCC: one", "GCC: two")
    assert [s.name for s in found.sections] == [".text", ".note.gnu.build-id", ".note.mlf"]
    assert (found.machine, found.elf_class, found.kind) == ("ARM", bits, "executable")
    assert [s.executable for s in found.sections] == [True, False, False]


def test_another_reader_sees_the_same_bytes() -> None:
    opened = ELFFile(io.BytesIO(firmware()))
    (seen,) = opened.get_section_by_name(".note.mlf").iter_notes()
    assert (seen["n_name"], seen["n_descdata"]) == ("mlf-sdk", encode_provenance(SAID))
    (seen,) = opened.get_section_by_name(".note.gnu.build-id").iter_notes()
    assert seen["n_desc"] == BUILD_ID.hex()


def test_several_notes_of_a_section() -> None:
    data = note(b"one\0", 1, b"") + note(b"mlf-sdk\0", 2, b"12345") + note(b"\0", 7, b"x" * 8)
    assert list(read_notes(memoryview(data), little_endian=True)) == [
        Note(owner="one", type=1, description=b""),
        Note(owner="mlf-sdk", type=2, description=b"12345"),
        Note(owner="", type=7, description=b"x" * 8),
    ]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x04", "cut off after 1 bytes"),
        (struct.pack("<III", 8, 4, 1), "owner has 8 bytes; 0 are there"),
        (struct.pack("<III", 0xFFFFFFFF, 4, 1) + bytes(8), "owner has 4294967295 bytes"),
        (struct.pack("<III", 4, 0xFFFFFFFF, 1) + b"GNU\0", "has 4294967295 bytes; 0 are there"),
        (struct.pack("<III", 4, 5, 1) + b"GNU\0" + bytes(4), "has 5 bytes; 4 are there"),
        (struct.pack("<III", 4, 0, 1) + b"GNUX", "does not end with a zero byte"),
        (struct.pack("<III", 0, 0, 1), "does not end with a zero byte"),
        (struct.pack("<III", 4, 0, 1) + b"\xff\xfe\xfd\0", "is no text"),
        (struct.pack("<III", 300, 0, 1) + bytes(300), "owner has 300 bytes"),
    ],
)
def test_broken_notes(data: bytes, what: str) -> None:
    with pytest.raises(NoteFormatError, match=what):
        list(read_notes(memoryview(data), little_endian=True))


def changed(**values: object) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(SAID), **values})


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not JSON"),
        (b"\xff", "invalid UTF-8"),
        (b"[1]", "format None"),
        (changed(format=2), "format 2; this SDK reads 1"),
        (changed(format="x" * 10_000), "format 'xxx"),
        (changed(board=3), r"\$.board"),
        (changed(models=[{"name": "m"}]), r"\$.models\[0\]"),
        (
            changed(models=[{"name": "m", "sha256": "g" * 64, "format": "MLF 7", "compiler": "c"}]),
            "hexadecimal",
        ),
        (changed(models=[{"name": "m", "sha256": "ab", "format": "MLF 7", "compiler": "c"}]), "hexadecimal"),
        (b'{"format": 1, "format": 1}', "twice"),
        (b'{"format": 1, "x": ' + b"[" * 100_000, "bytes; at most|nested"),
        (b" " * (MAX_BYTES + 1), "at most 65536 are read"),
    ],
)
def test_hostile_provenance(data: bytes, what: str) -> None:
    with pytest.raises(ProvenanceError, match=what) as caught:
        decode_provenance(data)
    assert len(str(caught.value)) < 300
    whole = elf([(".note.mlf", SHT_NOTE, 2, note(b"mlf-sdk\0", 1, data))])
    with pytest.raises(InputError, match="a note of the firmware is broken") as shown:
        read_firmware_info(whole, "x")
    assert shown.value.exit_code == 2


def test_a_later_minor_change_is_read() -> None:
    assert decode_provenance(changed(later="thing")) == SAID


def test_notes_of_others_are_passed_over() -> None:
    other = note(b"mlf-sdk\0", 2, b"{") + note(b"else\0", 1, b"{")
    assert read_firmware_info(elf([(".note.mlf", SHT_NOTE, 2, other)]), "x").provenances == ()
    assert read_firmware_info(elf([(".note.mlf", 1, 2, b"no note")]), "x").provenances == ()


def test_the_same_note_twice_is_one() -> None:
    one = note(b"mlf-sdk\0", 1, encode_provenance(SAID))
    other = note(b"mlf-sdk\0", 1, changed(sdk="9"))
    found = read_firmware_info(elf([(".note.mlf", SHT_NOTE, 2, one + one + other)]), "x").provenances
    assert [said.sdk for said in found] == ["1.2.3", "9"]


@pytest.mark.parametrize("kind", [0, 1, 4])
def test_only_linked_files(kind: int) -> None:
    with pytest.raises(InputError, match="not a linked one"):
        read_firmware_info(firmware(kind=kind), "x")


def test_every_cut_is_an_error_or_a_firmware() -> None:
    whole = firmware()
    refused = 0
    for size in range(len(whole)):
        try:
            read_firmware_info(whole[:size], "x")
        except InputError as error:
            refused += 1
            assert error.where == "x"
    assert refused == len(whole)  # the section table ends the file


def test_every_damage_is_an_error_or_a_firmware() -> None:
    whole, draw = firmware(), random.Random(5)
    refused = 0
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(4, len(whole))] = draw.choice(
                (0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256))
            )
        try:
            read_firmware_info(bytes(damaged), "x")
        except InputError:
            refused += 1
    assert 500 < refused < 3000


@pytest.mark.parametrize("bits", [32, 64])
def test_load_addresses_come_from_the_segments(bits: int) -> None:
    """Data that is copied at start-up runs at one address and lies at another; what no segment has is left."""
    plain = elf([(".data", 1, 3, b"12345678"), (".other", 1, 3, b"1234")], bits=bits)
    head = struct.Struct("<" + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"))
    fields = list(head.unpack_from(plain, 16))
    row = struct.Struct("<8I" if bits == 32 else "<IIQQQQQQ")
    segments = [(1, 0x1000, 0x8000, 8), (2, 0x2000, 0x9000, 4)]  # of kind 2: nothing that is loaded
    rows = b"".join(
        row.pack(kind, 0, run, load, size, size, 6, 4)
        if bits == 32
        else row.pack(kind, 6, 0, run, load, size, size, 4)
        for kind, run, load, size in segments
    )
    fields[4], fields[8], fields[9] = len(plain), row.size, len(segments)
    data = plain[:16] + head.pack(*fields) + plain[16 + head.size :] + rows
    found = read_firmware_info(data, "a.elf")
    assert [(s.name, s.address, s.load_address) for s in found.sections] == [
        (".data", 0x1000, 0x8000),
        (".other", 0x2000, 0x2000),
    ]
