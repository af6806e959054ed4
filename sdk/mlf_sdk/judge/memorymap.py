# SPDX-License-Identifier: Apache-2.0
"""Contents of each memory of the board: every byte of the image belongs to one part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mlf_sdk.analysis.elf.image import Image, Section, Symbol
from mlf_sdk.codegen.lock import Lock, LockModel
from mlf_sdk.ir.names import input_symbol

PartKind = Literal[
    "vectors",
    "runtime",
    "server",
    "application",
    "kernels",
    "library",
    "tables",
    "params",
    "constants",
    "init",
    "stack",
    "arena",
    "statics",
    "data",
    "bss",
]

_VECTORS = (".vectors", ".isr_vector", "rom_start")
_RUNTIME = ("mlf_", "TVMBackend", "TVMAPI")
_SERVER = ("mlf_rpc_", "mlf_frame_")
_SERVER_FILES = ("crt/baremetal/uart_rx.c",)  # the receive window of the server
_SERVER_STATE = ("src/main.c", "rpc")  # file and variable of the generated application
_CONSTANT_POOL = "global_const_workspace"  # TVM's name of constants in the code of a planned entry
_SMALL_GAP = 16  # padding behind a symbol belongs to it


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """Bytes of one kind in a memory; ``address`` is the lowest."""

    kind: PartKind
    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMap:
    """A memory of the board and its parts, by address."""

    name: str
    origin: int
    size_bytes: int
    parts: tuple[MemoryPart, ...]

    @property
    def used_bytes(self) -> int:
        """Bytes up to the end of the last section, padding between sections included."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def product_bytes(self) -> int:
        """Bytes that are used without the RPC server."""
        return self.used_bytes - sum(part.size_bytes for part in self.parts if part.kind == "server")

    @property
    def free_bytes(self) -> int:
        """Bytes behind the last section."""
        return self.size_bytes - self.used_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeItem:
    """A function or constant in the image, and the kind of part it belongs to."""

    name: str
    kind: PartKind
    section: str
    size_bytes: int
    is_function: bool


def placed_parameters(model: LockModel, image: Image) -> tuple[int | None, str]:
    """Bytes of the parameters in the image, and what is wrong with their place or values; empty: nothing.

    Values are compared with the lock's hash; one of an earlier SDK has none.
    """
    blobs = [image.find(name) for name in model.params_symbols]
    first, last = blobs[0], blobs[-1]
    if first is None:
        return None, "the parameters are not linked"
    size = first.size_bytes
    if model.params_places and last is not None:
        size = model.params_places[-1].first + last.size_bytes
    if first.address % 16:
        return size, f"not 16-byte aligned: 0x{first.address:08x}"
    held = hashlib.sha256(b"".join(image.bytes_at(one.address, one.size_bytes) for one in blobs if one))
    is_other = size == model.params_bytes and model.params_sha256 not in ("", held.hexdigest())
    return size, "their values are not those of the model" if is_other else ""


