# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/howto-rtl.md: ``python docs/rtl.py [--kept] MODEL...``.

Each model is run on each board with a simulated core and compared with the witnesses of its file. What was
measured is kept in build/rtl.json: a run that was broken off goes on; remove the file to measure anew. With
--kept nothing is measured, and the page says what was not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.tools.discovery import find_tools, known_tools
from mlf_sdk.tools.rtlmodels import VERILATOR, load_models

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "howto-rtl.md"
KEPT = ROOT / "build" / "rtl.json"
BOARDS = [name for name, row in load_boards().items() if row.rtl is not None]
MARK = "<!-- made by docs/rtl.py; nothing below is written by hand -->\n"


def measured(model: Path, board: str) -> dict[str, object]:
    """Instructions and cycles of an inference, and the verdict."""
    argv = [sys.executable, "-m", "mlf_sdk", "run", str(model), "--board", board, "--no-twin", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603
    said = json.loads(done.stdout)
    if "error" in said:
        sys.exit(f"{model.name} on {board}: {said['error']['what']}")
    return {key: said[key] for key in ("instructions", "cycles", "verdict", "evidence")}


def rows(models: list[Path], kept: dict[str, dict[str, object]], *, measures: bool) -> Iterator[str]:
    """Rows of the table; what is measured is kept at once."""
    for model in models:
        cells = []
        for board in BOARDS:
            key = f"{model.name} {board}"
            if key not in kept and measures:
                kept[key] = measured(model, board)
                KEPT.parent.mkdir(exist_ok=True)
                KEPT.write_text(json.dumps(kept, indent=1))
            cells.append(cell(kept[key]) if key in kept else "not measured")
        yield f"| {model.stem} | {' | '.join(cells)} |"


def cell(found: dict[str, object]) -> str:
    """Cycles, and how many an instruction; what is not PASS says so."""
    instructions, cycles = int(str(found["instructions"])), int(str(found["cycles"]))
    wrong = "" if found["verdict"] == "PASS" else f" **{found['verdict']}**"
    return f"{cycles:,} ({cycles / instructions:.2f}){wrong}"


def versions() -> str:
    """Verilator and the packages of the cores."""
    names = {VERILATOR, "riscv64-unknown-elf-gcc", *(model.package for model in load_models().values())}
    found = find_tools(tuple(tool for tool in known_tools() if tool.name in names))
    return ", ".join(f"{one.tool.name} {one.version}" for one in found if one.version)


def main() -> None:
    """Measure what is missing, and write the page."""
    models = [Path(name).resolve() for name in sys.argv[1:] if name != "--kept"]
    if not models:
        sys.exit(__doc__)
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    table = list(rows(models, kept, measures="--kept" not in sys.argv))
    evidence = {str(one["evidence"]) for one in kept.values()}
    head = PAGE.read_text().partition(MARK)[0]
    lines = [
        f"Measured with {versions()}; outputs of each compared with: {'; '.join(sorted(evidence))}.",
        "",
        f"| model | {' | '.join(BOARDS)} |",
        f"|---|{'--:|' * len(BOARDS)}",
        *table,
    ]
    PAGE.write_text(head + MARK + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
