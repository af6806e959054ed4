# SPDX-License-Identifier: Apache-2.0
"""Instructions of RV32IMAC, as far as control flow and addresses need them; compressed ones in full.

Encodings: The RISC-V Instruction Set Manual, volume I, 20191213, chapters 2, 16 and 24.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

import msgspec

ZERO, RA, SP, T0 = 0, 1, 2, 5
LINKS: Final = frozenset({RA, T0})  # registers that calls put the return address into
A0: Final = 10
SCRATCH: Final = frozenset({RA, 5, 6, 7, *range(10, 18), *range(28, 32)})
"""Registers that a call may change (RISC-V calling convention)."""

_WIDE = 3  # lowest two bits of an instruction of four bytes
_MASK = 0xFFFFFFFF


class Instruction(msgspec.Struct, frozen=True):
    """An instruction at an address.

    Attributes:
        kind: ``lui``, ``auipc``, ``jal``, ``jalr``, ``branch``, ``load`` (of a word), ``store``, ``addi``,
            ``add``, ``sub``, ``slli``, ``mret``, ``trap``; ``other``: any that only writes its register.
        rd: the register that it writes; 0: none.
        rs1, rs2: registers that it reads.
        imm: constant, with its sign.
    """

    address: int
    size: int
    kind: str
    rd: int = 0
    rs1: int = 0
    rs2: int = 0
    imm: int = 0

    @property
    def target(self) -> int:
        """The address that a direct jump or branch goes to."""
        return (self.address + self.imm) & _MASK

    @property
    def is_call(self) -> bool:
        """True for a jump that leaves the address behind it in a register."""
        return self.kind in ("jal", "jalr") and self.rd in LINKS

    @property
    def is_return(self) -> bool:
        """True for a jump back to the caller."""
        return self.kind == "jalr" and self.rd == ZERO and self.rs1 in LINKS and self.imm == 0


def decode_all(code: bytes, address: int) -> Iterator[Instruction]:
    """Decode code that begins at an address, to its end."""
    at = 0
    while at + 2 <= len(code):
        size = 4 if code[at] & _WIDE == _WIDE else 2
        if at + size > len(code):
            return
        word = int.from_bytes(code[at : at + size], "little")
        yield Instruction(address + at, size, *_decoded(word, size))
        at += size


def disassemble(code: bytes, address: int) -> str:
    """Text of the first instruction, as ``lw a5, 0(a0)``; empty where there is none."""
    result = next(_disassembler().disasm(code, address, 1), None)
    return " ".join(filter(None, (result.mnemonic, result.op_str))) if result else ""


@cache
def _disassembler():  # type: ignore[no-untyped-def]  # noqa: ANN202 (capstone has no types)
    import capstone  # takes time to load

    return capstone.Cs(capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC)


def bits(word: int, *places: tuple[int, int, int]) -> int:
    """Put together fields of a word: each (highest bit, lowest bit, where the lowest goes)."""
    value = 0
    for high, low, to in places:
        value |= ((word >> low) & ((1 << (high - low + 1)) - 1)) << to
    return value


def signed(value: int, width: int) -> int:
    """A number of ``width`` bits with its sign."""
    return value - (1 << width) if value >> (width - 1) else value


Decoded = tuple[str, int, int, int, int]
"""Kind, rd, rs1, rs2 and imm of an `Instruction`."""


@lru_cache(maxsize=1 << 15)
def _decoded(word: int, size: int) -> Decoded:
    if size == 2:
        return _compressed(word)
    return _FORMS.get(word & 127, _other)(word)


def _rd(word: int) -> int:
    return word >> 7 & 31


def _rs1(word: int) -> int:
    return word >> 15 & 31


def _rs2(word: int) -> int:
    return word >> 20 & 31


def _function(word: int) -> int:
    return word >> 12 & 7


def _immediate(word: int) -> int:
    return signed(word >> 20, 12)


def _other(word: int) -> Decoded:
    return "other", _rd(word), _rs1(word), _rs2(word), 0


def _no_result(word: int) -> Decoded:
    return "other", 0, _rs1(word), 0, 0


def _lui(word: int) -> Decoded:
    return "lui", _rd(word), 0, 0, signed(word & 0xFFFFF000, 32)


def _auipc(word: int) -> Decoded:
    return "auipc", _rd(word), 0, 0, signed(word & 0xFFFFF000, 32)


def _jal(word: int) -> Decoded:
    offset = bits(word, (31, 31, 20), (30, 21, 1), (20, 20, 11), (19, 12, 12))
    return "jal", _rd(word), 0, 0, signed(offset, 21)


def _jalr(word: int) -> Decoded:
    return "jalr", _rd(word), _rs1(word), 0, _immediate(word)


def _branch(word: int) -> Decoded:
    offset = bits(word, (31, 31, 12), (30, 25, 5), (11, 8, 1), (7, 7, 11))
    return "branch", 0, _rs1(word), _rs2(word), signed(offset, 13)


def _load(word: int) -> Decoded:
    return "load" if _function(word) == 2 else "other", _rd(word), _rs1(word), 0, _immediate(word)


def _store(word: int) -> Decoded:
    offset = bits(word, (31, 25, 5), (11, 7, 0))
    return "store", 0, _rs1(word), _rs2(word), signed(offset, 12)


def _with_immediate(word: int) -> Decoded:
    if _function(word) == 1:
        return "slli", _rd(word), _rs1(word), 0, _rs2(word)
    return "addi" if _function(word) == 0 else "other", _rd(word), _rs1(word), 0, _immediate(word)


def _arithmetic(word: int) -> Decoded:
    kind = {0: "add", 0x20: "sub"}.get(word >> 25, "other") if _function(word) == 0 else "other"
    return kind, _rd(word), _rs1(word), _rs2(word), 0


def _system(word: int) -> Decoded:
    if _function(word):  # on a control and status register
        return "other", _rd(word), 0, 0, 0
    return {0: "trap", 1: "trap", 0x302: "mret"}.get(word >> 20, "other"), 0, 0, 0, 0  # ecall, ebreak


_FORMS = {
    0b0110111: _lui,
    0b0010111: _auipc,
    0b1101111: _jal,
    0b1100111: _jalr,
    0b1100011: _branch,
    0b0000011: _load,
    0b0100011: _store,
    0b0100111: _store,  # of floats
    0b0010011: _with_immediate,
    0b0110011: _arithmetic,
    0b1110011: _system,
    **dict.fromkeys((0b0001111, 0b0000111, 0b1000011, 0b1000111, 0b1001011, 0b1001111), _no_result),
}


def _compressed(word: int) -> Decoded:
    quadrant, function = word & 3, word >> 13
    if quadrant == 0:
        return _quadrant_0(word, function)
    return _quadrant_1(word, function) if quadrant == 1 else _quadrant_2(word, function)


def _quadrant_0(word: int, function: int) -> Decoded:
    base, other = 8 + (word >> 7 & 7), 8 + (word >> 2 & 7)
    if function == 0:
        size = bits(word, (12, 11, 4), (10, 7, 6), (6, 6, 2), (5, 5, 3))
        return ("addi", other, SP, 0, size) if size else ("trap", 0, 0, 0, 0)
    offset = bits(word, (12, 10, 3), (6, 6, 2), (5, 5, 6))
    if function == 2:
        return "load", other, base, 0, offset
    return ("store", 0, base, other, offset) if function >= 5 else ("other", 0, base, 0, 0)


def _quadrant_1(word: int, function: int) -> Decoded:
    rd = _rd(word)
    immediate = signed(bits(word, (12, 12, 5), (6, 2, 0)), 6)
    if function in (0, 2):
        return "addi", rd, rd if function == 0 else ZERO, 0, immediate
    if function in (1, 5):
        places = (
            (12, 12, 11),
            (11, 11, 4),
            (10, 9, 8),
            (8, 8, 10),
            (7, 7, 6),
            (6, 6, 7),
            (5, 3, 1),
            (2, 2, 5),
        )
        return "jal", RA if function == 1 else ZERO, 0, 0, signed(bits(word, *places), 12)
    if function == 3:
        moved = bits(word, (12, 12, 9), (6, 6, 4), (5, 5, 6), (4, 3, 7), (2, 2, 5))
        return ("addi", SP, SP, 0, signed(moved, 10)) if rd == SP else ("lui", rd, 0, 0, immediate << 12)
    rd = 8 + (rd & 7)
    if function == 4:
        is_sub = word >> 10 & 7 == 3 and word >> 5 & 3 == 0
        return ("sub" if is_sub else "other"), rd, rd, 8 + (word >> 2 & 7), 0
    offset = bits(word, (12, 12, 8), (11, 10, 3), (6, 5, 6), (4, 3, 1), (2, 2, 5))
    return "branch", 0, rd, ZERO, signed(offset, 9)


def _quadrant_2(word: int, function: int) -> Decoded:
    rd, rs2 = word >> 7 & 31, word >> 2 & 31
    if function == 0:
        return "slli", rd, rd, 0, rs2
    if function == 2:
        return "load", rd, SP, 0, bits(word, (12, 12, 5), (6, 4, 2), (3, 2, 6))
    if function != 4:
        return (
            ("store", 0, SP, rs2, bits(word, (12, 9, 2), (8, 7, 6)))
            if function >= 5
            else ("other", 0, SP, 0, 0)
        )
    links = word >> 12 & 1
    if rs2:
        return ("add", rd, rd, rs2, 0) if links else ("addi", rd, rs2, 0, 0)
    return ("jalr", RA if links else ZERO, rd, 0, 0) if rd else ("trap", 0, 0, 0, 0)
