# SPDX-License-Identifier: Apache-2.0
"""Simulation of a region whose operators make rows only when they are needed; it sizes the rings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Fused, Operator
from mlf_sdk.compiler.rows.needs import Firings, firings_of, row_bytes, rows_of


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """A region as it runs.

    Attributes:
        order: position of the operator of each firing; that behind the last operator: a streamed row comes.
        rings: by the id of a value inside, the most rows of it that are there at once and still needed.
        distances: by the ids of a whole output and a whole input, bytes that the output must begin, or more,
            before the input, so that no row is written over one that is needed.
    """

    order: tuple[int, ...]
    rings: dict[int, int]
    distances: dict[tuple[int, int], int]


class Region:
    """Operators that run row by row, in the graph's order.

    Attributes:
        inputs, outputs: ids of values from outside, and of those that are used there.
        inside: ids of values that only the region sees.
        streamed: ids of inputs that come row by row.
    """

    def __init__(
        self,
        graph: Graph,
        operators: Sequence[Operator],
        firings: Sequence[Firings],
        outputs: set[int],
        streamed: Sequence[int] = (),
    ) -> None:
        self.graph, self.operators, self.firings = graph, tuple(operators), tuple(firings)
        self.makers = {y: k for k, o in enumerate(operators) for y in o.outputs}
        self.readers: dict[int, list[int]] = {}
        for k, one in enumerate(firings):
            for x in one.first:
                self.readers.setdefault(x, []).append(k)
        self.outputs = tuple(y for y in self.makers if y in outputs)
        self.inside = tuple(y for y in self.makers if y not in outputs)
        self.streamed = tuple(streamed)
        self.inputs = tuple(x for x in self.readers if x not in self.makers and x not in streamed)

    def pull(self, ahead: Mapping[int, int] | None = None) -> Pulled:
        """Order of the firings, and the sizes of the rings that it needs.

        Args:
            ahead: values inside whose rows lie in a whole output, where the rows go that are made of them.
        """
        return _Pull(self, ahead or {}).run()


def region_of(graph: Graph, fused: Fused) -> Region:
    """The region of a fused operator.

    Raises:
        ValueError: one of its operators can't run by rows.
    """
    lines = fused.lines or (1,) * len(fused.operators)
    firings = [firings_of(graph, o, count) for o, count in zip(fused.operators, lines, strict=True)]
    known = [one for one in firings if one is not None]
    if len(known) < len(firings):
        raise ValueError(f"layer {fused.number} has an operator that can't run by rows")
    return Region(graph, fused.operators, known, set(fused.outputs), fused.streamed)


def spare_rows(region: Region, x: int) -> int:
    """Rows more in the ring of a streamed input, which begins at a whole word, where rows go by unread."""
    firings = [region.firings[k] for k in region.readers[x]]
    skips = any(b > a + 1 for one in firings for a, b in zip(one.last[x], one.first[x][1:], strict=False))
    return words_rows(row_bytes(region.graph.values[x])) - 1 if skips else 0


def words_rows(size_bytes: int) -> int:
    """Least number of rows of so many bytes that are whole words."""
    return 4 // math.gcd(size_bytes, 4)


class _Pull:
    """State of a simulation."""

    def __init__(self, region: Region, ahead: Mapping[int, int]) -> None:
        self.region, self.ahead = region, ahead
        self.done = [0] * len(region.operators)
        self.rows = {v: rows_of(region.graph.values[v]) for v in (*region.makers, *region.readers)}
        self.made = dict.fromkeys((*region.makers, *region.streamed), 0)
        self.rings: dict[int, int] = {}
        self.distances: dict[tuple[int, int], int] = {}
        self.order: list[int] = []
        self.kept = {*region.inside, *region.streamed}

    def run(self) -> Pulled:
        """Fire the operators that make outputs in turn, the one that is furthest behind first."""
        region = self.region
        sinks = [
            k
            for k, o in enumerate(region.operators)
            if any(y in region.outputs for y in o.outputs) or not any(y in region.readers for y in o.outputs)
        ]
        while todo := [k for k in sinks if self.done[k] < len(region.firings[k])]:
            self.fire(min(todo, key=lambda k: self.done[k] / len(region.firings[k])))
        for x in region.streamed:
            self.rings[x] += spare_rows(region, x)
        return Pulled(order=tuple(self.order), rings=self.rings, distances=self.distances)

    def needed(self, value: int) -> int:
        """Lowest row that is still read; the height where none is."""
        low = self.rows[value]
        for k in self.region.readers.get(value, ()):
            first = self.region.firings[k].first[value]
            if self.done[k] < len(first):
                low = min(low, first[self.done[k]])
        return low

    def fire(self, k: int) -> None:
        """Make the next rows of an operator, and first those that it reads."""
        one, operator = self.region.firings[k], self.region.operators[k]
        at = self.done[k]
        for x, last in one.last.items():
            while x in self.made and self.made[x] <= last[at]:
                if x in self.region.makers:
                    self.fire(self.region.makers[x])
                else:
                    self._produce(x, self.made[x] + 1)
                    self.order.append(len(self.region.operators) + self.region.streamed.index(x))
        for y in operator.outputs:
            made = one.made[at]
            written = self.ahead.get(y, y)
            if written in self.region.outputs and made > self.made[y]:
                self._keep_apart(written, made)
            self._produce(y, made)
        self.order.append(k)
        self.done[k] = at + 1

    def _produce(self, value: int, made: int) -> None:
        before, self.made[value] = self.made[value], made
        if value in self.kept:
            live = made - min(self.needed(value), before)
            self.rings[value] = max(self.rings.get(value, 1), live)

    def _keep_apart(self, y: int, made: int) -> None:
        values = self.region.graph.values
        end = made * row_bytes(values[y])
        for x in self.region.inputs:
            distance = max(0, end - self.needed(x) * row_bytes(values[x]))
            self.distances[y, x] = max(self.distances.get((y, x), 0), distance)
