# SPDX-License-Identifier: Apache-2.0
"""How results look: labelled facts, tables, verdicts. Text may fold; a number never does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

Parts = list[RenderableType]
Cell = str | Text

_LABEL_WIDTH = 10
_KIB, _MIB = 1 << 10, 1 << 20


def number(value: int | None) -> str:
    """A number with thousands separators; a dash where there is none."""
    return "-" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes: ``7,296 B``; a dash where there is no number."""
    return "-" if value is None else f"{value:,} B"


def capacity(value: int) -> str:
    """The size of a memory in the largest unit that gives a whole number."""
    for unit, name in ((_MIB, "MiB"), (_KIB, "KiB")):
        if value >= unit and value % unit == 0:
            return f"{value // unit:,} {name}"
    return f"{value:,} B"


def counted(count: int, noun: str) -> str:
    """A count and its noun: ``1 step``, ``9 steps``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def verdict(ok: bool) -> Text:
    """The verdict, readable without its colour."""
    return Text("PASS", style="bold green") if ok else Text("FAIL", style="bold red")


def line(label: str, text: Cell, mark: Text | None = None) -> Table:
    """A labelled fact, with a verdict behind it where it has one; what does not fit hangs below it."""
    fact = Text("").append(text)
    if mark is not None:
        fact.append("  ").append(mark)
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=_LABEL_WIDTH, no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row(Text(label), fact)
    return grid


def lines(label: str, texts: Iterable[Cell]) -> Parts:
    """Several facts under one label."""
    return [line(label if index == 0 else "", text) for index, text in enumerate(texts)]


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, figures: int) -> Table:
    """Rows under headings.

    Args:
        columns: headings.
        rows: a cell for each column.
        figures: how many columns, from the first on, hold figures: to the right, and never folded.
    """
    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(columns):
        if index < figures:
            found.add_column(name, justify="right", no_wrap=True)
        else:
            found.add_column(name, overflow="fold")
    for row in rows:
        found.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return found
