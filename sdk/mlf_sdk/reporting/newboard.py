# SPDX-License-Identifier: Apache-2.0
"""A new board file as text: what it states, what it asks, what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path

from mlf_sdk.reporting.layout import Parts, line, lines
from mlf_sdk.targets.boards.new import NewBoard


def new_board_parts(made: NewBoard, path: Path) -> Parts:
    """Lay out a board file that was written to ``path``."""
    parts: Parts = [line("written", f"{path}: board {made.name}, not run on hardware")]
    parts += [line(what, value) for what, value in made.known]
    parts += lines("to answer", made.questions)
    if made.faults:
        return [*parts, *lines("missing", made.faults), line("next", f"answer them in {path}, or by options")]
    command = f"mlf-sdk generate MODEL -o app --board {made.name} --board-file {shlex.quote(str(path))}"
    return [*parts, line("next", command)]
