# SPDX-License-Identifier: Apache-2.0
"""Layout of results in the terminal: labelled facts, tables, verdicts. Text may fold; numbers never do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from mlf_sdk.judge.chiptime import DOCUMENT, ChipTime

Parts = list[RenderableType]
Cell = str | Text

_LABEL_WIDTH = 10
_LEAST_TEXT = 12  # width of a column whose text folds
_GAP = 2
_WHOLE = ">=~"  # marks of columns that never fold
_NAME = re.compile(r"(?:\b\d+ )?\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b\S*")  # of an operator, with its layer
_KIB, _MIB = 1 << 10, 1 << 20


def number(value: int | None) -> str:
    """Number with thousands separators; a dash for None."""
    return "-" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Size in bytes, e.g. ``7,296 B``; a dash for None."""
    return "-" if value is None else f"{value:,} B"


def figure(value: float | None) -> str:
    """Figure with three digits that count; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def chip_time_text(time: ChipTime) -> str:
    """Time of an inference on a chip: ``~41 ms at 80 MHz, STM32L4R5XI, estimate, see docs/estimates.md``."""
    name = time.chip.upper()
    if time.ms is None:
        return f"{name}: {time.why}"
    energy = "" if time.mj is None else f", ~{figure(time.mj)} mJ"
    return f"~{figure(time.ms)} ms{energy} at {time.clock_hz / 1e6:g} MHz, {name}, estimate, see {DOCUMENT}"


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


def verdict(ok: bool, missing: str = "") -> Text:
    """Verdict as coloured text; ``missing`` names what a good result was not checked against."""
    if ok and missing:
        return Text(missing, style="bold yellow")
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
    """Table with headings; where the terminal is too narrow for it, rows as paragraphs.

    Args:
        columns: headings; ``>`` before one: figures, to the right, never folded; ``=``: text that is
            never folded; ``~``: a picture, left out where it does not fit; else the text folds where the
            terminal is narrow, and names of operators in it stay whole.
        rows: a cell for each column.
    """
    whole_table = _WholeTable(columns)
    for row in rows:
        whole_table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return whole_table


class _WholeTable(Table):
    """Table that never cuts a figure: it drops pictures, then becomes paragraphs."""

    def __init__(self, headings: Sequence[str]) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        self.headings = headings
        for name in headings:
            self.add_column(
                name.lstrip(_WHOLE),
                justify="right" if name[:1] == ">" else "left",
                no_wrap=name[:1] in tuple(_WHOLE),
                overflow="fold",
            )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the first form that fits."""
        cells = [list(map(_as_text, column.cells)) for column in self.columns]
        widths = _widths(self.headings, cells, options.max_width)
        if widths is not None:
            for column, width in zip(self.columns, widths, strict=True):
                column.width = width
            yield from super().__rich_console__(console, options)
            return
        plain = [index for index, name in enumerate(self.headings) if name[:1] != "~"]
        rows = [[column[at] for column in cells] for at in range(self.row_count)]
        if len(plain) < len(self.headings):
            yield table([self.headings[i] for i in plain], [[row[i] for i in plain] for row in rows])
        else:
            for row in rows:
                yield from _paragraph(self.headings, row, options.max_width)


def _widths(headings: Sequence[str], columns: Sequence[Sequence[Text]], most: int) -> list[int] | None:
    """Width of each column of a table of at most ``most`` characters; None: it needs more.

    A column that may fold keeps a name in capitals, such as ``DEPTHWISE_CONV_2D``, whole. What is left goes
    to the columns that fold most.
    """
    natural, least = [], []
    for name, column in zip(headings, columns, strict=True):
        heading = cell_len(name.lstrip(_WHOLE))
        whole = max((cell.cell_len for cell in column), default=0)
        names = (cell_len(word) for cell in column for word in _NAME.findall(cell.plain))
        folded = whole if name[:1] in tuple(_WHOLE) else min(whole, max(_LEAST_TEXT, *names, 0))
        natural.append(max(heading, whole))
        least.append(max(heading, folded))
    left = most - _GAP * (len(headings) - 1) - sum(least)
    if left < 0:
        return None
    widths = list(least)
    while left > 0 and widths != natural:
        short = [at for at, width in enumerate(widths) if width < natural[at]]
        at = min(short, key=lambda at: widths[at])
        widths[at] += 1
        left -= 1
    return widths


def _as_text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _paragraph(headings: Sequence[str], cells: Sequence[Text], width: int) -> Parts:
    """Lines of at most ``width`` characters: the cells of a row that are not empty, with their headings."""
    texts: list[Text] = []
    for heading, cell in zip(headings, cells, strict=True):
        if cell.plain in ("", "-"):
            continue
        name = heading.lstrip(_WHOLE)
        item = Text(f"{name} " if name else "", overflow="fold").append(cell)
        if texts and texts[-1].cell_len + _GAP + item.cell_len <= width:
            texts[-1].append(" " * _GAP).append(item)
        else:
            texts.append(item)
    return [*texts]


def executor_text(executor: str) -> str:
    """Executor in words."""
    return {"graph": "graph executor", "aot": "AOT executor", "operator": "single operator"}.get(
        executor, executor
    )


def params_text(params_bytes: int) -> str:
    """Size of the parameters in words."""
    return f"{size(params_bytes)} parameters" if params_bytes else "constants in the code"


def arena_text(arena_bytes: int, bound_bytes: int, caller_bytes: int = 0) -> str:
    """Size of an arena and its lower bound in words, and of inputs in memory of the caller."""
    bound = "the lower bound" if arena_bytes == bound_bytes else f"lower bound {size(bound_bytes)}"
    inside = f"outputs included, and inputs of {size(caller_bytes)} in memory of the caller"
    return f"{size(arena_bytes)} ({bound}), {inside if caller_bytes else 'inputs and outputs included'}"
