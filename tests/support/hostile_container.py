# SPDX-License-Identifier: Apache-2.0
"""Hostile archives: the tar and its compression."""

from __future__ import annotations

import gzip
import lzma
import struct
import tarfile
import zlib

from archives import entry, tar_bytes, tar_of
from hostile_base import GOOD, GRAPH, SPELLS, add, patched


def _with(*extra: tuple[tarfile.TarInfo, bytes], format_: int = tarfile.USTAR_FORMAT) -> bytes:
    """A good archive with more members."""
    good = [entry(f"./{name}", data) for name, data in GOOD.items()]
    return tar_of([*good, *extra], format_)


def _pax(records: bytes, kind: bytes = b"x", size: int | None = None) -> bytes:
    """A raw pax header, whatever its records."""
    info, _ = entry("pax", records, kind)
    if size is not None:
        info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)


def _record(key: str, value: bytes) -> bytes:
    body = b" " + key.encode() + b"=" + value + b"\n"
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length += 1
    return str(length).encode() + body


def _rechecked(header: bytes) -> bytes:
    """A tar header with a right checksum again."""
    total = sum(header[:148]) + 8 * 32 + sum(header[156:512])
    return header[:148] + f"{total:06o}\0 ".encode() + header[156:]


def add_paths() -> None:
    plain = {
        "traversal": ("../evil.c", "'..'"),
        "traversal inside": ("codegen/../../evil.c", "'..'"),
        "absolute path": ("/etc/cron.d/evil", "absolute"),
        "backslash path": ("codegen\\host\\evil.c", "backslash"),
        "drive letter": ("C:evil.c", "drive letter"),
        "dot component": ("codegen/./host/src/x.c", "'.' component"),
        "empty component": ("codegen//host/src/x.c", "empty"),
        "leading dash": ("codegen/host/src/-o.c", "characters other than"),
        "not UTF-8": ("codegen/host/src/\udcff.c", "non-UTF-8"),
    }
    for name, (path, says) in plain.items():
        add(f"path: {name}", _with(entry(path, b"x")), says)
    for name, spell in SPELLS.items():
        add(f"path: {name}", _with(entry(f"codegen/host/src/{spell}.c", b"x")), "a path with")
    long = "codegen/host/src/" + "x" * 300 + ".c"
    add("path: long (GNU)", _with(entry(long, b"x"), format_=tarfile.GNU_FORMAT), "a path of more than")
    add("path: long (pax)", _with(entry(long, b"x"), format_=tarfile.PAX_FORMAT), "a path of more than")
    pax = _pax(_record("path", b"codegen/host/src/a\x00.c"))
    add("path: NUL (pax)", pax + tar_of([entry("x", b"x")]), "control")
    add("path: twice", _with(entry(f"./{GRAPH}", b"{}")), "occurs twice")
    add("path: twice in other words", _with(entry(GRAPH, b"{}")), "occurs twice")
    add("path: differs in case", _with(entry("METADATA.json", b"{}")), "differs only in case")
    accents = [entry("src/\u00c5.txt", b"x"), entry("src/\u212b.txt", b"x")]
    add("path: differs in normal form", _with(*accents), "differs only in case or accents")
    add("path: file and folder", _with(entry("metadata.json/x", b"")), "both a file and a folder")
    add("path: folder and file", _with(entry("codegen", b"")), "both a file and a folder")
    add("path: folder over a file", _with(entry("metadata.json", type_=tarfile.DIRTYPE)), "both a file")


def add_kinds() -> None:
    kinds = {
        "symbolic link": (tarfile.SYMTYPE, "symbolic link"),
        "hard link": (tarfile.LNKTYPE, "hard link"),
        "character device": (tarfile.CHRTYPE, "character device"),
        "block device": (tarfile.BLKTYPE, "block device"),
        "fifo": (tarfile.FIFOTYPE, "fifo"),
        "contiguous file": (tarfile.CONTTYPE, "contiguous"),
        "sparse file (GNU)": (tarfile.GNUTYPE_SPARSE, "sparse"),
        "long link name (GNU)": (tarfile.GNUTYPE_LONGLINK, "long name"),
        "volume header": (b"V", "unknown kind 'V'"),
        "unknown kind": (b"\xff", "unknown kind"),
    }
    for name, (kind, says) in kinds.items():
        member = entry("codegen/host/src/evil.c", type_=kind, linkname="/etc/passwd")
        add(f"kind: {name}", _with(member), says)
    add(
        "kind: folder with content", _with(entry("src/x", b"content", tarfile.DIRTYPE)), "folder with content"
    )
    sparse = _pax(_record("GNU.sparse.major", b"1") + _record("GNU.sparse.minor", b"0"))
    add("kind: sparse file (pax)", sparse + tar_of([entry("x", b"x")]), "sparse")


