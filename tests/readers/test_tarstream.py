# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import tarfile

import pytest

from archives import entry, tar_of
from mlf_sdk.frontends.intake.bytestream import ArchiveStream
from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS, StopReadingError
from mlf_sdk.frontends.intake.tarstream import TarMember, TarReader


def open_tar(data: bytes) -> TarReader:
    return TarReader(ArchiveStream(io.BytesIO(data), DEFAULT_LIMITS))


def members(data: bytes) -> list[tuple[TarMember, bytes]]:
    reader = open_tar(data)
    found = []
    while (member := reader.next()) is not None:
        found.append((member, reader.read()))
    return found


LONG = "/".join(["folder" * 3] * 9) + "/" + "x" * 120


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_kinds_and_contents(format_: int) -> None:
    data = tar_of(
        [
            entry("./"),
            entry("./a.txt", b"one"),
            entry("./folder", type_=tarfile.DIRTYPE),
            entry("./old", b"two", tarfile.AREGTYPE),
            entry("./block", b"x" * 512),
            entry("./link", type_=tarfile.SYMTYPE, linkname="/etc"),
            entry("./last", b"\x00"),
        ],
        format_,
    )
    found = [(member.name, member.kind, content) for member, content in members(data)]
    assert found == [
        ("./", "folder", b""),
        ("./a.txt", "file", b"one"),
        ("./folder/", "folder", b""),
        ("./old", "file", b"two"),
        ("./block", "file", b"x" * 512),
        ("./link", "symbolic link", b""),
        ("./last", "file", b"\x00"),
    ]


@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(format_: int) -> None:
    data = tar_of([entry(LONG, b"one"), entry("short", b"two")], format_)
    assert [(member.name, content) for member, content in members(data)] == [
        (LONG, b"one"),
        ("short", b"two"),
    ]


def test_ustar_prefix() -> None:
    name = "folder/" * 20 + "x"
    assert [member.name for member, _ in members(tar_of([entry(name, b"")]))] == [name]


def test_pax_names_are_utf8_and_times_are_left_alone() -> None:
    data = tar_of([entry("caf\u00e9", b"one", mtime=1.25)], tarfile.PAX_FORMAT)
    assert [(member.name, content) for member, content in members(data)] == [("caf\u00e9", b"one")]


def test_a_pax_size_overrides() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("x")
        info.size, info.pax_headers = 3, {"size": "3", "comment": "hello"}
        tar.addfile(info, io.BytesIO(b"abc"))
    assert [content for _, content in members(out.getvalue())] == [b"abc"]


def test_a_global_header_is_passed_over() -> None:
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "0123"}
    ) as tar:
        info = tarfile.TarInfo("x")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    assert [(member.name, content) for member, content in members(out.getvalue())] == [("x", b"abc")]


def test_base_256_numbers() -> None:
    header = bytearray(tar_of([entry("x", b"abc")]))
    header[124:136] = b"\x80" + bytes(10) + b"\x03"
    header[148:156] = f"{sum(header[:148]) + 256 + sum(header[156:512]):06o}\0 ".encode()
    assert [content for _, content in members(bytes(header))] == [b"abc"]


def test_contents_can_be_passed_over() -> None:
    reader = open_tar(tar_of([entry("a", b"x" * 1000), entry("b", b"y")]))
    assert [getattr(reader.next(), "name", None) for _ in range(3)] == ["a", "b", None]


def test_every_cut_is_noticed() -> None:
    data = tar_of([entry("a", b"x" * 600), entry(LONG, b"y")], tarfile.PAX_FORMAT)
    end = data.rindex(b"y") + 512 + 511
    for size in range(0, end - 512, 37):
        with pytest.raises(StopReadingError, match=r"cut short|not a tar archive|empty"):
            members(data[:size])


def test_every_changed_bit_of_a_header_is_noticed() -> None:
    data = tar_of([entry("a", b"x")])
    for position in range(512):
        if 148 <= position < 156:
            continue
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(StopReadingError):
            members(bytes(changed))
