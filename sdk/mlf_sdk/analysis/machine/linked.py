# SPDX-License-Identifier: Apache-2.0
"""Machine code of a linked image, whatever its architecture: functions, and the frame of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING

from mlf_sdk.analysis.elf.image import Function

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Image
    from mlf_sdk.analysis.machine.calls import Frame


class LinkedCode(ABC):
    """Functions of an image, with those that have no symbol."""

    def __init__(self, image: Image) -> None:
        """Read from ``image``; nothing is decoded yet."""
        self.image = image
        self.functions = image.functions
        self._starts = [*image.functions]
        self._frames: dict[int, Frame | None] = {}

    @abstractmethod
    def read_frame(self, function: Function, entry: int) -> Frame:
        """Follow a function that is entered at an address."""

    def function_at(self, address: int) -> Function | None:
        """The function that holds an address; code without a symbol is a function of its own."""
        function = self.image.function_at(address)
        section = self.image.section_at(address)
        if function is not None or section is None or not section.executable:
            return function
        after = self._starts[bisect_right(self._starts, address) :][:1]
        end = min([section.end, *after])
        return Function(names=(f"code at 0x{address:08x}",), address=address, end=end, limit=end)

    def frame(self, entry: int) -> Frame | None:
        """Calls and stack of the function that is entered at an address; None when there is no code."""
        if entry not in self._frames:
            function = self.function_at(entry)
            self._frames[entry] = None if function is None else self.read_frame(function, entry)
        return self._frames[entry]
