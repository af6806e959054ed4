# SPDX-License-Identifier: Apache-2.0
"""Time of an inference on a chip, from instructions that were counted on an emulated board with its core.

Light to import: what an estimate needs is loaded where one is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mlf_sdk.codegen.lock import LockModel
    from mlf_sdk.judge.estimate import CostModel
    from mlf_sdk.targets.boards.row import Board
    from mlf_sdk.targets.chips.row import Chip

DOCUMENT: Final = "docs/estimates.md"
"""Page with the errors of estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipTime:
    """Estimated time of one inference on a chip.

    Attributes:
        chip: its name.
        cycles, ms: None where they are not known, and ``why`` says what is missing.
        mj: energy; None where no document states the chip's current and voltage.
    """

    chip: str
    clock_hz: int
    cycles: int | None = None
    ms: float | None = None
    mj: float | None = None
    why: str = ""


def energy_mj(cycles: int | None, chip: Chip) -> float | None:
    """Energy of so many cycles, in millijoules: microamperes a megahertz are picocoulombs a cycle."""
    if cycles is None or chip.current is None or chip.current.volts is None:
        return None
    return cycles * chip.current.ua_per_mhz * chip.current.volts * 1e-9


def chip_of(name: str | None, board: Board) -> Chip | None:
    """The chip that was named, or that of the board's row with the RAM that this has; None: neither.

    Raises:
        InputError: there is no such chip, or there are several.
    """
    wanted = name or board.chip
    if not wanted:
        return None
    from mlf_sdk.targets.chips.load import find_chip  # few runs need it

    chip = find_chip(wanted)
    ram = [(m.origin, m.size_bytes) for m in board.memories if m.kind == "ram"]
    return chip if name else chip.within(board.name, ram)


def chip_time(chip: Chip, board: Board, model: LockModel, instructions: int | None) -> ChipTime:
    """Time of an inference whose instructions were counted on a board.

    Args:
        instructions: None: nothing counted them.
    """
    from mlf_sdk.compiler.cores import core_of
    from mlf_sdk.judge.estimate import cost_models

    costs = cost_models().get(chip.cpu)
    why = ""
    if costs is None:
        why = f"nothing is known of the cycles of a {chip.core}"
    elif instructions is None:
        why = "no instructions were counted: choose an emulated board"
    elif core_of(board.cpu, dsp=board.dsp).instruction_sets != core_of(chip.cpu, dsp=True).instruction_sets:
        why = f"its {chip.core} executes other instructions than the board's {board.cpu or 'processor'}"
    elif not chip.clock_hz:
        why = "its clock is not known"
    if costs is None or instructions is None or why:
        return ChipTime(chip=chip.name, clock_hz=chip.clock_hz, why=why)
    cycles = round(instructions * _cycles_each(model, costs))
    return ChipTime(
        chip=chip.name,
        clock_hz=chip.clock_hz,
        cycles=cycles,
        ms=cycles * 1e3 / chip.clock_hz,
        mj=energy_mj(cycles, chip),
    )


def _cycles_each(model: LockModel, costs: CostModel) -> float:
    """Cycles of an instruction: of the model's layers, or of multiply-accumulates where these are unknown."""
    from mlf_sdk.judge.estimate import estimate, layers_of

    result = estimate(layers_of(model), costs)
    if result.instructions:
        return result.cycles / result.instructions
    terms = costs.terms("")
    return 1.0 if terms.cycles is None else terms.cycles[0] / terms.instructions[0]
