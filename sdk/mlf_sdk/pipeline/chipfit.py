# SPDX-License-Identifier: Apache-2.0
"""Microcontroller that an image is held against: the one that was named, else the smallest that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.judge.chiptime import ChipTime, chip_of, chip_time
from mlf_sdk.judge.memorymap import MemoryMap
from mlf_sdk.targets.boards.row import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFit:
    """A chip and what an image takes of it, without the RPC server, in bytes.

    Attributes:
        chosen: it was named, or is that of the board's row; else it is the smallest that fits.
        flash_bytes, ram_bytes: needed, with the stack as the board's row reserves it.
        chip_flash_bytes, chip_ram_bytes: of the chip; 0: not known.
    """

    title: str
    chosen: bool
    flash_bytes: int
    chip_flash_bytes: int
    ram_bytes: int
    chip_ram_bytes: int
    time: ChipTime

    @property
    def fits(self) -> bool:
        """True where both memories are known and large enough."""
        return self.flash_bytes <= self.chip_flash_bytes and self.ram_bytes <= self.chip_ram_bytes


def chip_fit(
    name: str | None,
    board: Board,
    model: LockModel,
    memories: Sequence[MemoryMap],
    instructions: int | None,
) -> ChipFit | None:
    """Find the chip that an image is held against.

    Args:
        name: of the chip; None: that of the board's row, else the smallest that executes the board's
            instructions and holds the image.
        memories: of the image; none on the host.
        instructions: of one inference, as counted; None: not counted.

    Returns:
        None: nothing is known of the image's memories, or no chip fits.

    Raises:
        InputError: there is no chip of this name.
    """
    from mlf_sdk.compiler.cores import core_of
    from mlf_sdk.judge.estimate import cost_models
    from mlf_sdk.targets.chips.load import load_chips

    writable = [memory for memory in memories if _is_ram(memory)]
    if not writable or not board.cpu:
        return None
    ram = sum(memory.product_bytes for memory in writable)
    flash = sum(memory.product_bytes for memory in memories if memory not in writable)
    chosen = chip_of(name, board)
    wanted = core_of(board.cpu, dsp=board.dsp).instruction_sets
    known = cost_models()
    chips = sorted(load_chips().values(), key=lambda c: (c.ram_bytes, c.flash_bytes, c.name))
    alike = (c for c in chips if c.cpu in known and core_of(c.cpu, dsp=True).instruction_sets == wanted)
    fitting = (c for c in alike if c.ram_bytes >= ram and c.flash_bytes >= flash and c.has_own_flash)
    chip = chosen or next(fitting, None)
    if chip is None:
        return None
    return ChipFit(
        title=chip.title,
        chosen=chosen is not None,
        flash_bytes=flash,
        chip_flash_bytes=chip.flash_bytes,
        ram_bytes=ram,
        chip_ram_bytes=chip.ram_bytes,
        time=chip_time(chip, board, model, instructions),
    )


def _is_ram(memory: MemoryMap) -> bool:
    return any(part.kind in ("arena", "stack", "bss", "statics") for part in memory.parts)
