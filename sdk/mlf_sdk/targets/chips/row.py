# SPDX-License-Identifier: Apache-2.0
"""Schema of a chip row: ``board_templates/chips``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[int, Meta(ge=1, le=0xFFFFFFFF)]


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a row: immutable, and a key that is not known is an error."""


class ChipMemory(_Row, frozen=True, kw_only=True):
    """A memory of a chip.

    Attributes:
        kind: ``itcm``: for code alone.
        external: it lies outside of the chip: that of the board that the row was read from.
        source: file and node that state it.
    """

    name: str
    kind: Literal["flash", "ram", "itcm"]
    origin: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
    size_bytes: Positive
    external: bool = False
    source: str

    @property
    def end(self) -> int:
        """End address (exclusive)."""
        return self.origin + self.size_bytes


class ChipFlash(_Row, frozen=True, kw_only=True):
    """Wait states of the flash at a clock.

    Attributes:
        hidden_by: what hides them from most accesses, e.g. a cache; empty: nothing is stated.
    """

    wait_states: Annotated[int, Meta(ge=0, le=15)]
    at_hz: Positive
    hidden_by: str = ""
    source: str


class ChipCurrent(_Row, frozen=True, kw_only=True):
    """Current while code runs.

    Attributes:
        ua_per_mhz: microamperes for each MHz of the clock.
        volts: of the supply; None: the document does not state it.
    """

    ua_per_mhz: Annotated[float, Meta(gt=0, le=10_000)]
    volts: Annotated[float, Meta(gt=0, le=6)] | None = None
    condition: str
    source: str


class Chip(_Row, frozen=True, kw_only=True):
    """A microcontroller; what no document states is left out.

    Attributes:
        name: as Zephyr names the SoC; of an STM32 with the size of its flash: ``stm32l4r5xi``.
        vendor: short name, e.g. ``st``.
        core: as GCC's ``-mcpu`` takes it, or a RISC-V ``-march``.
        dsp: a Cortex-M33 has the DSP extension; None: not stated.
        clock_hz: rate of the core as the source says; 0: not known.
        zephyr_boards: names of Zephyr's boards with the chip.
        sources: file and node, or document, by field.
    """

    name: Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_]{0,39}\Z")]
    title: str
    vendor: str
    core: str
    dsp: bool | None = None
    clock_hz: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)] = 0
    zephyr_boards: tuple[str, ...] = ()
    memories: tuple[ChipMemory, ...] = ()
    flash: ChipFlash | None = None
    current: ChipCurrent | None = None
    sources: dict[str, str]

    @property
    def short(self) -> str:
        """Name in capitals, as people write it."""
        return self.name.upper()

    @property
    def cpu(self) -> str:
        """Core without what it is not known to have: ``cortex-m33+nodsp``."""
        return f"{self.core}+nodsp" if self.core == "cortex-m33" and not self.dsp else self.core

    @property
    def flash_bytes(self) -> int:
        """Size of the largest flash without a gap; 0: not known."""
        return max(_runs(m for m in self.memories if m.kind == "flash"), default=0)

    @property
    def has_own_flash(self) -> bool:
        """True where flash lies on the chip."""
        return any(m.kind == "flash" and not m.external for m in self.memories)

    @property
    def ram_bytes(self) -> int:
        """Size of the largest RAM without a gap; 0: not known."""
        return max(_runs(m for m in self.memories if m.kind == "ram"), default=0)

    def within(self, board: str, ram: Sequence[tuple[int, int]]) -> Chip:
        """The chip with no more RAM than its board's row has: a part with the same name may have less.

        Args:
            board: name of the row.
            ram: origin and size in bytes of its RAM.
        """
        rows = tuple(
            ChipMemory(name="ram", kind="ram", origin=origin, size_bytes=size, source=f"board {board}")
            for origin, size in ram
        )
        if not rows or max(_runs(rows)) >= self.ram_bytes:
            return self
        rest = tuple(m for m in self.memories if m.kind != "ram")
        return msgspec.structs.replace(self, memories=(*rows, *rest))


def _runs(memories: Iterable[ChipMemory]) -> Iterable[int]:
    """Sizes of memories, those behind each other as one."""
    start = end = -1
    for memory in sorted(memories, key=lambda m: m.origin):
        if memory.origin > end:
            start = memory.origin
        end = max(end, memory.end)
        yield end - start
