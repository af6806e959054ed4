# SPDX-License-Identifier: Apache-2.0
"""Layout of results in the terminal: labelled facts, tables, verdicts. Text may fold; numbers never do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

Parts = list[RenderableType]
Cell = str | Text

_LABEL_WIDTH = 10
_KIB, _MIB = 1 << 10, 1 << 20


def number(value: int | None) -> str:
    """Number with thousands separators; a dash for None."""
    return "-" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Size in bytes, e.g. ``7,296 B``; a dash for None."""
    return "-" if value is None else f"{value:,} B"


def capacity(value: int) -> str:
    """Size of a memory in the largest unit that gives a whole number."""
    for unit, name in ((_MIB, "MiB"), (_KIB, "KiB")):
        if value >= unit and value % unit == 0:
            return f"{value // unit:,} {name}"
    return f"{value:,} B"


def counted(count: int, noun: str) -> str:
    """Count with its noun: ``1 step``, ``9 steps``, ``2 findings``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def verdict(ok: bool) -> Text:
    """Verdict as coloured text."""
    return Text("PASS", style="bold green") if ok else Text("FAIL", style="bold red")


def line(label: str, text: Cell, mark: Text | None = None) -> Table:
    """Labelled fact, optionally with a verdict; long text is indented below it."""
    fact = Text("").append(text)
    if mark is not None:
        fact.append("  ").append(mark)
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=_LABEL_WIDTH, no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row(Text(label), fact)
    return grid


def fits_label(text: str) -> bool:
    """Check that ``text`` is short enough for a label."""
    return cell_len(text) <= _LABEL_WIDTH


def lines(label: str, texts: Iterable[Cell]) -> Parts:
    """Several facts under one label, shown once."""
    return [line(label if index == 0 else "", text) for index, text in enumerate(texts)]


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """Table with headings.

    Args:
        columns: headings; ``>`` before one: figures, to the right, never folded; ``=``: text that is
            never folded; else the text folds where the terminal is narrow.
        rows: a cell for each column.
    """
    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        whole = name[:1] in (">", "=")
        found.add_column(
            name[1:] if whole else name,
            justify="right" if name[:1] == ">" else "left",
            no_wrap=whole,
            overflow="fold",
        )
    for row in rows:
        found.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return found
