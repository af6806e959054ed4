# SPDX-License-Identifier: Apache-2.0
"""Cycles of a model on a simulated core."""

from __future__ import annotations

from pathlib import Path

import mlf_sdk
from mlf_sdk.errors import MissingToolError
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import TargetChoice

BOARD = "rtl-ibex"
MOST_CYCLES = 1.15  # an instruction, with a multiplier of one cycle


def missing() -> str:
    """What is not installed here for the board; empty: nothing."""
    try:
        resolve_target(TargetChoice(board=BOARD)).check_programs(start=True)
    except MissingToolError as error:
        return f"{error.what}. {error.hint}"
    return ""


def figures(model: Path) -> dict[str, int]:
    """Instructions and cycles of one inference that passes.

    Raises:
        MlfError: it can't be compiled or run.
        LookupError: its outputs are wrong, or nothing was counted.
    """
    report: RunReport = mlf_sdk.run(model, board=BOARD, twin=False)
    if report.verdict != "PASS" or report.cycles is None or report.instructions is None:
        raise LookupError(f"{report.verdict}; {report.cycles} cycles, {report.instructions} instructions")
    return {"instructions": report.instructions, "cycles": report.cycles}
