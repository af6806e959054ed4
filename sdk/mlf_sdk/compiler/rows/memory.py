# SPDX-License-Identifier: Apache-2.0
"""RAM that lives while a region, or an operator by itself, runs."""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Operator, Reshape
from mlf_sdk.compiler.rows.needs import Firings, firings_of, row_bytes
from mlf_sdk.compiler.rows.pull import Pulled, Region
from mlf_sdk.compiler.rows.slots import pulled_in_place

ALIGNMENT = 16  # of tensors, rings and workspaces


class InputMode(enum.Enum):
    """Place of the graph's inputs: whole, in the arena or outside of it, or row by row in a region's ring."""

    WHOLE = "whole"
    OUTSIDE = "outside"
    STREAMED = "streamed"

    @classmethod
    def of(cls, *, caller_inputs: bool) -> InputMode:
        """Place of inputs that are there as a whole."""
        return cls.OUTSIDE if caller_inputs else cls.WHOLE


class OperatorMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of an operator's kernels.

    Attributes:
        workspace_bytes: of the kernel of the whole operator.
        overlaps: of that kernel, see `mlf_sdk.compiler.kernels.kernel.Kernel`.
        row_workspace_bytes: of the kernels of its rows; None: there are none.
        in_place: numbers of the inputs where the kernels of rows may write at the start of what they read.
        lines: rows of the output that the kernels of rows make at once.
    """

    workspace_bytes: int = 0
    overlaps: dict[int, int] = {}
    row_workspace_bytes: int | None = 0
    in_place: frozenset[int] = frozenset((0, 1))
    lines: int = 1


class RegionMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that live while a region runs.

    Attributes:
        across: values that are neither read nor written by it, and used later.
        whole: its inputs and outputs, which may lie over each other.
        rings: by value; those that need no memory of their own have 0.
        sums: of reductions.
        workspace: the largest one of its operators.
    """

    across: int
    whole: int
    rings: dict[int, int]
    sums: int
    workspace: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.across + self.whole + sum(self.rings.values()) + self.sums + self.workspace


