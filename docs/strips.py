# SPDX-License-Identifier: Apache-2.0
"""Computes what vertical strips would save: ``python docs/strips.py MODEL...`` prints a table.

A region of rows may run once for each of some strips of its output's columns: its rings are narrower, by the
columns of a strip and its halo, which are computed again in each strip. Its inputs and outputs are whole, and
do not lie over each other: each strip reads all rows. For each bound of multiplications that are added, the
least RAM is searched exactly over all regions, each with one to four strips; scratch is that of whole rows.
Bytes are those of the search, for a Cortex-M4 and ``--for ram``; ``elsewhere`` is an input outside the arena.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.layer import macs_of
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, Move, Operator, Pool2D
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.rows.choose import row_choices, with_small_tiles
from mlf_sdk.compiler.rows.memory import InputMode, RowMemory, aligned
from mlf_sdk.compiler.rows.needs import ELEMENTWISE, row_bytes
from mlf_sdk.compiler.rows.pull import Region
from mlf_sdk.compiler.schedule import candidates
from mlf_sdk.frontends.compiled import choice_of, compiling_frontend

COUNTS = (2, 3, 4)
WORTH = 0.85  # of the RAM, as `--for ram` has it
SHARES = (0.0, 0.1, 0.25)  # of the model's multiplications
Columns = tuple[int, int]


class InputElsewhere(RowMemory):
    """Memory where the graph's inputs lie outside the arena."""

    def _bytes(self, value: int) -> int:
        return 0 if value in self.graph.inputs else super()._bytes(value)


def width_of(value: Value) -> int:
    """Columns of an image; 1 of another tensor."""
    return value.shape[2] if len(value.shape) == 4 and value.shape[0] == 1 else 1


def columns_read(graph: Graph, operator: Operator, columns: Columns) -> dict[int, Columns] | None:
    """First and last column of each input for those of the output; None: not known."""
    low, high = columns
    values = graph.values
    inputs = [x for x in operator.inputs if values[x].data is None]
    if isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D):
        window, last = operator.window, width_of(values[inputs[0]]) - 1
        first = low * window.stride[1] - window.before[1]
        end = high * window.stride[1] - window.before[1] + (window.size[1] - 1) * window.dilation[1]
        return {inputs[0]: (min(max(0, first), last), min(max(0, end), last))}
    width = width_of(values[operator.outputs[0]])
    if isinstance(operator, ELEMENTWISE) and all(width_of(values[x]) == width for x in inputs):
        return dict.fromkeys(inputs, columns)
    return _copied(graph, operator, columns) if isinstance(operator, Move) else None


