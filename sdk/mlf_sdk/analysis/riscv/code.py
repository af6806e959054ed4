# SPDX-License-Identifier: Apache-2.0
"""The machine code of a linked image for RISC-V: each function decoded and followed once, when needed."""

from __future__ import annotations

import struct
from bisect import bisect_right

from mlf_sdk.analysis.elf.image import Function, Image
from mlf_sdk.analysis.machine.calls import Call, Frame
from mlf_sdk.analysis.riscv import decode
from mlf_sdk.analysis.riscv.decode import Instruction
from mlf_sdk.analysis.riscv.frames import read_frame

_TRAP = ("mlf_trap_entry", "mlf_trap")  # what calls the handlers of exceptions (crt/baremetal/rv32)


class RiscvCode:
    """Functions, instructions, calls and words of a linked image."""

    def __init__(self, image: Image) -> None:
        """Read from ``image``; nothing is decoded yet."""
        self.image = image
        self.functions = image.functions
        self._starts = [*image.functions]
        self._instructions: dict[tuple[int, int], dict[int, Instruction]] = {}
        self._frames: dict[int, Frame | None] = {}

    @property
    def exception_bytes(self) -> int:
        """Bytes that the entry of an exception saves, and those of the function that calls the handler."""
        symbols = (self.image.find(name) for name in _TRAP)
        frames = (self.frame(symbol.address) for symbol in symbols if symbol is not None)
        return sum(frame.bytes for frame in frames if frame is not None)

    def function_at(self, address: int) -> Function | None:
        """The function that holds an address; code without a symbol is a function of its own."""
        found = self.image.function_at(address)
        section = self.image.section_at(address)
        if found is not None or section is None or not section.executable:
            return found
        after = self._starts[bisect_right(self._starts, address) :][:1]
        end = min([section.end, *after])
        return Function(names=(f"code at 0x{address:08x}",), address=address, end=end, limit=end)

    def frame(self, entry: int) -> Frame | None:
        """Calls and stack of the function that is entered at an address; None when there is no code."""
        if entry not in self._frames:
            function = self.function_at(entry)
            self._frames[entry] = None if function is None else read_frame(self, function, entry)
        return self._frames[entry]

    def instructions(self, function: Function) -> dict[int, Instruction]:
        """All instructions of a function by address, in order."""
        key = (function.address, function.end)
        if key not in self._instructions:
            code = self.image.bytes_at(function.address, function.end - function.address)
            self._instructions[key] = {i.address: i for i in decode.decode_all(code, function.address)}
        return self._instructions[key]

    def text_at(self, address: int) -> str:
        """Disassembly of the instruction at an address, e.g. ``lw a5, 0(a0)``; empty when there is none."""
        if self.image.section_at(address) is None:
            return ""
        return decode.disassemble(self.image.bytes_at(address, 4), address)

    def call_before(self, address: int) -> Call | None:
        """The call that returns to an address; None: there is none."""
        for size in (4, 2):
            function = self.function_at(address - size)
            found = self.instructions(function).get(address - size) if function is not None else None
            if found is not None and found.size == size and found.is_call:
                frame = self.frame(function.address) if function is not None else None
                calls = {call.address: call for call in frame.calls} if frame is not None else {}
                target = found.target if found.kind == "jal" else None
                plain = Call(address=found.address, after=address, target=target, by_register=target is None)
                return calls.get(found.address, plain)
        return None

    def word(self, address: int) -> int | None:
        """The word at an address of the image; None outside."""
        data = self.image.bytes_at(address, 4)
        return int.from_bytes(data, "little") if len(data) == 4 else None

    def is_constant(self, address: int) -> bool:
        """True when the contents at an address cannot change."""
        section = self.image.section_at(address)
        return section is not None and section.load_address == section.address

    def pointers(self, start: int, end: int) -> set[int]:
        """Functions whose addresses stand in words from ``start`` to ``end``.

        The image's entry is none: it lies where the memory begins, a common number, and nothing calls it.
        """
        first = (start + 3) & ~3
        data = self.image.bytes_at(first, max(0, end - first))
        words = struct.unpack_from(f"<{len(data) // 4}I", data)
        return {word for word in words if word in self.functions} - {self.image.entry}
