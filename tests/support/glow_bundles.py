# SPDX-License-Identifier: Apache-2.0
"""Bundles in Glow's layout: objects made byte by byte, headers, and whole ones compiled from C."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from elfobjects import M4F, attributes

FUNCTION, OBJECT, LOCAL_OBJECT, SECTION = 0x12, 0x11, 0x01, 0x03


@dataclass(frozen=True)
class Placeholder:
    """A row of a header."""

    name: str
    offset: int
    extents: tuple[int, ...]
    kind: str = "float"
    element_bytes: int = 4

    @property
    def elements(self) -> int:
        return int(np.prod(self.extents, dtype=np.int64))

    @property
    def type(self) -> str:
        return f"{self.kind}<{' x '.join(map(str, self.extents))}>"


X, Y = Placeholder("x", 0, (1, 8)), Placeholder("y", 64, (1, 4))
VERSION = "// Glow Tools version: 2024-05-11 (05dd99b97) ()\n"


@dataclass(frozen=True)
class Text:
    """Parts of a header with the static API."""

    name: str = "net"
    placeholders: tuple[Placeholder, ...] = (Y, X)
    sizes: tuple[int, int, int, int] = (64, 128, 64, 64)
    entries: tuple[str, ...] = ("int net",)
    version: str = VERSION
    config: str = ""
    more: str = ""

    def build(self) -> str:
        prefix = self.name.upper()
        blocks = "".join(
            f'//   Name: "{p.name}"\n//   Type: {p.type}\n//   Size: {p.elements} (elements)\n'
            f"//   Size: {p.elements * p.element_bytes} (bytes)\n//   Offset: {p.offset} (bytes)\n//\n"
            for p in self.placeholders
        )
        names = ("CONSTANT_MEM_SIZE", "MUTABLE_MEM_SIZE", "ACTIVATIONS_MEM_SIZE", "MEM_ALIGN")
        macros = "".join(f"#define {prefix}_{p.name}  {p.offset}\n" for p in self.placeholders)
        macros += "".join(f"#define {prefix}_{n}  {v}\n" for n, v in zip(names, self.sizes, strict=True))
        api = f"extern BundleConfig {self.config}_config;\n" if self.config else macros
        arguments = "(uint8_t *constantWeight, uint8_t *mutableWeight, uint8_t *activations);\n"
        return (
            f"// Bundle API auto-generated header file. Do not edit!\n{self.version}\n"
            f"#ifndef _GLOW_BUNDLE_{prefix}_H\n#define _GLOW_BUNDLE_{prefix}_H\n#include <stdint.h>\n"
            "#ifndef _GLOW_BUNDLE_COMMON_DEFS\n#define _GLOW_BUNDLE_COMMON_DEFS\n#endif\n"
            f'// Model name: "{self.name}"\n// Placeholders:\n//\n{blocks}{self.more}'
            f"// NOTE: Placeholders are allocated\n{api}"
            + "".join(entry + arguments for entry in self.entries)
            + "#endif\n"
        )


@dataclass
class Elf:
    """An ELF file of any sections: name -> (flags, address, data).

    Attributes:
        symbols: name, section, value, size, info.
        relocations: by section: offset, index of the symbol from 1, addend (RELA only).
    """

    sections: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)
    symbols: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    relocations: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    bits: int = 32
    machine: int = 40
    type: int = 1

    def build(self) -> bytes:
        wide = self.bits == 64
        names, table = b"\0", b"\0" * (24 if wide else 16)
        for name, section, value, size, info in self.symbols:
            at = len(names) if name else 0
            names += name.encode() + b"\0" if name else b""
            table += (
                struct.pack("<IBBHQQ", at, info, 0, section, value, size)
                if wide
                else struct.pack("<IIIBBH", at, value, size, info, 0, section)
            )
        rows: list[tuple[str, int, int, int, bytes, int, int, int]] = [("", 0, 0, 0, b"", 0, 0, 0)]
        for name, (flags, address, data) in self.sections.items():
            rows.append((name, 0x70000003 if "attributes" in name else 1, flags, address, data, 0, 0, 0))
        symtab = len(rows) + len(self.relocations)
        index = {row[0]: number for number, row in enumerate(rows)}
        for name, entries in self.relocations.items():
            data = b"".join(
                struct.pack("<QQq", o, s << 32 | 1, a) if wide else struct.pack("<II", o, s << 8 | 2)
                for o, s, a in entries
            )
            rows.append((f".rel{name}", 4 if wide else 9, 0, 0, data, symtab, index[name], 24 if wide else 8))
        rows.append((".symtab", 2, 0, 0, table, symtab + 1, 1, 24 if wide else 16))
        rows.append((".strtab", 3, 0, 0, names, 0, 0, 0))
        text = b"".join(row[0].encode() + b"\0" for row in rows) + b".shstrtab\0"
        rows.append((".shstrtab", 3, 0, 0, text, 0, 0, 0))
        body, heads, start = b"", b"", 64 if wide else 52
        for name, kind, flags, address, data, link, info, entry in rows:
            values = (text.index(name.encode() + b"\0"), kind, flags, address, start + len(body), len(data))
            heads += struct.pack("<IIQQQQIIQQ" if wide else "<10I", *values, link, info, 4, entry)
            body += data
        ident = b"\x7fELF" + (b"\x02" if wide else b"\x01") + b"\x01\x01" + b"\0" * 9
        form, sizes = ("<HHIQQQIHHHHHH", (64, 0, 0, 64)) if wide else ("<HHIIIIIHHHHHH", (52, 0, 0, 40))
        return (
            ident
            + struct.pack(
                form, self.type, self.machine, 1, 0, 0, start + len(body), 0, *sizes, len(rows), len(rows) - 1
            )
            + body
            + heads
        )


def code(*entries: str, undefined: Sequence[str] = (), local: Sequence[str] = ()) -> Elf:
    """An object for Cortex-M4F that defines ``entries`` (each returns at once)."""
    made = Elf({".text": (6, 0, b"\x70\x47" * 8), ".ARM.attributes": (0, 0, attributes(M4F))})
    made.symbols += [(name, 1, 1, 2, 0x02) for name in local]
    made.symbols += [(name, 1, 1, 2, FUNCTION) for name in entries]
    made.symbols += [(name, 0, 0, 0, 0x10) for name in undefined]
    return made


Row = tuple[str, int, int, int]  # name, offset, elements, kind
ROWS: tuple[Row, ...] = (("x", 0, 8, 1), ("y", 64, 4, 1))


@dataclass
class Dynamic:
    """An object with the dynamic API."""

    rows: tuple[Row, ...] = ROWS
    sizes: tuple[int, ...] = (64, 128, 64, 64)
    stated: int | None = None
    bits: int = 32
    name: str = "net"
    entries: tuple[str, ...] = ("net",)
    table_bytes: int | None = None
    early: bool = False
    address: int = 0

    def elf(self) -> Elf:
        wide, base = self.bits == 64, self.address
        pointer = "<Q" if wide else "<I"
        texts, at = b"", []
        for name, *_ in self.rows:
            at.append(len(texts))
            texts += name.encode("latin-1") + b"\0"
        strings = base + 0x1000 if base else 0
        table = b"".join(
            struct.pack(pointer, (strings + start) if base or not wide else 0).ljust(8, b"\0")
            + struct.pack("<QQB7x", offset, elements, kind)
            for start, (_, offset, elements, kind) in zip(at, self.rows, strict=True)
        )
        config = struct.pack(f"<{len(self.sizes)}Q", *self.sizes)
        if self.early:
            config = config[:24]
        else:
            config += struct.pack("<Q", len(self.rows) if self.stated is None else self.stated)
            config += struct.pack(pointer, base).ljust(8, b"\0")
        made = Elf(bits=self.bits, machine=62 if wide else 40, type=2 if base else 1)
        made.sections = {
            ".text": (6, 0x800 if base else 0, b"\x70\x47" * 8),
            ".rodata": (2, base, table + config),
            ".str": (0x32, strings, texts),
        }
        if not wide:
            made.sections[".ARM.attributes"] = (0, 0, attributes(M4F))
        size = len(table) if self.table_bytes is None else self.table_bytes
        made.symbols = [("", 2, 0, 0, SECTION), ("", 3, 0, 0, SECTION)]
        made.symbols += [(f"{self.name}SymbolTable", 2, base, size, LOCAL_OBJECT)]
        made.symbols += [(name, 1, 1, 2, FUNCTION) for name in self.entries]
        made.symbols += [(f"{self.name}_config", 2, base + len(table), len(config), OBJECT)]
        if not base and not self.early:
            made.relocations[".rodata"] = [(32 * i, 2, start) for i, start in enumerate(at)]
            made.relocations[".rodata"] += [(len(table) + 40, 1, 0)]
        return made

    def build(self) -> bytes:
        return self.elf().build()


def archive(members: Sequence[tuple[str, bytes]], *, index: bool = True, bsd: bool = False) -> bytes:
    """An `ar` archive; names that are long or hold a slash go into a table, or before the content (BSD)."""
    out, table = b"!<arch>\n", b""

    def part(name: str, data: bytes) -> bytes:
        return (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode()
            + data
            + b"\n" * (len(data) % 2)
        )

    names = {}
    for name, _ in members:
        if not bsd and (len(name) > 15 or "/" in name):
            names[name] = f"/{len(table)}"
            table += name.encode() + b"/\n"
    if index:
        out += part("/", b"\0" * 4)
    if table:
        out += part("//", table)
    for name, data in members:
        if bsd:
            out += part(f"#1/{len(name)}", name.encode() + data)
        else:
            out += part(names.get(name, f"{name}/"), data)
    return out


def write_bundle(
    folder: Path,
    text: Text | None = Text(),
    data: bytes | None = None,
    weights: bytes | None = None,
    **changes: Any,
) -> Path:
    """Write a bundle of one object; ``changes`` are of its header."""
    folder.mkdir(parents=True, exist_ok=True)
    if text is not None:
        text = replace(text, **changes)
        (folder / f"{text.name}.h").write_text(text.build())
    (folder / "net.o").write_bytes(code("net").build() if data is None else data)
    size = 64 if text is None else text.sizes[0]
    (folder / "net.weights.bin").write_bytes(bytes(range(64)) * (size // 64) if weights is None else weights)
    return folder


# ---- bundles that run ----

SCALE = """\
#include <stdint.h>
#include <string.h>
%(more)s
int %(entry)s(uint8_t *constantWeight, uint8_t *mutableWeight, uint8_t *activations) {
  const float *w = (const float *)constantWeight;
  const float *x = (const float *)mutableWeight;
  float *y = (float *)(mutableWeight + 64), *t = (float *)activations;
  for (int i = 0; i < 16; ++i) t[i] = x[i %% 8] * w[i];
  for (int i = 0; i < %(writes)d; ++i) y[i] = private_sum(t + 4 * i);
  return %(result)s;
}
"""
PRIVATE = """\
float private_sum(const float *t);
"""
KERNEL = """\
float private_sum(const float *t) { return %(scale)sf * (t[0] + t[1] + t[2] + t[3]); }
"""
WEIGHTS = np.arange(1, 17, dtype=np.float32)
CORES = {
    "m4": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
    "m7": ("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard"),
    "m3": ("arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mfloat-abi=soft"),
    "rv32imac": ("riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32", "-specs=picolibc.specs"),
    "host": ("gcc",),
}


def scaled(x: Any, scale: float) -> Any:
    """The output of a bundle of `make_scaler`: (inferences, 1, 8) to (inferences, 1, 4)."""
    t = np.concatenate([x, x], axis=-1).astype(np.float32) * WEIGHTS
    return np.float32(scale) * t.reshape(*x.shape[:-1], 4, 4).sum(axis=-1, dtype=np.float32)


def make_scaler(
    folder: Path,
    *,
    scale: int = 1,
    core: str = "m4",
    more: str = "",
    version: str = VERSION,
    result: str = "0",
    writes: int = 4,
) -> Path:
    """Compile a bundle whose private kernel is a member of its own, the same in name for every bundle.

    Args:
        core: one of `CORES`.
        more: C code before the entry.
        version: line of the header.
        result: C expression of what the entry returns.
        writes: elements of the output that it writes.
    """
    name = "scaler"
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "entry": name,
        "scale": f"{scale}.0",
        "more": PRIVATE + more,
        "result": result,
        "writes": writes,
    }
    objects = []
    for stem, text in ((name, SCALE % values), ("private", KERNEL % values)):
        (folder / f"{stem}.c").write_text(text)
        command = [
            *CORES[core],
            "-c",
            "-O1",
            "-ffp-contract=off",
            f"{stem}.c",
            "-o",
            f"{stem}.part",
        ]
        subprocess.run(command, cwd=folder, check=True)
        objects.append(f"{stem}.part")
        (folder / f"{stem}.c").unlink()
    archiver = CORES[core][0].removesuffix("gcc") + "ar"
    subprocess.run([archiver, "rcs", f"{name}.o", *objects], cwd=folder, check=True)
    for part in objects:
        (folder / part).unlink()
    text = Text(name=name, entries=(f"int {name}",), version=version)
    (folder / f"{name}.h").write_text(text.build())
    (folder / f"{name}.weights.bin").write_bytes(WEIGHTS.tobytes())
    return folder
