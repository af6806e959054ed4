# SPDX-License-Identifier: Apache-2.0
"""Instructions and estimated cycles of a model for each goal of the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlf_sdk
from mlf_sdk.compiler.options import Goal

BOARDS = {"cortex-m4": "mps2-an386", "cortex-m3": "mps2-an385"}
GOALS = (Goal.BALANCED, Goal.SPEED, Goal.INSTRUCTIONS)

Figures = dict[str, dict[str, int]]
"""Cycles and instructions by the goal."""


def figures(model: Path, core: str, folder: Path) -> Figures:
    """Count one inference for each goal.

    Raises:
        MlfError: it can't be compiled or counted.
        LookupError: no cycles were estimated.
    """
    found: Figures = {}
    for goal in GOALS:
        archive = folder / f"{model.stem}-{core}-{goal.value}.tar"
        mlf_sdk.compile(model, archive, core=core, goal=goal.value)
        profile = mlf_sdk.profile(archive, board=BOARDS[core])
        if profile.cycles is None:
            raise LookupError(f"no cycles of {core} were estimated: {'; '.join(profile.notes)}")
        found[goal.value] = {"cycles": profile.cycles.cycles, "instructions": profile.total}
    return found


def limits(found: Figures) -> Iterator[tuple[str, int, int]]:
    """Name, figure and limit: each goal is the best at what it is for."""
    for goal, unit in ((Goal.SPEED, "cycles"), (Goal.INSTRUCTIONS, "instructions")):
        least = min(one[unit] for one in found.values())
        yield f"{unit} for {goal.value}", found[goal.value][unit], least
