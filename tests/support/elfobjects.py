# SPDX-License-Identifier: Apache-2.0
"""Object files for Arm made byte by byte, with any symbols, relocations and build attributes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

M4F = {5: "cortex-m4", 6: 13, 7: ord("M"), 9: 2, 10: 6, 23: 3, 27: 1, 28: 1}
M4 = {5: "cortex-m4", 6: 13, 7: ord("M"), 9: 2, 23: 3}
M3 = {5: "cortex-m3", 6: 10, 7: ord("M"), 9: 2}
M0 = {6: 11, 7: ord("M"), 9: 1}
M55 = {6: 21, 10: 8, 23: 3, 28: 1, 48: 2}


def uleb(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def attributes(tags: dict) -> bytes:
    body = b"".join(
        uleb(t) + (v.encode() + b"\0" if isinstance(v, str) else uleb(v)) for t, v in tags.items()
    )
    group = b"\x01" + struct.pack("<I", len(body) + 5) + body
    vendor = b"aeabi\0" + group
    return b"A" + struct.pack("<I", len(vendor) + 4) + vendor


@dataclass
class Elf:
    """A relocatable ARM object: one section of code, symbols, relocations, attributes."""

    text: bytes = b"\x70\x47"  # bx lr
    tags: dict | None = field(default_factory=lambda: dict(M4))
    symbols: list = field(default_factory=lambda: [("k", 1, 18, 1)])  # name, value, info, section
    relocations: list = field(default_factory=list)  # offset, type, index of symbol from 1
    machine: int = 40
    type: int = 1

    def build(self, attribute_bytes: bytes | None = None) -> bytes:
        names, symbols = b"\0", struct.pack("<IIIBBH", 0, 0, 0, 0, 0, 0)
        for name, value, info, section in self.symbols:
            symbols += struct.pack("<IIIBBH", len(names), value, 0, info, 0, section)
            names += name.encode() + b"\0"
        relocations = b"".join(struct.pack("<II", o, s << 8 | t) for o, t, s in self.relocations)
        notes = (
            attributes(self.tags)
            if attribute_bytes is None and self.tags is not None
            else attribute_bytes or b""
        )
        sections = [  # name, type, flags, data, link, info, entry size
            ("", 0, 0, b"", 0, 0, 0),
            (".text", 1, 6, self.text, 0, 0, 0),
            (".rel.text", 9, 0, relocations, 3, 1, 8),
            (".symtab", 2, 0, symbols, 4, 1, 16),
            (".strtab", 3, 0, names, 0, 0, 0),
            (".ARM.attributes", 0x70000003 if notes else 1, 0, notes, 0, 0, 0),
            (".bss", 8, 3, b"", 0, 0, 0),
        ]
        section_names = b"".join(s[0].encode() + b"\0" for s in sections) + b".shstrtab\0"
        sections.append((".shstrtab", 3, 0, section_names, 0, 0, 0))
        body, rows, at = b"", b"", 52
        for name, kind, flags, data, link, info, entry in sections:
            size = 100 if kind == 8 else len(data)
            offset = section_names.index(name.encode() + b"\0")
            rows += struct.pack("<10I", offset, kind, flags, 0, at + len(body), size, link, info, 4, entry)
            body += data
        head = b"\x7fELF\x01\x01\x01" + b"\0" * 9
        head += struct.pack(
            "<HHIIIIIHHHHHH", self.type, self.machine, 1, 0, 0, at + len(body), 0x5000000, 52, 0, 0, 40, 8, 7
        )
        return head + body + rows