def aligned(size: int) -> int:
    """Bytes up to the next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class RowMemory:
    """Memory of every interval of a graph's operators, each computed once.

    Attributes:
        operators: those that read a value that is not constant, in order.
    """

    def __init__(
        self,
        graph: Graph,
        kernels: Sequence[OperatorMemory],
        mode: InputMode = InputMode.WHOLE,
        *,
        most: int | None = None,
    ) -> None:
        """Find out which operators run by rows.

        Args:
            kernels: of each operator of the graph.
            most: intervals of more bytes may be left out; None: none is.
        """
        self.graph, self.mode, self._most = graph, mode, most
        pairs = [
            (o, k)
            for o, k in zip(graph.operators, kernels, strict=True)
            if any(graph.values[i].data is None for i in o.inputs)
        ]
        self.operators = tuple(o for o, _ in pairs)
        self._kernels = [k for _, k in pairs]
        self._firings = [self._fired(o, k) for o, k in pairs]
        self._first = dict.fromkeys(graph.inputs, -1)
        self._last: dict[int, int] = {}
        for position, operator in enumerate(self.operators):
            for y in operator.outputs:
                self._first.setdefault(y, position)
            self._last.update(dict.fromkeys(operator.inputs, position))
        self._last.update(dict.fromkeys(graph.outputs, len(self.operators)))
        self._known: dict[tuple[int, int], int | None] = {}

    def _fired(self, operator: Operator, kernel: OperatorMemory) -> Firings | None:
        return None if kernel.row_workspace_bytes is None else firings_of(self.graph, operator, kernel.lines)

    @property
    def kernels(self) -> Iterator[tuple[Operator, OperatorMemory]]:
        """Operators with the memory of their kernels."""
        return zip(self.operators, self._kernels, strict=True)

    def varied(self, kernels: Mapping[int, OperatorMemory]) -> RowMemory:
        """The same graph with other kernels of some operators, by their positions."""
        other = copy.copy(self)
        other._kernels = [kernels.get(k, one) for k, one in enumerate(self._kernels)]
        other._firings = [
            self._fired(self.operators[k], kernels[k]) if k in kernels else one
            for k, one in enumerate(self._firings)
        ]
        other._known = {}
        return other

    def interval(self, start: int, end: int) -> int | None:
        """Bytes that live while operators ``start`` to ``end - 1`` run; None: they can't run by rows."""
        key = (start, end)
        if key not in self._known:
            if end == start + 1 and not self._streams(start):
                self._known[key] = self._alone(start)
            else:
                region = self.region(start, end)
                self._known[key] = None if region is None else region[1].total
        return self._known[key]

    def streamed(self, start: int, end: int) -> tuple[int, ...]:
        """Inputs that come row by row to a region that uses nothing else of them."""
        if self.mode is not InputMode.STREAMED:
            return ()
        read = {x for o in self.operators[start:end] for x in o.inputs}
        return tuple(x for x in self.graph.inputs if x in read and self._last[x] < end)

    def _streams(self, position: int) -> bool:
        """True for an operator that reads an input which is never there as a whole."""
        return self.mode is InputMode.STREAMED and any(
            x in self.graph.inputs for x in self.operators[position].inputs
        )

    def scratch(self, start: int, end: int) -> dict[Operator, int]:
        """Bytes of scratch of the kernels of an interval."""
        known = zip(self.operators[start:end], self._kernels[start:end], strict=True)
        if end == start + 1:
            return {o: k.workspace_bytes for o, k in known}
        return {o: k.row_workspace_bytes or 0 for o, k in known}

    def region(self, start: int, end: int) -> tuple[Region, RegionMemory, Pulled] | None:
        """A region, its memory, and how it runs; None: the operators can't run by rows."""
        firings = [one for one in self._firings[start:end] if one is not None]
        if len(firings) < end - start:
            return None
        operators = self.operators[start:end]
        made = [y for o in operators for y in o.outputs]
        outputs = {y for y in made if self._last.get(y, -2) >= end}
        streamed = self.streamed(start, end)
        region = Region(self.graph, operators, firings, outputs, streamed)
        if self.mode is InputMode.STREAMED and any(x in self.graph.inputs for x in region.inputs):
            return None
        if any(one.line(x) is None for one in firings for x in streamed if x in one.first):
            return None  # rows that come are dropped by such a line
        across = self._across(start, end, {*made, *region.inputs, *streamed})
        least = across + self._least(region, end)
        if self._most is not None and least > self._most:
            return None
        pulled, shared = pulled_in_place(region, [k.in_place for k in self._kernels[start:end]])
        return region, self._memory(region, pulled, shared, across, end), pulled

    def _least(self, region: Region, end: int) -> int:
        """Bytes that inputs and outputs take at least, wherever they lie."""
        stay = sum(self._bytes(x) for x in region.inputs if self._last[x] >= end)
        die = sum(self._bytes(x) for x in region.inputs if self._last[x] < end)
        return stay + max(die, sum(map(self._bytes, region.outputs)))

    def _memory(
        self, region: Region, pulled: Pulled, shared: dict[int, int], across: int, end: int
    ) -> RegionMemory:
        values = self.graph.values
        kernels = self._kernels[end - len(region.operators) : end]
        return RegionMemory(
            across=across,
            whole=self._whole(region, pulled, end),
            rings={
                v: 0 if v in shared else aligned(rows * row_bytes(values[v]))
                for v, rows in pulled.rings.items()
            },
            sums=sum(
                aligned(4 * values[o.outputs[0]].elements)
                for o, one in zip(region.operators, region.firings, strict=True)
                if one.reduces and len(one) > 1
            ),
            workspace=aligned(max(k.row_workspace_bytes or 0 for k in kernels)),
        )

    def _whole(self, region: Region, pulled: Pulled, end: int) -> int:
        """Bytes of inputs and outputs, where one output may lie over one input that nothing reads later."""
        inputs = {x: self._bytes(x) for x in region.inputs}
        outputs = {y: self._bytes(y) for y in region.outputs}
        apart = sum(inputs.values()) + sum(outputs.values())
        best = apart
        for (y, x), distance in pulled.distances.items():
            if self._last[x] < end:
                union = max(outputs[y], aligned(distance) + inputs[x])
                best = min(best, apart - inputs[x] - outputs[y] + union)
        return best

    def _alone(self, position: int) -> int:
        """Bytes that live while one operator runs as a whole."""
        operator, kernel = self.operators[position], self._kernels[position]
        inputs = dict.fromkeys(i for i in operator.inputs if self.graph.values[i].data is None)
        across = self._across(position, position + 1, {*inputs, *operator.outputs})
        read = sum(map(self._bytes, inputs))
        if isinstance(operator, Reshape):
            return across + read
        written = sum(map(self._bytes, operator.outputs))
        best = read + written
        for number, distance in kernel.overlaps.items():
            x = operator.inputs[number]
            dies = self._last[x] <= position
            if dies and x in inputs and (len(operator.outputs) == 1 or len(inputs) == 1):
                best = min(best, read - self._bytes(x) + max(written, aligned(distance) + self._bytes(x)))
        return across + best + aligned(kernel.workspace_bytes)

    def _across(self, start: int, end: int, used: set[int]) -> int:
        """Bytes of values that live before and behind an interval that does not use them."""
        return sum(
            self._bytes(v)
            for v, first in self._first.items()
            if v not in used and first < start and self._last.get(v, -2) >= end
        )

    def _bytes(self, value: int) -> int:
        if self.mode is InputMode.OUTSIDE and value in self.graph.inputs:
            return 0
        return aligned(self.graph.values[value].size_bytes)
