# SPDX-License-Identifier: Apache-2.0
"""Writes docs/instructions.md: ``python docs/instructions.py [--of CHECKOUT] [--record] MODEL...``.

Each model is run on an emulated board of each Cortex-M core for each goal of the compiler, and compared with
the witnesses of its file. Instructions, arena and flash stand beside those that docs/instructions.json
records; a cell with more than half a per cent more instructions, or with a larger arena, is marked. With
--record the figures are written there, and no page; with --of they are those of another checkout's SDK.
What was measured is kept in build/instructions-COMMIT.json: a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "instructions.md"
RECORDED = ROOT / "docs" / "instructions.json"
GOALS = ("instructions", "balanced", "size")
CORES = {
    "M0": "mps2-an385",  # its code on the M3, which runs it too: the M0's own board has 16 KiB of RAM
    "M3": "mps2-an385",
    "M4": "mps2-an386",
    "M7": "mps2-an500",
    "M33": "mps2-an505",
    "M55": "mps3-an547",
}
TOLERANCE = 1.005
"""Part of the recorded instructions above which a cell is marked."""
MARK = "<!-- made by docs/instructions.py; nothing below is written by hand -->\n"

Cell = dict[str, Any]
"""Instructions, bytes of arena and flash, and verdict of one image; or the error in their place."""


def board_of_m0(checkout: Path, folder: Path) -> Path:
    """Row of a board with an M0 for the compiler and with the M3 of mps2-an385 for QEMU."""
    text = (checkout / "board_templates" / "boards" / "mps2-an385.toml").read_text().partition("[zephyr]")[0]
    text = re.sub(r'^name = "mps2-an385"', 'name = "m0-in-sram"', text, flags=re.MULTILINE)
    text = re.sub(r'^cpu = "cortex-m3"', 'cpu = "cortex-m0"', text, flags=re.MULTILINE)
    path = folder / "m0-in-sram.toml"
    path.write_text(text.replace("[qemu]", '[qemu]\ncpu = "cortex-m3"'))
    return path


def measure(model: Path, core: str, goal: str, checkout: Path) -> Cell:
    """Run a model once: its figures, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        board = ["--board", CORES[core]]
        if core == "M0":
            board = ["--board", "m0-in-sram", "--board-file", str(board_of_m0(checkout, Path(folder)))]
        argv = [sys.executable, "-m", "mlf_sdk", "run"]
        done = subprocess.run(
            [*argv, str(model), *board, "--for", goal, "--no-twin", "--json"],
            env=os.environ | {"PYTHONPATH": str(checkout / "sdk")},
            capture_output=True,
            text=True,
            check=False,
        )
    report = json.loads(done.stdout)
    if "error" in report:
        return {"error": report["error"]["what"]}
    return {
        "instructions": report["instructions"],
        "arena": report["memory"]["arena_bytes"],
        "flash": next(one["used_bytes"] for one in report["check"]["regions"] if one["name"] == "flash"),
        "verdict": report["verdict"],
    }


def measured(models: list[Path], checkout: Path) -> dict[str, Cell]:
    """Figures of all models, cores and goals; what is kept is not measured again."""
    argv = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    kept = ROOT / "build" / f"instructions-{done.stdout.strip() or checkout.name}.json"
    kept.parent.mkdir(exist_ok=True)
    cells: dict[str, Cell] = json.loads(kept.read_text()) if kept.is_file() else {}
    wanted = [(model, core, goal) for model in models for core in CORES for goal in GOALS]
    result = {}
    for model, core, goal in wanted:
        key = f"{model.stem} {core} {goal}"
        cells[key] = result[key] = cells.get(key) or measure(model, core, goal, checkout)
        kept.write_text(json.dumps(cells, indent=1) + "\n")
    return result


def rows(cells: dict[str, Cell], recorded: dict[str, Cell]) -> Iterator[str]:
    """Rows of the table; bold: more than what is recorded allows."""
    for key, cell in cells.items():
        columns = key.split(" ")
        before = recorded.get(key, {})
        if "error" in cell:
            yield f"| {' | '.join(columns)} | {cell['error']} | | | | |"
            continue
        for figure, most in (("instructions", TOLERANCE), ("arena", 1.0)):
            share = cell[figure] / before[figure] if before.get(figure) else None
            text = "" if share is None else f"{100 * (share - 1):+.1f} %"
            columns += [f"{cell[figure]:,}", f"**{text}**" if share is not None and share > most else text]
        verdict = "" if cell["verdict"] == "PASS" else f" **{cell['verdict']}**"
        columns.append(f"{cell['flash']:,}{verdict}")
        yield f"| {' | '.join(columns)} |"


def main() -> None:
    """Measure what is missing; write the page, or the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--of", type=Path, default=ROOT, metavar="CHECKOUT")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    cells = measured([model.resolve() for model in options.models], options.of.resolve())
    if options.record:
        RECORDED.write_text(json.dumps(cells, indent=1) + "\n")
        return
    recorded = json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}
    heads = ("model", "core", "goal", "instructions", "change", "arena", "change", "flash")
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|" + "--:|" * 5, *rows(cells, recorded)]
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + MARK + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
