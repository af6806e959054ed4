# SPDX-License-Identifier: Apache-2.0
"""The machine code of a linked image for RISC-V: each function decoded and followed once, when needed."""

from __future__ import annotations

from mlf_sdk.analysis.elf.image import Function, Image
from mlf_sdk.analysis.machine.calls import Call, Frame
from mlf_sdk.analysis.machine.linked import LinkedCode
from mlf_sdk.analysis.riscv import decode
from mlf_sdk.analysis.riscv.decode import Instruction
from mlf_sdk.analysis.riscv.frames import read_frame

_TRAP = ("mlf_trap_entry", "mlf_trap")  # what calls the handlers of exceptions (crt/baremetal/rv32)


class RiscvCode(LinkedCode):
    """Functions, instructions, calls and words of a linked image."""

    def __init__(self, image: Image) -> None:
        """Read from ``image``; nothing is decoded yet."""
        super().__init__(image)
        self._instructions: dict[tuple[int, int], dict[int, Instruction]] = {}

    @property
    def exception_bytes(self) -> int:
        """Bytes that the entry of an exception saves, and those of the function that calls the handler."""
        symbols = (self.image.find(name) for name in _TRAP)
        frames = (self.frame(symbol.address) for symbol in symbols if symbol is not None)
        return sum(frame.bytes for frame in frames if frame is not None)

    def read_frame(self, function: Function, entry: int) -> Frame:
        """Follow a function that is entered at an address."""
        return read_frame(self, function, entry)

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
            entry = self.instructions(function).get(address - size) if function is not None else None
            if entry is not None and entry.size == size and entry.is_call:
                frame = self.frame(function.address) if function is not None else None
                calls = {call.address: call for call in frame.calls} if frame is not None else {}
                target = entry.target if entry.kind == "jal" else None
                plain = Call(address=entry.address, after=address, target=target, by_register=target is None)
                return calls.get(entry.address, plain)
        return None

    def pointers(self, start: int, end: int) -> set[int]:
        """Functions whose addresses stand in words from ``start`` to ``end``.

        The image's entry is none: it lies where the memory begins, a common number, and nothing calls it.
        """
        return {word for word in self.image.addresses(start, end) if word in self.functions} - {
            self.image.entry
        }
