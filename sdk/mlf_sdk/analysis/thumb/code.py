# SPDX-License-Identifier: Apache-2.0
"""The machine code of a linked image: each function decoded and followed once, when it is asked for.

Arm's ELF ABI (AAELF32, mapping symbols) marks where code (``$t``) and data (``$d``) begin in a section.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from capstone import arm

from mlf_sdk.analysis.elf.image import Function, Image
from mlf_sdk.analysis.machine.calls import Call, Frame
from mlf_sdk.analysis.machine.linked import LinkedCode
from mlf_sdk.analysis.thumb import decode
from mlf_sdk.analysis.thumb.decode import Undecoded
from mlf_sdk.analysis.thumb.frames import read_frame

if TYPE_CHECKING:
    from mlf_sdk.analysis.thumb.decode import Instruction


_BASIC_FRAME, _FPU_FRAME, _ALIGNMENT = 32, 104, 4  # bytes: 8 words, 26 with floating-point registers


class ThumbCode(LinkedCode):
    """Functions, instructions, calls and words of a linked image."""

    strict = False

    def __init__(self, image: Image) -> None:
        """Read from ``image``; nothing is decoded yet."""
        super().__init__(image)
        self.visits = 0
        self._marks = [address for address, _ in image.marks]
        self._instructions: dict[tuple[int, int], dict[int, Instruction | Undecoded]] = {}

    @property
    def exception_bytes(self) -> int:
        """Bytes that the CPU stacks on entry of an exception (Armv7-M and Armv8-M reference manuals)."""
        attributes = self.image.attributes
        has_fpu = attributes is not None and attributes.has_fpu_registers
        return (_FPU_FRAME if has_fpu else _BASIC_FRAME) + _ALIGNMENT

    # ---- functions ----

    def name_at(self, address: int) -> str:
        """The name of the function that begins at an address; empty: none does."""
        function = self.functions.get(address)
        return function.name if function is not None else ""

    def read_frame(self, function: Function, entry: int) -> Frame:
        """Follow a function that is entered at an address."""
        return read_frame(self, function, entry)

    # ---- instructions ----

    def instructions(self, function: Function) -> dict[int, Instruction | Undecoded]:
        """All instructions of a function by address, in order; data among them is left out."""
        key = (function.address, function.end)
        if key not in self._instructions:
            self._instructions[key] = {i.address: i for i in self._decode(*key)}
        return self._instructions[key]

    def _decode(self, start: int, end: int) -> Iterator[Instruction | Undecoded]:
        code = self.image.bytes_at(start, end - start)
        at, end = start, start + len(code)
        while at < end:
            mark = bisect_right(self._marks, at)
            stop = min(self._marks[mark], end) if mark < len(self._marks) else end
            if mark == 0 or self.image.marks[mark - 1][1]:
                yield from decode.decode_all(code[at - start : stop - start], at)
            at = stop

    def instruction_at(self, address: int) -> Instruction | None:
        """The instruction at an address; None where none begins, or the decoder does not know it."""
        function = self.function_at(address)
        entry = self.instructions(function).get(address) if function is not None else None
        return None if isinstance(entry, Undecoded) else entry

    def text_at(self, address: int) -> str:
        """Disassembly of the instruction at an address, also where the image marks it as data.

        Returns:
            E.g. ``vadd.f32 s0, s0, s1``; empty when there is no instruction, as in headers of the file, which
            some linkers load as well.
        """
        if self.image.section_at(address) is None:
            return ""
        return decode.disassemble(self.image.bytes_at(address, 4), address)

    def call_before(self, address: int) -> Call | None:
        """The call that returns to an address; None: there is none."""
        for size in (4, 2):
            instruction = self.instruction_at(address - size)
            if instruction is not None and instruction.size == size and instruction.id in decode.CALLS:
                is_direct = instruction.operands[0].type == arm.ARM_OP_IMM
                target = self.branch_target(instruction) if is_direct else None
                return Call(
                    address=instruction.address, after=address, target=target, by_register=not is_direct
                )
        return None

    def branch_target(self, instruction: Instruction) -> int:
        """The address that a direct branch or call goes to."""
        return decode.label(instruction)

    def is_relocated(self, address: int) -> bool:
        """No instruction of a linked image will be changed."""
        return False

    # ---- data ----

    def word(self, address: int) -> int | None:
        """The word at an address of the image; None outside."""
        return self.image.word(address)

    def pointers(self, start: int, end: int) -> set[int]:
        """Functions whose addresses, with the Thumb bit, stand in words from ``start`` to ``end``."""
        words = self.image.addresses(start, end)
        return {word & ~1 for word in words if word & 1 and word & ~1 in self.functions}
