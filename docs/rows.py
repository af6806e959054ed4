# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/rows.md: ``python docs/rows.py [TABLE] MODEL[=BYTES]...``.

Each model is run on the emulated mps2-an386 (Cortex-M4) layer by layer, with ``--for ram``, and, where bytes
are given, with ``--max-arena``: RAM is what the painted arena shows, instructions are counted. With
``--cores`` each is run on boards of other cores, layer by layer and with ``--for ram``; with ``--stream``
layer by layer, and with its input by rows, within the bytes that are given, else with ``--for ram``; with
``--caller`` with ``--for ram``, and with its input in memory of the caller as well, then within the bytes
that are given. A run that does not pass, whose outputs differ from those of the host, of the reference or of
the witness among them, stands in the table as such; the command goes on, and ends with 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlf_sdk

PAGE = Path(__file__).with_name("rows.md")
BOARD = "mps2-an386"
CORES = {
    "M0": "microbit",
    "M3": "mps2-an385",
    "M7": "mps2-an500",
    "M33": "mps2-an505",
    "M55": "mps3-an547",
}
PLANS: dict[str, dict[str, Any]] = {"layer by layer": {}, "`--for ram`": {"goal": "ram"}}


@dataclass(frozen=True)
class Measured:
    """A run.

    Attributes:
        failure: reason why it did not pass; empty: it did.
        arena: bytes of the arena that it wrote.
        instructions: of one inference.
    """

    failure: str = ""
    arena: int = 0
    instructions: int = 0


def measured(model: str, board: str, options: dict[str, Any]) -> Measured:
    """Run a model; what happened to a run that did not pass is printed."""
    try:
        found = mlf_sdk.run(model, board=board, **options)
    except mlf_sdk.MlfError as error:
        failure = error.what.splitlines()[0]
    else:
        arena, instructions = found.memory.arena_high_water_bytes, found.instructions
        if found.ok and arena is not None and instructions is not None:
            return Measured(arena=arena, instructions=instructions)
        failure = str(found.verdict) if not found.ok else "nothing was counted"
    print(f"{model} on {board} with {options}: {failure}", file=sys.stderr)
    return Measured(failure=failure)


def _cells(run: Measured, usual: Measured) -> str:
    """Arena and instructions of a run against those of the usual plan."""
    if run.failure:
        return f" | not passed: {run.failure.replace('|', '/')} | | | |"
    if run is usual or usual.failure:
        return f" | {run.arena:,} | | {run.instructions:,} | |"
    shares = f"{run.arena / usual.arena - 1:+.1%}", f"{run.instructions / usual.instructions - 1:+.2%}"
    return f" | {run.arena:,} | {shares[0]} | {run.instructions:,} | {shares[1]} |"


def models_table(models: Sequence[str]) -> list[str]:
    """Rows of models on one board, at several bounds."""
    lines = [
        "| model | plan | arena | | instructions | |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for given in models:
        path, _, most = given.partition("=")
        plans = list(PLANS.items())
        if most:
            plans.append((f"`--max-arena {int(most)}`", {"max_arena": most}))
        runs = [measured(path, BOARD, options) for _, options in plans]
        for number, ((title, _), run) in enumerate(zip(plans, runs, strict=True)):
            lines.append(f"| {'' if number else _name(path)} | {title}{_cells(run, runs[0])}")
    return lines


def stream_table(models: Sequence[str]) -> list[str]:
    """Rows of models whose input comes row by row."""
    lines = [
        "| model | plan | arena | | instructions | |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for given in models:
        path, _, most = given.partition("=")
        usual = measured(path, BOARD, {})
        plan = f"`--stream --max-arena {int(most)}`" if most else "`--stream --for ram`"
        run = measured(path, BOARD, {"stream": True, **({"max_arena": most} if most else {"goal": "ram"})})
        lines.append(f"| {_name(path)} | layer by layer{_cells(usual, usual)}")
        lines.append(f"|  | {plan}{_cells(run, usual)}")
    return lines


def callers_table(models: Sequence[str]) -> list[str]:
    """Rows of models whose input lies in the arena, in memory of the caller, and with strips."""
    lines = ["| model | plan | arena | | instructions | |", "|---|---|--:|--:|--:|--:|"]
    for given in models:
        path, _, most = given.partition("=")
        plans: list[tuple[str, dict[str, Any]]] = [
            ("`--for ram`", {"goal": "ram"}),
            ("`--for ram --caller-inputs`", {"goal": "ram", "caller_inputs": True}),
        ]
        if most:
            title = f"`--max-arena {int(most)} --caller-inputs`"
            plans.append((title, {"max_arena": most, "caller_inputs": True}))
        runs = [measured(path, BOARD, options) for _, options in plans]
        for number, ((title, _), run) in enumerate(zip(plans, runs, strict=True)):
            lines.append(f"| {'' if number else _name(path)} | {title}{_cells(run, runs[0])}")
    return lines


def cores_table(models: Sequence[str]) -> list[str]:
    """Rows of models on boards of other cores."""
    lines = [
        "| core | model | plan | arena | | instructions | |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    for core, board in CORES.items():
        for path in (given.partition("=")[0] for given in models):
            runs = [measured(path, board, options) for options in PLANS.values()]
            for title, run in zip(PLANS, runs, strict=True):
                lines.append(f"| {core} | {_name(path)} | {title}{_cells(run, runs[0])}")
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
    """Write a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.set_defaults(table=("models", models_table))
    tables = parser.add_mutually_exclusive_group()
    for option, name, make, text in (
        ("--cores", "cores", cores_table, "other cores than the M4"),
        ("--stream", "streams", stream_table, "inputs that come row by row"),
        ("--caller", "callers", callers_table, "inputs in memory of the caller"),
    ):
        tables.add_argument(option, dest="table", action="store_const", const=(name, make), help=text)
    parser.add_argument("models", nargs="+", metavar="MODEL[=BYTES]")
    given = parser.parse_args()
    for path in (one.partition("=")[0] for one in given.models):
        if not Path(path).is_file():
            parser.error(f"{path}: no such file")
    name, make = given.table
    lines = make(given.models)
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8"), {name: lines}), encoding="utf-8")
    sys.exit(int(any("not passed" in line for line in lines)))


if __name__ == "__main__":
    main()
