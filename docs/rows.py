# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/rows.md: ``python docs/rows.py MODEL[=BYTES]...``.

Each model is run on the emulated mps2-an386 (Cortex-M4) layer by layer, with ``--for ram``, and, where bytes
are given, with ``--max-arena``: RAM is what the painted arena shows, instructions are counted, and a run
whose outputs differ from those of the host, of the reference or of the witness ends the command.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlf_sdk

PAGE = Path(__file__).with_name("rows.md")
BOARD = "mps2-an386"


def measured(model: str, board: str, options: dict[str, Any]) -> tuple[int, int]:
    """Bytes of the arena that a run wrote, and its instructions.

    Raises:
        SystemExit: it did not pass.
    """
    found = mlf_sdk.run(model, board=board, **options)
    if not found.ok or found.memory.arena_high_water_bytes is None or found.instructions is None:
        raise SystemExit(f"{model} on {board} with {options}: {found.verdict}")
    return found.memory.arena_high_water_bytes, found.instructions


def models_table(models: Sequence[str]) -> list[str]:
    """Rows of models on one board, at several bounds."""
    lines = [
        "| model | plan | arena | | instructions | |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for given in models:
        path, _, most = given.partition("=")
        plans: list[tuple[str, dict[str, Any]]] = [("layer by layer", {}), ("`--for ram`", {"goal": "ram"})]
        if most:
            plans.append((f"`--max-arena {int(most):,}`".replace(",", ""), {"max_arena": most}))
        usual: tuple[int, int] | None = None
        for title, options in plans:
            arena, instructions = measured(path, BOARD, options)
            usual = usual or (arena, instructions)
            shares = f"{arena / usual[0] - 1:+.1%}", f"{instructions / usual[1] - 1:+.2%}"
            shown = shares if options else ("", "")
            name = "" if options else _name(path)
            lines.append(f"| {name} | {title} | {arena:,} | {shown[0]} | {instructions:,} | {shown[1]} |")
    return lines


def _name(path: str) -> str:
    return Path(path).stem.removesuffix("_tflite")


def write(page: str, tables: dict[str, list[str]]) -> str:
    """The page with tables between ``<!-- NAME -->`` and ``<!-- end -->``."""
    for name, lines in tables.items():
        head, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        if not mark or not end:
            raise SystemExit(f"{PAGE.name} has no place for the table '{name}'")
        page = f"{head}{mark}\n{''.join(f'{line}{chr(10)}' for line in lines)}\n{end}{tail}"
    return page


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[=BYTES]")
    tables = {"models": models_table(parser.parse_args().models)}
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