def add_headers() -> None:
    tail = tar_of([entry("src/x.txt", b"x")])
    good = tar_bytes(GOOD)
    add("header: pax of a gigabyte", _pax(b"", size=1 << 30) + tail, "an extended header of 1073741824 bytes")
    add("header: pax of 65 kB", _pax(b"x" * 66000) + tail, "an extended header of 66000 bytes")
    long_name, _ = entry("././@LongLink", b"", tarfile.GNUTYPE_LONGNAME)
    long_name.size = 1 << 33
    header = long_name.tobuf(tarfile.GNU_FORMAT)
    add("header: GNU name of 8 GB", header + tail, "an extended header of")
    for name, records in {
        "no length": b"path=x\n",
        "length zero": b"0 path=x\n",
        "length beyond": b"99 path=x\n",
        "huge length": b"99999999999999999999999999 path=x\n",
        "no equals sign": b"7 path\n",
        "no newline": b"10 path=xy",
        "negative length": b"-9 path=x\n",
    }.items():
        add(f"header: pax, {name}", _pax(records) + tail, "a pax header is damaged")
    add("header: pax size is text", _pax(_record("size", b"-1")) + tail, "is no number")
    add("header: pax size is huge", _pax(_record("size", b"9" * 18)) + tail, "at most")
    add("header: global path", _pax(_record("path", b"x"), b"g") + tail, "global header")
    add("header: extended without a member", _pax(_record("path", b"x")) + bytes(1024), "describes no member")
    add("header: extended again and again", _pax(_record("mtime", b"1")) * 8 + tail, "in a row")
    size_field = {
        "negative size": b"\xff" * 12,
        "size of 2^63": b"\x80" + bytes(3) + b"\x80" + bytes(7),
        "size of 2^80": b"\x80\x00\x01" + bytes(9),
        "size is text": b"lots of byte",
    }
    says = ("out of range", "out of range", "out of range", "is no number")
    for (name, field), text in zip(size_field.items(), says, strict=True):
        add(f"header: {name}", _rechecked(good[:124] + field + good[136:]), text)
    add("header: size of 8 GiB", _rechecked(tail[:124] + b"77777777777\0" + tail[136:]), "at most")
    add("header: size beyond the end", _rechecked(tail[:124] + b"00000777777\0" + tail[136:]), "cut short")
    add("header: second checksum wrong", patched(good, 512, "4s", b"evil"), "byte 512")
    add(
        "header: too many members",
        tar_of(entry(f"src/{i}.txt") for i in range(4200)),
        "more than 4096 members",
    )


def add_cuts() -> None:
    good = tar_bytes(GOOD)
    add("cut: in the first header", good[:300], "not a tar archive")
    add("cut: in a header", good[: 512 * 3 + 100], "cut short")
    end_of_content = good.rindex(b"p1") + 8
    add("cut: in a content", good[:end_of_content], "cut short")
    add(
        "cut: before the end mark",
        good.rstrip(b"\x00") + bytes(-len(good.rstrip(b"\x00")) % 512),
        "cut short",
    )
    add("cut: in an extended header", _pax(_record("path", b"x" * 600))[:700], "cut short")
    add("cut: after an extended header", _pax(_record("path", b"x")), "cut short")
    add("container: data behind the end", good + b"evil", "behind the end")
    add("container: empty file", b"", "the file is empty")
    add("container: only zeros", bytes(10240), "no members")
    add("container: text", b"#!/bin/sh\necho evil\n" * 100, "not a tar archive")
    add(
        "container: random bytes",
        struct.pack("<512Q", *((i * 0x9E3779B97F4A7C15) % 2**64 for i in range(512))),
        "tar",
    )
    for name, magic in (("zip", b"PK\x03\x04"), ("bzip2", b"BZh9"), ("zstd", b"\x28\xb5\x2f\xfd")):
        add(f"container: {name}", magic + bytes(2000), f"a {name} file")


def add_compressed() -> None:
    good = tar_bytes(GOOD)
    packed, xz = gzip.compress(good, mtime=0), lzma.compress(good, preset=0)
    zeros = entry("src/zeros.txt", bytes(8 << 20))
    add("gzip: bomb", gzip.compress(tar_of([zeros]), 1, mtime=0), "times its size")
    add("gzip: bomb of zeros", gzip.compress(bytes(32 << 20), 1, mtime=0), "times its size")
    add("gzip: bomb behind the end", packed + gzip.compress(bytes(16 << 20), 1, mtime=0), "times its size")
    add(
        "gzip: pax bomb",
        gzip.compress(_pax(b"", size=4 << 20) + bytes(4 << 20), mtime=0),
        "an extended header",
    )
    add("gzip: cut", packed[: len(packed) // 2], "cut short")
    add("gzip: cut in its header", packed[:5], "cut short")
    add("gzip: wrong checksum", packed[:-8] + b"\0\0\0\0" + packed[-4:], "damaged")
    add("gzip: damaged", patched(packed, len(packed) // 2, "8s", b"\xff" * 8), "d")
    add("gzip: data behind", packed + b"evil data", "behind the compressed archive")
    add("gzip: in gzip", gzip.compress(packed, mtime=0), "not a tar archive")
    add("gzip: many streams", packed + gzip.compress(b"", mtime=0) * 100, "compressed streams")
    add("xz: bomb", lzma.compress(tar_of([zeros]), preset=0), "times its size")
    add("xz: cut", xz[: len(xz) // 2], "cut short")
    add("xz: damaged", patched(xz, len(xz) // 2, "8s", b"\xff" * 8), "damaged")
    add("xz: data behind", xz + b"evil data", "behind the compressed archive")
    block = xz[12 : 12 + (xz[12] + 1) * 4]
    greedy = patched(block[:-4], 4, "B", 40)
    greedy += struct.pack("<I", zlib.crc32(greedy))
    add("xz: dictionary of 4 GiB", xz[:12] + greedy + xz[12 + len(block) :], "emory")