class Contents:
    """Classification of symbols by the kind of their contents.

    Debug information says where code came from; without it names decide.
    """

    def __init__(self, lock: Lock, image: Image) -> None:
        self._image = image
        self._serves = lock.options.app == "rpc"
        holder: PartKind = "server" if self._serves else "application"
        self._kinds: dict[str, PartKind] = {}
        for model in lock.models:
            self._kinds |= dict.fromkeys(model.params_symbols, "params")
            self._kinds |= dict.fromkeys(model.arena_symbols, "arena")
            self._kinds[input_symbol(model.c_name)] = holder
        self._kernels = {name for m in lock.models for name in (*m.kernel_symbols, *m.code_symbols)}
        self._tables = tuple(f"{model.c_name}_" for model in lock.models)

    def kind(self, symbol: Symbol, section: Section) -> PartKind | None:
        """Kind of part that a symbol belongs to; None: only its section decides."""
        if symbol.name in self._kinds:
            return self._kinds[symbol.name]
        if symbol.name.startswith(_CONSTANT_POOL):
            return "params"
        if section.name in _VECTORS:
            return "vectors"
        is_copied = section.load_address != section.address
        in_ram = is_copied or not section.in_file
        if in_ram and symbol.name.endswith(("_stack", "_stacks")):
            return "stack"
        result = self._by_origin(symbol)
        if in_ram and symbol.is_object and result == "params":
            return "statics"
        return None if is_copied and section.in_file else result

    def statics(self) -> tuple[Symbol, ...]:
        """Objects in RAM that the code of models brings itself: memory that no plan knows, by address."""
        sections = {section.name: section for section in self._image.sections}
        result = {
            (symbol.address, symbol.section): symbol
            for symbol in self._image.symbols
            if symbol.size_bytes
            and symbol.section in sections
            and self.kind(symbol, sections[symbol.section]) == "statics"
        }
        return tuple(symbol for _, symbol in sorted(result.items()))

    def _by_origin(self, symbol: Symbol) -> PartKind | None:
        """Kind of part by the source file of a symbol, else by its name."""
        debug = self._image.debug
        path = debug.path_at(symbol.address) if symbol.is_function else ""
        path = path or debug.full_path(symbol.file)
        if self._serves and self._is_server(path, symbol):
            return "server"
        return self._of_path(path, symbol) or self._of_name(symbol)

    @staticmethod
    def _is_server(path: str, symbol: Symbol) -> bool:
        """Tell what only the RPC server needs: its code, state and buffers."""
        return (
            path.startswith("crt/rpc/")
            or path in _SERVER_FILES
            or (path, symbol.name) == _SERVER_STATE
            or symbol.name.startswith(_SERVER)
        )

    def _of_path(self, path: str, symbol: Symbol) -> PartKind | None:
        folders = path.split("/")[:-1]
        is_made = folders[:1] == ["model"] and folders[2:] == ["kernels"]
        if (
            is_made
            or "codegen" in folders
            or any("cmsis" in folder.lower() for folder in folders if "crt" not in folders)
        ):
            return "kernels" if symbol.is_function else "params"
        for folder, kind in (("crt", "runtime"), ("model", "tables"), ("src", "application")):
            if folders[:1] == [folder]:
                return kind  # type: ignore[return-value]
        return "library" if folders and symbol.is_function else None

    def _of_name(self, symbol: Symbol) -> PartKind | None:
        if symbol.name in self._kernels:
            return "kernels" if symbol.is_function else "params"
        if symbol.name.startswith(self._tables):
            return "tables"
        if symbol.name.startswith(_RUNTIME):
            return "runtime"
        return "library" if symbol.is_function else None

    def items(self) -> tuple[CodeItem, ...]:
        """Functions and constants that the image's file holds, largest first."""
        sections = {section.name: section for section in self._image.sections if section.in_file}
        result: dict[tuple[int, str], CodeItem] = {}
        for symbol in self._image.symbols:
            section = sections.get(symbol.section)
            if section is None or not symbol.size_bytes or not (symbol.is_function or symbol.is_object):
                continue
            kind = self.kind(symbol, section) or self._default(section)
            item = CodeItem(
                name=symbol.name,
                kind=kind,
                section=section.name,
                size_bytes=symbol.size_bytes,
                is_function=symbol.is_function,
            )
            result.setdefault((symbol.address, section.name), item)
        return tuple(sorted(result.values(), key=lambda i: (-i.size_bytes, i.name)))

    def runs(self, section: Section) -> Iterator[tuple[PartKind, int, int]]:
        """(kind, address, bytes) of stretches that fill the section exactly."""
        default = self._default(section)
        cursor, end = section.address, section.address + section.size_bytes
        last: PartKind = default
        for symbol in self._image.symbols:
            inside = symbol.section == section.name and cursor <= symbol.address < end
            if not inside or not symbol.size_bytes:
                continue
            kind = self.kind(symbol, section) or default
            gap = symbol.address - cursor
            if gap:
                yield (last if gap < _SMALL_GAP else default), cursor, gap
            size = min(symbol.size_bytes, end - symbol.address)
            yield kind, symbol.address, size
            cursor, last = symbol.address + size, kind
        if cursor < end:
            yield (last if end - cursor < _SMALL_GAP else default), cursor, end - cursor

    @staticmethod
    def _default(section: Section) -> PartKind:
        if section.name in _VECTORS:
            return "vectors"
        if "stack" in section.name:
            return "stack"
        if not section.in_file:
            return "bss"
        if section.load_address != section.address or section.name.startswith((".data", "datas")):
            return "data"
        return "library" if section.name.startswith((".text", "text")) else "constants"


