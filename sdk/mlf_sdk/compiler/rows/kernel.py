# SPDX-License-Identifier: Apache-2.0
"""Kernel of a region: rows of its operators in the order of the simulation, values inside in rings.

A ring holds its newest rows in their order without a gap, so that a kernel of rows reads them like a small
image: when it is full, the rows that are kept move to the front before the next one is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, c_type, may_share
from mlf_sdk.compiler.operators import Fused, Operator
from mlf_sdk.compiler.rows.counters import Counters, first_row, name_of
from mlf_sdk.compiler.rows.memory import aligned
from mlf_sdk.compiler.rows.needs import Firings, row_bytes, rows_of
from mlf_sdk.compiler.rows.parts import Constants, keep_rows
from mlf_sdk.compiler.rows.pull import Region, region_of
from mlf_sdk.compiler.rows.slots import pulled_in_place
from mlf_sdk.compiler.rows.tiles import Kernels, RowTile, in_place, row_tiles
from mlf_sdk.ir.names import layer_function


def region_kernel(graph: Graph, fused: Fused, kernels: Kernels) -> Kernel | None:
    """The kernel of a fused operator; None where one of its operators has no kernels of rows.

    Args:
        kernels: of an operator.
    """
    region = region_of(graph, fused)
    tiles = [
        row_tiles(graph, o, one, kernels, fused.scratch_bytes, fit_scratch=fused.fit_scratch)
        for o, one in zip(region.operators, region.firings, strict=True)
    ]
    if not all(tiles):
        return None
    return _Writer(graph, fused, region, tiles).kernel()


class _Writer:
    """Places of a region's memory, and its C text."""

    def __init__(
        self, graph: Graph, fused: Fused, region: Region, tiles: Sequence[tuple[RowTile, ...]]
    ) -> None:
        self.graph, self.fused, self.region, self.tiles = graph, fused, region, tiles
        self.constants = Constants()
        self.helpers: dict[str, str] = {}
        users = Counter(key for some in tiles for key in {t.kernel.key for t in some})
        self.common = {key for key, count in users.items() if count > 1}  # kernels of several layers
        self.pulled, self.shared = pulled_in_place(region, [in_place(some) for some in tiles])
        self.rings: dict[int, int] = {}  # word of the workspace at which a ring begins
        self.counters = Counters(region, [v for v in self.pulled.rings if v not in self.shared])
        end = self.counters.size_bytes
        for value, rows in self.pulled.rings.items():
            if value not in self.shared:
                self.rings[value] = aligned(end) // 4
                end = aligned(end) + rows * row_bytes(graph.values[value])
        self.sums: dict[int, int] = {}  # word at which those of a reduction begin, by its position
        scratch = 0
        for k, (one, some) in enumerate(zip(region.firings, tiles, strict=True)):
            size = max(t.kernel.workspace_bytes for t in some)
            if one.reduces:
                self.sums[k] = aligned(end) // 4
                end = aligned(end) + size
            else:
                scratch = max(scratch, size)
        self.scratch = aligned(end) // 4
        self.workspace_bytes = aligned(end) + scratch if scratch else end

    def kernel(self) -> Kernel:
        """The kernel; its one array of constants holds those of all layers, and the order of their rows."""
        cases = "".join(
            self._case(k, operator, one)
            for k, (operator, one) in enumerate(zip(self.region.operators, self.region.firings, strict=True))
        )
        order = self.constants.place(np.array(self.pulled.order, np.uint8))
        cases += self.counters.arrivals(self.rings, self.pulled.rings, partial(keep_rows, self.helpers))
        moving = [v for v in self.rings if self._moves(v) and not self._turns(v)]
        head = self.counters.declarations(
            {v: (-self._rows_above(v), name_of(self.graph.values[v])) for v in moving}
        )
        body = f"""    const uint8_t *order = (const uint8_t *)(p0 + {order});
{head}    for (; i < {len(self.pulled.order)}; ++i) {{
        const int32_t row = done[order[i]]++;
        switch (order[i]) {{
{cases}        default:
            break;
        }}
    }}
{self.counters.end()}"""
        return Kernel(
            family="rows",
            parameters=self._parameters(),
            body=body,
            helpers=self.helpers,
            constants=(self.constants.array(),),
            workspace_bytes=self.workspace_bytes,
            overlaps=self._overlaps(),
            stream=self.counters.stream(self.fused.inputs, self.rings, self.pulled.rings),
        )

    def _parameters(self) -> tuple[Parameter, ...]:
        values = self.graph.values
        parameters = [
            Parameter(Role.INPUT, i, c_type(values[x].dtype))
            for i, x in enumerate(self.fused.inputs)
            if x not in self.region.streamed
        ]
        parameters.append(Parameter(Role.CONSTANT, 0, "int32_t"))
        parameters += [
            Parameter(Role.OUTPUT, i, c_type(values[y].dtype)) for i, y in enumerate(self.fused.outputs)
        ]
        if self.workspace_bytes:
            parameters.append(Parameter(Role.WORKSPACE, 0, "int32_t"))
        return tuple(parameters)

    def _overlaps(self) -> dict[int, int]:
        values = self.graph.values
        distances = {}
        for number, x in enumerate(self.fused.inputs):
            outputs = self.fused.outputs
            if x in self.region.inputs and all(may_share(values[x], values[y]) for y in outputs):
                distances[number] = max(self.pulled.distances[y, x] for y in outputs)
        return distances

    def _case(self, k: int, operator: Operator, one: Firings) -> str:
        """Statements of a firing of an operator, whose number is ``row``."""
        lines = [line for y in operator.outputs for line in self._room(y)]
        calls = self._calls(operator, one, self.tiles[k])
        text = "".join(f"            {line}\n" for line in [*lines, *calls, "break;"])
        value = self.graph.values[operator.outputs[0]]
        layer = f"layer {operator.number}: {operator.kind} '{name_of(value)}'"
        return f"        case {k}: {{ /* {layer} */\n{text}        }}\n"

    def _moves(self, value: int) -> bool:
        """True for a ring that does not hold all rows, those of padding above among them."""
        return self.pulled.rings[value] < rows_of(self.graph.values[value]) + self._rows_above(value)

    def _turns(self, value: int) -> bool:
        """True for a ring whose rows stay in their slots: its readers take one row, or pointers to rows."""
        if value in self.region.streamed:
            return False
        ring, lines = self.pulled.rings[value], self.region.firings[self.region.makers[value]].lines
        if ring % lines or self._rows_above(value) % lines:
            return False  # rows that are made at once lie behind each other
        readers = self.region.readers.get(value, ())
        for k, one, tiles in ((k, self.region.firings[k], self.tiles[k]) for k in readers):
            in_slots = value in (self.shared.get(y) for y in self.region.operators[k].outputs)
            if one.first[value] != one.last[value] and not tiles[0].by_row:
                return False
            if in_slots and ring % one.lines:
                return False
        return True

    def _rows_above(self, value: int) -> int:
        """Rows of padding for which a ring has slots: rows of a depthwise layer go there."""
        for y, x in self.shared.items():
            if x == value and not self._lies_ahead(y):
                line = self.region.firings[self.region.makers[y]].line(x)
                return max(0, -line[1]) if line else 0
        return 0

    def _room(self, value: int) -> list[str]:
        """Statements that make room in a ring before the first write into a slot."""
        if any(self._lies_ahead(x) and self.shared[x] == value for x in self.shared):
            return []  # the row that lies there is about to be replaced
        lines = self.region.firings[self.region.makers[value]].lines
        while self._lies_ahead(value):
            value = self.shared[value]
        if value not in self.rings or not self._moves(value) or self._turns(value):
            return []
        rows, words = rows_of(self.graph.values[value]), row_bytes(self.graph.values[value]) // 4
        ring, end = self.pulled.rings[value], "row" if lines == 1 else f"row * {lines}"
        made = "1" if lines == 1 else f"({rows} - {end} < {lines} ? {rows} - {end} : {lines})"
        low = self._low(value)
        count = f"dropped{value}"
        text = [f"const int32_t {count} = {end} + {made} - {low} - {ring};", f"if ({count} > 0) {{"]
        if ring > 1:
            kept = f"({end} - {low} - {count}) * {words}"
            move = keep_rows(self.helpers, words)
            text.append(f"    {move}(b0 + {self.rings[value]}, {count} * {words}, {kept});")
        return [*text, f"    {self.counters.add(value, count)};", "}"]

    def _low(self, value: int) -> str:
        """The first row that a ring holds."""
        return self.counters.low(value, -self._rows_above(value))

    def _lies_ahead(self, value: int) -> bool:
        """True for a value whose rows lie where those go which an elementwise operator makes of them."""
        return value in self.shared and self.region.makers[value] < self.region.makers[self.shared[value]]

    def _calls(self, operator: Operator, one: Firings, tiles: tuple[RowTile, ...]) -> list[str]:
        if len(tiles) == 1:
            return [self._call(operator, one, tiles[0])]
        lines = []
        for number, tile in enumerate(tiles):
            test = "" if tile is tiles[-1] else f"if (row < {tile.end}) "
            lines += [f"{'} else ' if number else ''}{test}{{", f"    {self._call(operator, one, tile)}"]
        return [*lines, "}"]

    def _call(self, operator: Operator, one: Firings, tile: RowTile) -> str:
        arguments = []
        kernel = tile.kernel
        for p in kernel.parameters:
            if p.role is Role.CONSTANT:
                place = f"p0 + {self.constants.place(kernel.constants[p.number])}"
                more = f" + row * {tile.stride}" if tile.stride and p.number == 0 else ""
                text = f"(const {p.type} *)({place}{more})"
            elif p.role is Role.WORKSPACE:
                word = self.sums.get(self.region.makers[operator.outputs[0]], self.scratch)
                text = f"({p.type} *)(b0 + {word})"
            elif p.role is Role.OUTPUT:
                row = "row" if one.lines == 1 else f"row * {one.lines}"
                text = self._place(operator.outputs[p.number], row, p.type)
            elif tile.by_row:
                text = self._row_or_null(operator.inputs[0], one, p)
            else:
                x = operator.inputs[p.number]
                text = self._place(x, self._first(one, x), f"const {p.type}")
            arguments.append(text)
        return f"{self._function(kernel, operator)}({', '.join(arguments)});"

    def _first(self, one: Firings, x: int) -> str:
        """C expression of the first row that firing ``row`` reads."""
        if (line := one.line(x)) is not None:
            return first_row(line)
        return f"p0[{self.constants.place(np.array(one.first[x], np.int32))} + row]"

    def _row_or_null(self, x: int, one: Firings, p: Parameter) -> str:
        """Address of a row of a window by its number, or NULL where it is outside."""
        step, offset = one.line(x) or (0, 0)
        at = offset + p.number
        row = f"row * {step}" + (f" {'-' if at < 0 else '+'} {abs(at)}" if at else "")
        place, height = self._place(x, row, f"const {p.type}"), rows_of(self.graph.values[x])
        tests = [f"{row} >= 0"] * (at < 0) + [f"{row} < {height}"] * ((len(one) - 1) * step + at >= height)
        return f"{' && '.join(tests)} ? {place} : 0" if tests else place

    def _place(self, value: int, row: str, type_: str) -> str:
        """Address of a row."""
        if self._lies_ahead(value):
            return self._place(self.shared[value], row, type_)
        if value in self.shared:
            return self._dying_slot(value, row, type_)
        size = row_bytes(self.graph.values[value])
        if value in self.rings:
            ring = f"b0 + {self.rings[value]}"
            if self.pulled.rings[value] == 1:  # for any ``row``: that of a reduction counts its input's rows
                return f"({type_} *)({ring})"
            slot = self._slot(value, row)
            if size % 4:
                return f"({type_} *)((const int8_t *)({ring}) + {slot} * {size})"
            return f"({type_} *)({ring} + {slot} * {size // 4})"
        items = size // self.graph.values[value].dtype.itemsize
        known = self.fused.inputs.index(value) if value in self.fused.inputs else None
        name = f"x{known}" if known is not None else f"y{self.fused.outputs.index(value)}"
        return f"{name} + ({row}) * {items}" if rows_of(self.graph.values[value]) > 1 else name

    def _slot(self, value: int, row: str) -> str:
        """Number of the slot of a row in its ring."""
        if not self._moves(value):
            return f"({row})"
        if not self._turns(value):
            return f"({row} - {self._low(value)})"
        above = self._rows_above(value)
        first = f"{row} + {above}" if above else row
        return f"(int32_t)((uint32_t)({first}) % {self.pulled.rings[value]}u)"

    def _dying_slot(self, value: int, row: str, type_: str) -> str:
        """Address of a row in the ring of what it was made from."""
        x, one = self.shared[value], self.region.firings[self.region.makers[value]]
        step, offset = one.line(x) or (1, 0)
        firing = f"({row})" if one.lines == 1 else f"({row}) / {one.lines}"
        slot = self._slot(x, f"{firing} * {step} {'-' if offset < 0 else '+'} {abs(offset)}")
        values = self.graph.values
        more = f" + ({row}) % {one.lines} * {row_bytes(values[value]) // 4}" if one.lines > 1 else ""
        return f"({type_} *)(b0 + {self.rings[x]} + {slot} * {row_bytes(values[x]) // 4}{more})"

    def _function(self, kernel: Kernel, operator: Operator) -> str:
        """Name of a layer's function for a kernel of rows, once it is among the helpers."""
        free = (Role.INPUT, Role.OUTPUT) if kernel.overlaps else ()
        parameters = ", ".join(
            p.declaration if p.role in free else p.declaration.replace("*", "*restrict ")
            for p in kernel.parameters
        )
        self.helpers.update(kernel.helpers)
        body = kernel.body
        if kernel.key in self.common:
            common = f"row_{kernel.family}_{kernel.key}"
            self.helpers[common] = f"static void {common}({parameters})\n{{\n{body}}}\n"
            body = f"    {common}({', '.join(p.name for p in kernel.parameters)});\n"
        name = layer_function(operator.number, f"{kernel.family}_{kernel.key}")
        self.helpers[name] = f"static MLF_LAYER void {name}({parameters})\n{{\n{body}}}\n"
        return name
