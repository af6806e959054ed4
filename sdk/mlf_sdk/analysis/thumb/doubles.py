# SPDX-License-Identifier: Apache-2.0
"""Instructions for double in Thumb code: the build attributes allow them where there need not be any.

Encodings: Armv7-M and Armv8-M Architecture Reference Manuals, "Floating-point data-processing instructions".
"""

from __future__ import annotations

from collections.abc import Iterator

from mlf_sdk.analysis.elf.raw import SHF_EXECINSTR, RawElf

_WIDE = (0b11101, 0b11110, 0b11111)  # first five bits of a 32-bit instruction


def computes_in_double(elf: RawElf) -> bool:
    """Return whether the code of a little-endian ARM object has an instruction that computes in double.

    Data between code is recognised by the mapping symbols ``$t`` and ``$d``; where there are none, all of a
    section counts as code.
    """
    return any(_has_double(code) for code in _code(elf))


def _code(elf: RawElf) -> Iterator[memoryview]:
    """Yield the pieces of the executable sections that are Thumb code."""
    marks: dict[int, list[tuple[int, bool]]] = {}
    for symbol in elf.symbols:
        if symbol.name[:2] in ("$t", "$d"):
            marks.setdefault(symbol.section, []).append((symbol.value, symbol.name[1] == "t"))
    for index, section in enumerate(elf.sections):
        if not section.flags & SHF_EXECINSTR:
            continue
        places = sorted(marks.get(index, [(0, True)]))
        ends = [start for start, _ in places[1:]] + [len(section.data)]
        for (start, is_code), end in zip(places, ends, strict=True):
            if is_code:
                yield section.data[start:end]


def _has_double(code: memoryview) -> bool:
    halves = [low | high << 8 for low, high in zip(code[::2], code[1::2], strict=False)]
    position = 0
    while position < len(halves) - 1:
        first, second = halves[position], halves[position + 1]
        if first >> 11 not in _WIDE:
            position += 1
            continue
        if first & 0xEF00 == 0xEE00 and second & 0x0F10 == 0x0B00:
            return True  # data processing of coprocessor 11
        if first & 0xFFBF == 0xEEB7 and second & 0x0FD0 == 0x0AC0:
            return True  # vcvt.f64.f32, which is one of coprocessor 10
        position += 2
    return False
