# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/estimates.md: ``python docs/estimates.py [ARCHIVES]``.

The first table is of the errors that docs/layer_costs.py measured; the second checks cycles against
published results (``docs/published.toml``): instructions of the same software, counted, at the cycles
that an instruction takes by the cost model of the core. ARCHIVES is the folder of the archives that are
named there: they are profiled on an emulated board, and rows without one keep the instructions and
cycles that the page has.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

import mlf_sdk
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.judge.estimate import cost_models

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "estimates.md"
PUBLISHED = ROOT / "docs" / "published.toml"
_ROW = re.compile(r"^\| (\S+) \| ([^|]+) \| (\w+) \| ([\d,]+) \| ([\d,]+) \|", re.MULTILINE)


def fit_table() -> list[str]:
    """Rows of the error of an estimate from layers, for each core."""
    models = {model.core: model for model in cost_models().values()}
    lines = ["| core | models | median | largest | the model of it |", "|---|--:|--:|--:|---|"]
    for core, model in sorted(models.items()):
        size = {name: abs(error) for name, error in model.error.items()}
        worst = max(size, key=lambda name: size[name])
        lines.append(f"| {core} | {len(size)} | {median(size.values()):.0%} | {size[worst]:.0%} | {worst} |")
    return lines


def published_table(archives: Path | None, page: str) -> list[str]:
    """Rows of published results and estimates of the same software."""
    known = {(m[1], m[2], m[3]): (_number(m[4]), _number(m[5])) for m in _ROW.finditer(page)}
    lines = [
        "| chip | software | model | instructions counted | cycles estimated | cycles published | error |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    for row in msgspec.toml.decode(PUBLISHED.read_text(encoding="utf-8"))["results"]:
        for model, throughput in row["throughput"].items():
            key = (row["chip"], row["software"], model)
            counted = _counted(row, model, archives) or known.get(key)
            real = row["clock_hz"] / throughput
            if counted is None:
                lines.append(f"| {' | '.join(key)} | not counted | - | {real:,.0f} | not checked |")
                continue
            instructions, cycles = counted
            lines.append(
                f"| {key[0]} | {key[1]} | {model} | {instructions:,} | {cycles:,} | {real:,.0f} | "
                f"{cycles / real - 1:+.0%} |"
            )
    return lines


def source_list() -> list[str]:
    """Sources of the published results, and what was counted for each."""
    rows = msgspec.toml.decode(PUBLISHED.read_text(encoding="utf-8"))["results"]
    return [
        f"* {row['chip']} at {row['clock_hz'] / 1e6:g} MHz, {row['software']}: {row['source']}. "
        f"Counted: {row['counted']}."
        for row in rows
    ]


def _counted(row: dict[str, Any], model: str, archives: Path | None) -> tuple[int, int] | None:
    """Instructions and estimated cycles of one inference; None: they were not counted here."""
    costs = cost_models()[row["core"]]
    if "instructions" in row:
        instructions = row["instructions"][model]
        terms = costs.terms("")
        each = 1.0 if terms.cycles is None else terms.cycles[0] / terms.instructions[0]
        return instructions, round(instructions * each)
    if archives is None:
        return None
    board = core_named(costs.core).counted_on
    found = mlf_sdk.profile(archives / row["archives"][model], board=board)
    return (found.total, found.cycles.cycles) if found.cycles is not None else None


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def tables(archives: Path | None, page: str) -> Iterator[tuple[str, list[str]]]:
    """Parts of the page by the name of their marks."""
    yield "fit", fit_table()
    yield "published", published_table(archives, page)
    yield "sources", source_list()


def write(page: str, archives: Path | None = None) -> str:
    """Return the page with its tables as they are now."""
    for name, lines in tables(archives, page):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        head, _, rest = page.partition(begin)
        page = head + "\n".join([begin, "", *lines, "", end]) + rest.partition(end)[2]
    return page


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    archives = Path(arguments[0]) if arguments else None
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8"), archives), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
