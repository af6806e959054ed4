# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/memories.md: ``python docs/memories.py ROW MODEL[+ram][+auto]...``.

ROW is a board's file. Each model is run with ``--place auto`` (with ``--for ram`` where ``+ram`` follows);
then, unless that is all (``+auto``), with its weights pinned to the board's first flash, with copies ahead of
layers and without. Arenas are what their painted memories show; cycles are those of the words by the row's
costs. A run that fails, or whose outputs differ from those of the host and of the witnesses, stands in
the table as such; the command ends with 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mlf_sdk
from mlf_sdk.pipeline.loading import load_analysed
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.stages import project_options
from mlf_sdk.planner.traffic import is_copy
from mlf_sdk.targets.boards.load import load_board
from mlf_sdk.targets.boards.placed import placements

PAGE = Path(__file__).with_name("memories.md")
HEAD = (
    "| board | model | `--place` | arenas, measured | weights | copies | cycles | of all in the slowest |"
    " verdict |"
)


def row_of(file: Path, model: str, place: list[str]) -> tuple[str, bool]:
    """Line of the table, and whether its run passed."""
    path, *ends = model.split("+")
    goal = "ram" if "ram" in ends else ""
    board = load_board(file)
    options: dict[str, Any] = {"board": board.name, "board_file": file, "place": place}
    options |= {"goal": goal} if goal else {}
    request = Request(
        source=(path,), board=board.name, board_file=str(file), place=tuple(place), goal=goal or "balanced"
    )
    name = Path(path).stem + (" `--for ram`" if goal else "")
    begin = f"| {board.name} | {name} | `{','.join(place)}` |"
    try:
        (placed,) = placements(load_analysed(request), board, project_options(request))
        report = mlf_sdk.run(path, **options)
    except mlf_sdk.MlfError as error:
        return f"{begin} | | | | | {error.what.splitlines()[0]} |", False
    parts: dict[str, list[str]] = {"arena": [], "weights": []}
    for one in report.check.rows:
        kind, _, memory = one.item.partition(" ")
        if memory and kind in parts:
            figure = one.measured if kind == "arena" else one.image
            parts[kind].append(f"{memory} {figure:,}" if figure is not None else f"{memory} not measured")
    copies = sum(is_copy(placed.layout.model, step) for step in placed.layout.model.steps)
    passed = report.ok and report.agrees
    cells = (
        ", ".join(parts["arena"]),
        ", ".join(parts["weights"]),
        str(copies),
        f"{placed.cycles:,.0f}",
        f"{placed.cycles / placed.slow_cycles:.0%}",
        "PASS" if passed else str(report.verdict),
    )
    return f"{begin} {' | '.join(cells)} |", passed


def main(file: Path, models: list[str]) -> int:
    """Measure, and put the table between the page's marks of this board."""
    flash = load_board(file).flash.name
    lines, good = [], True
    for model in models:
        places = (["auto"], [f"weights={flash}"], [f"weights={flash}", "ahead=no"])
        for place in places[:1] if model.endswith("+auto") else places:
            line, passed = row_of(file, model, place)
            print(line, flush=True)
            lines.append(line)
            good = good and passed
    begin, end = f"<!-- {file.stem} -->", "<!-- end -->"
    head, _, rest = PAGE.read_text().partition(begin)
    table = "\n".join([HEAD, "|---|---|---|---|---|--:|--:|--:|---|", *lines])
    PAGE.write_text(f"{head}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