def region_use(sections: Sequence[Section], regions: Sequence[tuple[str, int, int]]) -> tuple[Region, ...]:
    """Compute the use of each memory region (name, origin, size in bytes) as the linker does.

    A region is used from its origin to the end of the last section in it, padding between sections included.
    A section counts where it runs, and once more where its bytes are loaded from.
    """
    result = []
    for name, origin, size in regions:
        ends = [at + length for at, length in _places(sections, origin, size)]
        used = max(ends, default=origin) - origin
        result.append(Region(name=name, origin=origin, size_bytes=size, used_bytes=used))
    return tuple(result)


def _places(sections: Sequence[Section], origin: int, size: int) -> Iterator[tuple[int, int]]:
    """(address, bytes) of what lies in a region."""
    for section in sections:
        places = {section.address, section.load_address} if section.in_file else {section.address}
        yield from (
            (at, section.size_bytes) for at in places if section.size_bytes and origin <= at < origin + size
        )


def file_bytes(sections: Sequence[Section], region: Region) -> int:
    """Bytes of a region's use that the image's file holds; the rest is written at run time."""
    end = region.origin + region.size_bytes
    inside = [s for s in sections if s.size_bytes and region.origin <= s.address < end]
    if all(s.in_file and s.load_address == s.address for s in inside):
        return region.used_bytes
    return sum(s.size_bytes for s in sections if s.in_file and region.origin <= s.load_address < end)


def memory_maps(
    contents: Contents, image: Image, regions: Sequence[tuple[str, int, int]]
) -> tuple[MemoryMap, ...]:
    """Divide each region (name, origin, size in bytes) into parts; the totals are those of ``region_use``.

    Padding between sections belongs to the part before it.
    """
    maps = []
    for name, origin, size in regions:
        stretches: list[tuple[int, int, PartKind]] = []
        for section in image.sections:
            if origin <= section.address < origin + size:
                stretches += [(at, length, kind) for kind, at, length in contents.runs(section)]
            copied = section.in_file and section.load_address != section.address
            if copied and section.size_bytes and origin <= section.load_address < origin + size:
                stretches.append((section.load_address, section.size_bytes, "init"))
        parts = _parts(sorted(stretches), origin)
        maps.append(MemoryMap(name=name, origin=origin, size_bytes=size, parts=parts))
    return tuple(maps)


def _parts(stretches: Sequence[tuple[int, int, PartKind]], origin: int) -> tuple[MemoryPart, ...]:
    """Sums by kind of stretches (address, bytes, kind) in order, by address."""
    parts: dict[PartKind, MemoryPart] = {}
    cursor = origin
    last = stretches[0][2] if stretches else None
    for address, length, kind in stretches:
        if address > cursor:
            _add(parts, last or kind, cursor, address - cursor)
        _add(parts, kind, address, length)
        cursor, last = max(cursor, address + length), kind
    return tuple(sorted(parts.values(), key=lambda p: (p.address, p.kind)))


def _add(parts: dict[PartKind, MemoryPart], kind: PartKind, address: int, size_bytes: int) -> None:
    before = parts.get(kind)
    parts[kind] = MemoryPart(
        kind=kind,
        address=min(before.address, address) if before else address,
        size_bytes=size_bytes + (before.size_bytes if before else 0),
    )
