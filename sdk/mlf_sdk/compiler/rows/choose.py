# SPDX-License-Identifier: Apache-2.0
"""Pass that fuses layers into regions of rows, so that a graph runs in less RAM."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.layer import macs_of
from mlf_sdk.compiler.operators import SCRATCH_BYTES, Conv2D, Operator
from mlf_sdk.compiler.rows.counters import Counters
from mlf_sdk.compiler.rows.flattened import through_reshapes, with_reshapes
from mlf_sdk.compiler.rows.fused import fuse
from mlf_sdk.compiler.rows.memory import ALIGNMENT, InputMode, OperatorMemory, RowMemory
from mlf_sdk.compiler.rows.needs import firings_of, row_bytes
from mlf_sdk.compiler.rows.search import Cut, Interval, front
from mlf_sdk.compiler.rows.tiles import Kernels, in_place, row_tiles

WORTH: Final = 0.85  # of the RAM, for the many more instructions that tiles of few pixels take
_SCRATCH: Final = (8192, 4096, 2048, 1024)  # bytes that kernels of rows are given where that much is left


Plan = Callable[[int], Graph]
"""The graph with the regions of a cut, whose kernels are the fastest ones for some bytes of RAM."""


class Choices(msgspec.Struct, frozen=True):
    """Regions that a graph can be cut into.

    Attributes:
        graph: the one that was given, but its dense layers read maps themselves that are flattened for them.
        cuts: the one of least RAM first, then those of fewer fused layers; the last one fuses none, or those
            alone that must run by rows because their input comes so.
    """

    graph: Graph
    given: Graph
    kernels: Kernels
    memory: RowMemory
    cuts: tuple[Cut, ...]

    def fused(self, cut: Cut, most_bytes: int = 0) -> Graph:
        """The graph with the regions of a cut.

        Args:
            most_bytes: RAM that there is; less than that of the cut counts as that.
        """
        graph = self.graph
        for start, end in cut.intervals:
            streamed = self.memory.streamed(start, end)
            if end - start > 1 or streamed:
                lines, scratch = self._faster((start, end), max(most_bytes, cut.peak_bytes))
                graph = fuse(
                    graph,
                    self.memory.operators[start:end],
                    lines,
                    scratch,
                    streamed,
                    fit_scratch=self._fit_scratch,
                )
        return with_reshapes(graph, self.given)

    @property
    def _fit_scratch(self) -> bool:
        return self.memory.mode is InputMode.STREAMED

    def within(self, most_bytes: int) -> Iterator[Plan]:
        """Plans of graphs that may take some RAM, those of the fewest fused layers first."""
        for cut in reversed(self.cuts):
            if cut.peak_bytes <= most_bytes:
                yield partial(self.fused, cut)

    def largest_scratch(self) -> frozenset[int]:
        """Numbers of the convolutions whose scratch is the largest one where the most RAM is taken."""
        cut = self.cuts[0]
        result: set[int] = set()
        for interval in cut.intervals:
            if self.memory.interval(*interval) == cut.peak_bytes:
                scratch = self.memory.scratch(*interval)
                largest = max(scratch.values())
                result |= {
                    o.number for o, size in scratch.items() if size == largest > 0 and isinstance(o, Conv2D)
                }
        return frozenset(result)

    def _faster(self, interval: Interval, most_bytes: int) -> tuple[list[int], int]:
        """Rows at once of each operator of a region, and scratch, that take the fewest instructions."""
        start, end = interval
        operators = self.memory.operators
        lines = dict.fromkeys(range(start, end), 1)
        least = self._alternatives(lines, SCRATCH_BYTES)
        pairs = self._alternatives(dict.fromkeys(lines, 2), SCRATCH_BYTES)
        work = {k: self._row_work(operators[k]) for k, one in pairs.items() if one is not None}
        for k in sorted(work, key=lambda k: work[k], reverse=True):
            if self._fits(interval, {**least, k: pairs[k]}, most_bytes):
                lines[k], least[k] = 2, pairs[k]
        workspace, left = self._workspace(interval, least, most_bytes)
        for scratch in sorted({*_SCRATCH, workspace, left}, reverse=True):
            if self._fits(interval, self._alternatives(lines, scratch), most_bytes):
                return [*lines.values()], scratch
        taken = self._region(interval, least)
        if taken is not None and sum(taken) > most_bytes:  # the peak of a cut is without counters
            return self._faster(interval, sum(taken))
        return [*lines.values()], SCRATCH_BYTES

    def _row_work(self, operator: Operator) -> float:
        """Products for each byte of a row of the input."""
        return macs_of(self.graph, operator) / row_bytes(self.graph.read(operator)[0])

    def _alternatives(self, lines: dict[int, int], scratch_bytes: int) -> dict[int, OperatorMemory | None]:
        """Memory of operators by their positions; None for one that does not make so many rows at once."""
        operators = self.memory.operators
        return {
            k: _memory_of(
                self.graph, operators[k], self.kernels, n, scratch_bytes, fit_scratch=self._fit_scratch
            )
            for k, n in lines.items()
        }

    def _fits(self, interval: Interval, kernels: dict[int, OperatorMemory | None], most_bytes: int) -> bool:
        region = self._region(interval, kernels)
        return region is not None and sum(region) <= most_bytes

    def _workspace(
        self, interval: Interval, kernels: dict[int, OperatorMemory | None], most_bytes: int
    ) -> tuple[int, int]:
        """Scratch of a region, and the most that there is room for."""
        region = self._region(interval, kernels)
        if region is None:
            return SCRATCH_BYTES, SCRATCH_BYTES
        scratch, others = region
        return scratch, (most_bytes - others) // ALIGNMENT * ALIGNMENT

    def _region(
        self, interval: Interval, kernels: dict[int, OperatorMemory | None]
    ) -> tuple[int, int] | None:
        """Bytes of scratch of a region, and all others that live while it runs, its counters among them."""
        known = {k: one for k, one in kernels.items() if one is not None}
        result = self.memory.varied(known).region(*interval)
        if result is None:
            return None
        region, memory, pulled = result
        counters = Counters(region, [*pulled.rings]).size_bytes
        return memory.workspace, memory.total - memory.workspace + counters


def row_choices(graph: Graph, kernels: Kernels, mode: InputMode = InputMode.WHOLE) -> Choices:
    """Choices of regions of an improved graph: no other takes less RAM with no more layers fused.

    Args:
        kernels: of an operator.

    Raises:
        ValueError: the input is streamed, and the operators that read it can't run by rows, or not in what
            the layers take on whole inputs.
    """
    fit_scratch = mode is InputMode.STREAMED
    given, graph = graph, through_reshapes(graph)
    result = [
        _memory_of(graph, operator, kernels, fit_scratch=fit_scratch) or OperatorMemory()
        for operator in graph.operators
    ]
    plain = RowMemory(graph, result)
    count = len(plain.operators)
    alone = [plain.interval(k, k + 1) for k in range(count)]
    most = max((size for size in alone if size is not None), default=0)
    memory = RowMemory(graph, result, mode, most=most)
    return Choices(graph, given, kernels, memory, front(count, memory.interval))


def choices_in_strips(choices: Choices, given: Graph, most_bytes: int) -> Choices | None:
    """Choices of a graph some of whose layers are in strips; None where all take more than some RAM.

    Args:
        choices: of the graph as it was.
        given: of `mlf_sdk.compiler.rows.strips.in_strips`.
    """
    known = {(type(o), o.outputs): one for o, one in choices.memory.kernels}
    graph = through_reshapes(given)
    result = [
        known.get((type(o), o.outputs)) or _memory_of(graph, o, choices.kernels) or OperatorMemory()
        for o in graph.operators
    ]
    memory = RowMemory(graph, result, choices.memory.mode, most=most_bytes)

    def taken(start: int, end: int) -> int | None:
        size = memory.interval(start, end)
        return None if size is None or size > most_bytes else size

    try:
        cuts = front(len(memory.operators), taken)
    except ValueError:
        return None
    return Choices(graph, given, choices.kernels, memory, cuts)


def least_ram(graph: Graph, kernels: Kernels, mode: InputMode = InputMode.WHOLE) -> Graph:
    """The graph with those layers fused, as few as possible, with which it takes the least RAM.

    Convolutions take tiles of few pixels where that saves much.
    """
    choices = with_small_tiles(row_choices(graph, kernels, mode), WORTH)
    return choices.fused(choices.cuts[0])


def with_small_tiles(choices: Choices, share: float = 1.0) -> Choices:
    """Choices in which convolutions take tiles of few pixels where the least RAM needs it; else the same.

    Args:
        share: of the RAM, that it must come down to: such tiles take many more instructions.
    """
    given = choices
    while more := choices.largest_scratch() - choices.given.small_tiles:
        graph = dataclasses.replace(choices.given, small_tiles=choices.given.small_tiles | more)
        fewer = row_choices(graph, choices.kernels, choices.memory.mode)
        if fewer.cuts[0].peak_bytes >= choices.cuts[0].peak_bytes:
            break
        choices = fewer
    return choices if choices.cuts[0].peak_bytes <= share * given.cuts[0].peak_bytes else given


def _memory_of(
    graph: Graph,
    operator: Operator,
    kernels: Kernels,
    lines: int = 1,
    scratch_bytes: int = SCRATCH_BYTES,
    *,
    fit_scratch: bool = False,
) -> OperatorMemory | None:
    """Memory of an operator's kernels; None where those of rows do not make so many at once."""
    kernel: Kernel | None = next(kernels(graph, operator), None)
    if kernel is None:
        return OperatorMemory(row_workspace_bytes=None) if lines == 1 else None
    firings = firings_of(graph, operator, lines)
    tiles = (
        row_tiles(graph, operator, firings, kernels, scratch_bytes, fit_scratch=fit_scratch)
        if firings is not None
        else ()
    )
    if lines > 1 and not (tiles and firings is not None and firings.lines == lines):
        return None
    scratch = max((t.kernel.workspace_bytes for t in tiles), default=None)
    return OperatorMemory(
        workspace_bytes=kernel.workspace_bytes,
        overlaps=kernel.overlaps,
        row_workspace_bytes=0 if firings is not None and firings.reduces and tiles else scratch,
        in_place=in_place(tiles),
        lines=lines,
    )
