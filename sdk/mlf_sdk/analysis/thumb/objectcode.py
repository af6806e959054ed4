# SPDX-License-Identifier: Apache-2.0
"""The machine code of an Arm object of unknown origin, laid out as a linker would, at made-up addresses.

Its sections lie where a Cortex-M runs no code and no constant of a program points to (the vendor's part of
the system region, from 0xF0000000 on), so that an address cannot be taken for a number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlf_sdk.analysis.elf import raw
from mlf_sdk.analysis.elf.image import Function
from mlf_sdk.analysis.elf.raw import RawElf, RawSymbol
from mlf_sdk.analysis.thumb import decode
from mlf_sdk.analysis.thumb.decode import Undecoded
from mlf_sdk.analysis.thumb.flow import UntraceableError

if TYPE_CHECKING:
    from mlf_sdk.analysis.thumb.decode import Instruction

MAX_INSTRUCTIONS = 50_000
"""Instructions that are decoded of one object."""

FIRST_ADDRESS = 0xF000_0000
FIRST_UNDEFINED = 0xFF00_0000
_GAP = 16  # between sections: the address behind one is in no other
_R_ARM_ABS32 = 2


class ObjectCode:
    """The code of an object, decoded on demand.

    Attributes:
        undefined: names of the symbols that it needs, by the address that stands for each.
    """

    strict = True

    def __init__(self, elf: RawElf) -> None:
        """Lay out the sections of ``elf``, and index its relocations and functions.

        Raises:
            UntraceableError: they do not fit.
        """
        self.elf = elf
        self.visits = 0
        self.decoded = 0
        self._instructions: dict[int, _Instructions] = {}
        self._starts: list[int] = []
        at = FIRST_ADDRESS
        for section in elf.sections:
            self._starts.append(at)
            at += (len(section.data) + 3 & ~3) + _GAP
        if at > FIRST_UNDEFINED:
            raise UntraceableError("the object is too large")
        self.undefined = {
            FIRST_UNDEFINED + 4 * i: s.name for i, s in enumerate(elf.symbols) if not s.is_defined
        }
        self.functions: dict[int, Function] = {}
        for symbol in elf.symbols:
            address = self.address_of(symbol)
            if symbol.type == raw.STT_FUNC and address is not None:
                self.functions[address] = _function(symbol.name, address, symbol.size)
        self._relocations = {
            self._starts[r.section] + r.offset: r
            for r in elf.relocations
            if r.offset < len(elf.sections[r.section].data)
        }

    def address_of(self, symbol: RawSymbol) -> int | None:
        """The address of a symbol that the object defines in a section, without the Thumb bit."""
        if not symbol.is_defined or symbol.section >= len(self._starts):
            return None
        return self._starts[symbol.section] + (symbol.value & ~1)

    def function_at(self, address: int) -> Function:
        """The function that begins at an address; code without a symbol is one as well."""
        return self.functions.get(address) or _function("", address, 0)

    def name_at(self, address: int) -> str:
        """The name of a function that is needed or defined; else the offset in its section."""
        if address in self.undefined:
            return self.undefined[address]
        section, offset = self._place(address)
        return f"{offset:#x}" if section is not None else ""

    def instructions(self, function: Function) -> Mapping[int, Instruction | Undecoded]:
        """The instructions of the section that a function lies in."""
        section, offset = self._place(function.address)
        if section is None or not section.flags & raw.SHF_EXECINSTR:
            return {}
        start = function.address - offset
        if start not in self._instructions:
            self._instructions[start] = _Instructions(self, section.data, start)
        return self._instructions[start]

    def branch_target(self, instruction: Instruction) -> int | None:
        """The address that a direct branch or call goes to, once it is linked."""
        target = decode.label(instruction)
        relocation = self._relocations.get(instruction.address)
        if relocation is None:
            return target
        symbol = self.elf.symbols[relocation.symbol]
        if not symbol.is_defined:
            return FIRST_UNDEFINED + 4 * relocation.symbol
        address = self.address_of(symbol)
        return None if address is None else address + target - instruction.address

    def is_relocated(self, address: int) -> bool:
        """True when the linker will still change the instruction at an address."""
        return address in self._relocations

    def word(self, address: int) -> int | None:
        """The word at an address, once it is linked."""
        section, offset = self._place(address)
        if section is None or offset + 4 > len(section.data):
            return None
        word = int.from_bytes(section.data[offset : offset + 4], "little")
        relocation = self._relocations.get(address)
        if relocation is None:
            return word
        if relocation.type != _R_ARM_ABS32:
            return None
        symbol = self.elf.symbols[relocation.symbol]
        if not symbol.is_defined:
            return FIRST_UNDEFINED + 4 * relocation.symbol if word == 0 else None
        start = self.address_of(symbol)
        return None if start is None else start + word & 0xFFFFFFFF

    def _place(self, address: int) -> tuple[raw.RawSection | None, int]:
        """The section that holds an address, and the offset in it."""
        index = bisect_right(self._starts, address) - 1
        offset = address - self._starts[index]
        section = self.elf.sections[index]
        return (section, offset) if 0 <= offset < len(section.data) else (None, 0)


class _Instructions(dict[int, "Instruction | Undecoded"]):
    """Instructions of a section by address; which bytes are code is known only as the flow reaches them."""

    def __init__(self, code: ObjectCode, data: memoryview, start: int) -> None:
        super().__init__()
        self._code = code
        self._data = data
        self._start = start

    def __contains__(self, address: object) -> bool:
        return isinstance(address, int) and 0 <= address - self._start < len(self._data)

    def __missing__(self, address: int) -> Instruction | Undecoded:
        self._code.decoded += 1
        if self._code.decoded > MAX_INSTRUCTIONS:
            raise UntraceableError(f"the object has more than {MAX_INSTRUCTIONS} instructions")
        offset = address - self._start
        block = decode.decode_block(bytes(self._data[offset : offset + decode.MAX_BLOCK_BYTES]), address)
        if not block:
            return Undecoded(address=address, size=2, first=0, second=0)
        for instruction in block:
            self.setdefault(instruction.address, instruction)
        return self[address]


def _function(name: str, address: int, size: int) -> Function:
    return Function(names=(name,), address=address, end=address + size, limit=address + size)
