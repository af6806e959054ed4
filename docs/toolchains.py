# SPDX-License-Identifier: Apache-2.0
"""Writes docs/toolchains.md's table: ``python docs/toolchains.py MODEL...``.

Each model is built for one board of each core with each toolchain, run there, and compared with the
witnesses of its file. What was measured is kept in build/toolchains.json: a run that was broken off goes
on; remove the file to measure anew.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "toolchains.md"
KEPT = ROOT / "build" / "toolchains.json"
TOOLCHAINS = ("gcc", "clang", "zig")
BOARDS = {  # one of each core; the M0's own board has 16 KiB of RAM
    "Cortex-M0": "microbit",
    "Cortex-M3": "mps2-an385",
    "Cortex-M4": "mps2-an386",
    "Cortex-M7": "mps2-an500",
    "Cortex-M33": "mps2-an505",
    "Cortex-M55": "mps3-an547",
    "RV32IMAC": "qemu-virt-rv32",
    "RV32IMAC_Zve32x": "qemu-virt-rv32-zve32x",
}
MARK = "<!-- made by docs/toolchains.py; nothing below is written by hand -->\n"


def measured(model: Path, board: str, toolchain: str) -> dict[str, object]:
    """Instructions of an inference, bytes of flash and verdict, or why there is no image."""
    argv = [sys.executable, "-m", "mlf_sdk", "run", str(model), "--board", board, "--toolchain", toolchain]
    done = subprocess.run(  # noqa: S603
        [*argv, "--no-twin", "--witness", "0", "--json"], capture_output=True, text=True, check=False
    )
    said = json.loads(done.stdout)
    if "error" in said:
        return {"error": said["error"]["what"]}
    flash = next(one["used_bytes"] for one in said["check"]["regions"] if one["name"] == "flash")
    return {"instructions": said["instructions"], "flash": flash, "verdict": said["verdict"]}


def rows(models: list[Path], kept: dict[str, dict[str, object]]) -> Iterator[str]:
    """Rows of the table; what is measured is kept at once."""
    for model in models:
        for core, board in BOARDS.items():
            found = []
            for toolchain in TOOLCHAINS:
                key = f"{model.name} {board} {toolchain}"
                if key not in kept:
                    kept[key] = measured(model, board, toolchain)
                    KEPT.parent.mkdir(exist_ok=True)
                    KEPT.write_text(json.dumps(kept, indent=1))
                found.append(kept[key])
            yield row(model.stem, core, found)


def row(model: str, core: str, found: list[dict[str, object]]) -> str:
    """A row: instructions of each toolchain, and its part of the first one's; what is not PASS says so."""
    cells = []
    for one in found:
        if "error" in one:
            cells.append("does not fit" if "does not fit" in str(one["error"]) else str(one["error"]))
            continue
        count, first = int(str(one["instructions"])), found[0].get("instructions")
        ratio = f" ({count / int(str(first)):.2f})" if first and one is not found[0] else ""
        wrong = "" if one["verdict"] == "PASS" else f" **{one['verdict']}**"
        cells.append(f"{count:,}{ratio}{wrong}")
    flash = " / ".join(f"{int(str(one['flash'])):,}" if "flash" in one else "-" for one in found)
    return f"| {model} | {core} | {' | '.join(cells)} | {flash} |"


def versions() -> str:
    """The compilers that were used."""
    from mlf_sdk.tools.discovery import Tool, find_tools, known_tools

    names = {"arm-none-eabi-gcc", "riscv64-unknown-elf-gcc"}
    found = find_tools(
        (*(tool for tool in known_tools() if tool.name in names), Tool(name="clang", purpose=""))
    )
    packages = f"ziglang {importlib.metadata.version('ziglang')}"
    return ", ".join((*(f"{one.tool.name} {one.version}" for one in found if one.version), packages))


def main() -> None:
    """Measure what is missing, and write the page."""
    models = [Path(name).resolve() for name in sys.argv[1:]]
    if not models:
        sys.exit(__doc__)
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    table = list(rows(models, kept))
    head = PAGE.read_text().partition(MARK)[0]
    heads = ("model", "core", *TOOLCHAINS, f"flash, {' / '.join(TOOLCHAINS)}")
    lines = [
        f"Measured with {versions()}.",
        "",
        f"| {' | '.join(heads)} |",
        "|---|---|--:|--:|--:|--:|",
        *table,
    ]
    PAGE.write_text(head + MARK + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