def _copied(graph: Graph, operator: Move, columns: Columns) -> dict[int, Columns] | None:
    result: dict[int, Columns] = {}
    for region in operator.regions:
        x, y = (
            graph.values[operator.inputs[region.input]],
            graph.values[operator.outputs[region.output]],
        )
        if len(x.shape) != 4 or len(y.shape) != 4:
            return None
        source, target = region.indices()
        written = target // y.shape[3] % y.shape[2]
        inside = (written >= columns[0]) & (written <= columns[1])
        if inside.any():
            read = (source // x.shape[3] % x.shape[2])[inside]
            low, high = result.get(x.id, (width_of(x), 0))
            result[x.id] = min(low, int(read.min())), max(high, int(read.max()))
    return result


def strips(region: Region, count: int) -> tuple[dict[int, int], int] | None:
    """Most columns of each value of a region in a strip, and multiplications of all; None: no strips."""
    graph, widest, macs = region.graph, dict[int, int](), 0.0
    for strip in range(count):
        needed: dict[int, Columns] = {}
        for operator, one in zip(reversed(region.operators), reversed(region.firings), strict=True):
            for y in operator.outputs:
                width = width_of(graph.values[y])
                if y in region.outputs and not one.reduces:
                    if width < count:
                        return None
                    _add(needed, y, (strip * width // count, (strip + 1) * width // count - 1))
            if one.reduces:
                x = operator.inputs[0]
                width = width_of(graph.values[x])
                if width < count or any(y not in region.outputs for y in operator.outputs):
                    return None
                _add(needed, x, (strip * width // count, (strip + 1) * width // count - 1))
                continue
            made = [needed[y] for y in operator.outputs if y in needed]
            if not made:
                continue
            columns = min(low for low, _ in made), max(high for _, high in made)
            share = (columns[1] - columns[0] + 1) / width_of(graph.values[operator.outputs[0]])
            macs += macs_of(graph, operator) * share
            read = columns_read(graph, operator, columns)
            if read is None:
                return None
            for x, some in read.items():
                _add(needed, x, some)
        for value, (low, high) in needed.items():
            widest[value] = max(widest.get(value, 0), high - low + 1)
    return widest, round(macs)


def _add(needed: dict[int, Columns], value: int, columns: Columns) -> None:
    low, high = needed.get(value, columns)
    needed[value] = min(low, columns[0]), max(high, columns[1])


def ways(memory: RowMemory, start: int, end: int) -> list[tuple[int, int]]:
    """RAM of an interval of operators and the multiplications that it adds, for each number of strips."""
    whole = memory.interval(start, end)
    if whole is None:
        return []
    result = [(whole, 0)]
    found = memory.region(start, end) if end > start + 1 else None
    if found is None:
        return result
    region, parts, pulled = found
    usual = sum(
        macs_of(memory.graph, o)
        for o, one in zip(region.operators, region.firings, strict=True)
        if not one.reduces
    )
    apart = sum(memory._bytes(v) for v in (*region.inputs, *region.outputs))
    for count in COUNTS:
        some = strips(region, count)
        if some is not None:
            widest, macs = some
            rings = sum(
                _narrowed(memory.graph.values[v], pulled.rings[v], widest[v])
                if size and v in widest
                else size
                for v, size in parts.rings.items()
            )
            result.append((parts.across + apart + rings + parts.sums + parts.workspace, macs - usual))
    return result


def _narrowed(value: Value, rows: int, columns: int) -> int:
    """Bytes of a ring of rows of so many columns."""
    return aligned(rows * (row_bytes(value) // width_of(value)) * columns)


def least(memory: RowMemory, most_added: float) -> int:
    """Least RAM of all cuts of a graph that add no more multiplications."""
    count = len(memory.operators)
    known = {(a, b): ways(memory, a, b) for b in range(1, count + 1) for a in range(b)}
    sizes = sorted({size for some in known.values() for size, _ in some})
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        added = [0.0] + [math.inf] * count
        for (a, b), some in known.items():
            added[b] = min([added[b], *(added[a] + more for size, more in some if size <= sizes[middle])])
        low, high = (low, middle) if added[count] <= most_added else (middle + 1, high)
    return sizes[low]


def row_of(path: Path) -> str:
    """A model's row of the table."""
    options = CompileOptions(core="cortex-m4", goal="ram")
    choice = choice_of(options)
    graph = improve(compiling_frontend(path).graph(path, "", options))

    def kernels(part: Graph, one: Operator) -> Iterator[Kernel]:
        return candidates(part, one, choice)

    rows = with_small_tiles(row_choices(graph, kernels), WORTH)
    try:
        by_rows = with_small_tiles(row_choices(graph, kernels, InputMode.STREAMED), WORTH)
    except ValueError:  # its first layers can't run by rows
        by_rows = rows
    most = rows.cuts[0].peak_bytes  # intervals of more are no use
    total = sum(macs_of(graph, o) for o in graph.operators)
    cells = []
    for kind, choices in ((RowMemory, rows), (InputElsewhere, by_rows)):
        memory = kind(choices.graph, choices.memory._kernels, most=most)
        cells += [f"{least(memory, share * total):,}" for share in SHARES]
    return f"| {path.stem} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    print("| model | rows | strips, +10 % | +25 % | input elsewhere: rows | strips, +10 % | +25 % |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for path in parser.parse_args().models:
        print(row_of(path), flush=True)


if __name__ == "__main__":
    main()
