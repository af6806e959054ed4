# SPDX-License-Identifier: Apache-2.0
"""The serialized modules of a library as bytes: found in an object, a shared library or a C array."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mlf_sdk.analysis.elf.raw import ET_DYN, ElfFormatError, RawElf, RawSymbol, read_elf
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.exported.generation import Generation, generation_of
from mlf_sdk.frontends.exported.tree import Module, read_modules
from mlf_sdk.frontends.glow.weights import parse_bytes
from mlf_sdk.frontends.mlf.params import Damaged

_LENGTH_BYTES: Final = 8
_ARRAY: Final = re.compile(
    rb"\bconst\s+unsigned\s+char\s+([A-Za-z_][A-Za-z0-9_]{0,255})\s*\[\s*([0-9]{1,12})\s*\]\s*=\s*\{"
)


class Serialized(msgspec.Struct, frozen=True, kw_only=True):
    """Serialized modules.

    Attributes:
        symbol: that names them.
        member: file that they are in.
        modules: the first is the root.
    """

    symbol: str
    member: str
    generation: Generation
    modules: tuple[Module, ...]

    @property
    def prefix(self) -> str:
        """Prefix of a system library; empty for none."""
        return self.symbol.removesuffix(self.generation.symbol)


def serialized_in_elf(data: bytes, member: str, faults: FaultCollector) -> Serialized | None:
    """Read the serialized modules of an object or a shared library; None: there are none."""
    try:
        elf = read_elf(data)
    except ElfFormatError as error:
        faults.add(member, f"the file is broken: {error}")
        return None
    result = [s for s in elf.symbols if s.is_defined and generation_of(s.name) is not None]
    if not result:
        return None
    if len({s.name for s in result}) > 1:
        faults.add(member, f"it holds the modules of several libraries: {', '.join(s.name for s in result)}")
        return None
    if not elf.is_little_endian:
        faults.add(member, "its byte order is big-endian, which is not supported")
        return None
    content = _symbol_data(elf, result[0])
    if content is None:
        faults.add(member, f"the symbol {result[0].name} is in no section with data")
        return None
    return _serialized(content, result[0].name, member, result[0].size, faults)


def serialized_in_c(data: bytes, member: str, faults: FaultCollector) -> Serialized | None:
    """Read the serialized modules of a C array; None: the text has none."""
    result = [m for m in _ARRAY.finditer(data) if generation_of(m[1].decode()) is not None]
    if len(result) != 1:
        if result:
            faults.add(member, "it holds the modules of several libraries")
        return None
    symbol, declared = result[0][1].decode(), int(result[0][2])
    content = parse_bytes(data[result[0].start() :].decode("latin-1"))
    if content is None:
        faults.add(member, f"the array {symbol} is not a list of bytes")
        return None
    if len(content) != declared:
        faults.add(member, f"the array {symbol} has {len(content)} bytes; {declared} are declared")
        return None
    return _serialized(content, symbol, member, declared, faults)


def _symbol_data(elf: RawElf, symbol: RawSymbol) -> bytes | None:
    """Bytes from a symbol to the end of its section; None when there are none."""
    if symbol.section >= len(elf.sections):
        return None
    section = elf.sections[symbol.section]
    start = symbol.value - (section.address if elf.type == ET_DYN else 0)
    return bytes(section.data[start:]) if 0 <= start < len(section.data) else None


def _serialized(
    content: bytes, symbol: str, member: str, size: int, faults: FaultCollector
) -> Serialized | None:
    """Read modules behind their total length; ``size``: of the symbol, 0 where it is not stated."""
    generation = generation_of(symbol)
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    end, room = _LENGTH_BYTES + length, size or len(content)
    if generation is None or room < _LENGTH_BYTES or not end <= room <= len(content) or size not in (0, end):
        what = f"{symbol} states {length} bytes of modules; it has {max(room - _LENGTH_BYTES, 0)}"
        faults.add(member, what, field="byte 0")
        return None
    try:
        modules = read_modules(content[:end], _LENGTH_BYTES, generation)
    except Damaged as damage:
        faults.add(member, f"{symbol}: {damage.what}", field=f"byte {damage.offset}")
        return None
    return Serialized(symbol=symbol, member=member, generation=generation, modules=modules)
