# SPDX-License-Identifier: Apache-2.0
"""Writes docs/toolchains.md's tables: ``python docs/toolchains.py [--kept] MODEL...``.

Each model is built for one board of each core with each toolchain, run there, and compared with the
witnesses of its file: instructions under emulation, cycles on cores that are simulated from their RTL.
What was measured is kept in build/toolchains.json: a run that was broken off goes on; remove the file to
measure anew. With --kept nothing is measured, and the page says what was not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.tools.discovery import find_tools, known_tools
from mlf_sdk.tools.rtlmodels import VERILATOR, load_models

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "toolchains.md"
KEPT = ROOT / "build" / "toolchains.json"
TOOLCHAINS = ("gcc", "clang", "zig")
EMULATED = {  # one of each core; the M0's own board has 16 KiB of RAM
    "Cortex-M0": "microbit",
    "Cortex-M3": "mps2-an385",
    "Cortex-M4": "mps2-an386",
    "Cortex-M7": "mps2-an500",
    "Cortex-M33": "mps2-an505",
    "Cortex-M55": "mps3-an547",
    "RV32IMAC": "qemu-virt-rv32",
    "RV32IMAC_Zve32x": "qemu-virt-rv32-zve32x",
}
SIMULATED = {name: name for name, row in load_boards().items() if row.rtl is not None}
MARK = "<!-- made by docs/toolchains.py; nothing below is written by hand -->\n"
NOT_MEASURED = {"error": "not measured"}

Cell = dict[str, Any]
"""Figures of one image and their verdict, or the error in their place."""


def measure(model: Path, board: str, toolchain: str) -> Cell:
    """Instructions and cycles of an inference, bytes of flash and verdict, or why there is no image."""
    argv = [sys.executable, "-m", "mlf_sdk", "run", str(model), "--board", board, "--toolchain", toolchain]
    done = subprocess.run(
        [*argv, "--no-twin", "--witness", "0", "--json"], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    if "error" in report:
        return {"error": report["error"]["what"]}
    flash = next(one["used_bytes"] for one in report["check"]["regions"] if one["name"] == "flash")
    return {"flash": flash} | {key: report.get(key) for key in ("instructions", "cycles", "verdict")}


def cell_of(model: Path, board: str, toolchain: str, kept: dict[str, Cell], *, measures: bool) -> Cell:
    """The figures that are kept; what is measured is kept at once."""
    key = f"{model.name} {board} {toolchain}"
    if key not in kept and measures:
        kept[key] = measure(model, board, toolchain)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(kept, indent=1))
    return kept.get(key, NOT_MEASURED)


def row(model: str, core: str, cells: Sequence[Cell], unit: str) -> str:
    """A row: what each toolchain's image takes and its share of the first one's; what is not PASS says so."""
    flash = " / ".join(f"{one['flash']:,}" if "flash" in one else "-" for one in cells)
    columns = [model, core, *(_text(one, cells[0], unit) for one in cells)]
    if unit == "cycles":
        columns.append(" / ".join(_cycles_an_instruction(one) for one in cells))
    return f"| {' | '.join((*columns, flash))} |"


def _text(one: Cell, first: Cell, unit: str) -> str:
    if "error" in one:
        return "does not fit" if "does not fit" in one["error"] else str(one["error"])
    ratio = f" ({one[unit] / first[unit]:.2f})" if unit in first and one is not first else ""
    return f"{one[unit]:,}{ratio}{'' if one['verdict'] == 'PASS' else ' **' + one['verdict'] + '**'}"


def _cycles_an_instruction(one: Cell) -> str:
    return f"{one['cycles'] / one['instructions']:.2f}" if "cycles" in one else "-"


def versions(names: Iterable[str]) -> str:
    """Programs and packages of these names, with their versions."""
    chosen = set(names)
    statuses = find_tools(tuple(tool for tool in known_tools() if tool.name in chosen))
    return ", ".join(f"{one.tool.name} {one.version}" for one in statuses if one.version)


def table(heads: Sequence[str], rows: Sequence[str]) -> list[str]:
    """Lines of a table whose first two columns are text."""
    return [f"| {' | '.join(heads)} |", "|---|---|" + "--:|" * (len(heads) - 2), *rows]


def main() -> None:
    """Measure what is missing, and write the page."""
    models = [Path(name).resolve() for name in sys.argv[1:] if name != "--kept"]
    if not models:
        sys.exit(__doc__)
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}

    def rows(cores: dict[str, str], unit: str) -> list[str]:
        return [
            row(
                model.stem,
                core,
                [cell_of(model, board, tool, kept, measures="--kept" not in sys.argv) for tool in TOOLCHAINS],
                unit,
            )
            for model in models
            for core, board in cores.items()
        ]

    instructions, cycles = rows(EMULATED, "instructions"), rows(SIMULATED, "cycles")
    flash = f"flash, {' / '.join(TOOLCHAINS)}"
    compilers = "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", *TOOLCHAINS
    packages = [model.package for model in load_models().values()]
    lines = [
        f"Measured with {versions((*compilers, VERILATOR, *packages))}.",
        "",
        *table(("model", "core", *TOOLCHAINS, flash), instructions),
        "",
        "Cycles of one inference on cores that are simulated from their RTL ([how](howto-rtl.md)):",
        "",
        *table(("model", "board", *TOOLCHAINS, "cycles an instruction", flash), cycles),
    ]
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + MARK + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
