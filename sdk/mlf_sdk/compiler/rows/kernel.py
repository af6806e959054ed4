# SPDX-License-Identifier: Apache-2.0
"""Kernel of a region: rows of its operators in the order of the simulation, values inside in rings.

A ring holds its newest rows in their order without a gap, so that a kernel of rows reads them like a small
image: when it is full, the rows that are kept move to the front before the next one is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, c_type
from mlf_sdk.compiler.kernels.overlap import may_share
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.compiler.rows.fused import Fused
from mlf_sdk.compiler.rows.memory import aligned
from mlf_sdk.compiler.rows.needs import Firings, row_bytes, rows_of
from mlf_sdk.compiler.rows.pull import Pulled, Region, region_of
from mlf_sdk.compiler.rows.tiles import Kernels, RowTile, line_of, row_tiles
from mlf_sdk.tools.ctext import c_comment

_MOVE = """static void keep_rows(int32_t *ring, int32_t dropped, int32_t kept)
{ /* words; those that are kept move to the front */
    typedef int32_t MLF_MAY_ALIAS word_t;
    word_t *to = ring;
    const word_t *from = ring + dropped;
    for (; kept >= 4; kept -= 4, to += 4, from += 4) {
        int32_t a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
    }
    for (; kept > 0; --kept) {
        *to++ = *from++;
    }
}
"""


def region_kernel(graph: Graph, fused: Fused, kernels: Kernels) -> Kernel | None:
    """The kernel of a fused operator; None where one of its operators has no kernels of rows.

    Args:
        kernels: of an operator.
    """
    region = region_of(graph, fused)
    tiles = [
        row_tiles(graph, o, one, kernels) for o, one in zip(region.operators, region.firings, strict=True)
    ]
    if not all(tiles):
        return None
    return _Writer(graph, fused, region, tiles).kernel()


class _Constants:
    """Arrays behind each other in one, those of equal bytes once."""

    def __init__(self) -> None:
        self._words: list[Array] = []
        self._places: dict[bytes, int] = {}
        self._count = 0

    def place(self, array: Array) -> int:
        """Number of the word at which an array begins; every array begins at an even one."""
        data = np.ascontiguousarray(array).tobytes()
        if data not in self._places:
            self._places[data] = self._count
            words = np.frombuffer(data + bytes(-len(data) % 8), np.int32)
            self._words.append(words)
            self._count += len(words)
        return self._places[data]

    def array(self) -> Array:
        """All of them."""
        return np.concatenate(self._words)


class _Writer:
    """Places of a region's memory, and its C text."""

    def __init__(
        self, graph: Graph, fused: Fused, region: Region, tiles: Sequence[tuple[RowTile, ...]]
    ) -> None:
        self.graph, self.fused, self.region, self.tiles = graph, fused, region, tiles
        self.pulled: Pulled = region.pull()
        self.constants = _Constants()
        self.helpers: dict[str, str] = {}
        self.rings: dict[int, int] = {}  # word of the workspace at which a ring begins
        at = 0
        for value, rows in self.pulled.rings.items():
            self.rings[value] = at // 4
            at += aligned(rows * row_bytes(graph.values[value]))
        self.scratch = at // 4
        self.workspace_bytes = at + max(t.kernel.workspace_bytes for some in tiles for t in some)

    def kernel(self) -> Kernel:
        """The kernel; its one array of constants holds those of all layers, and the order of their rows."""
        cases = "".join(
            self._case(k, operator, one)
            for k, (operator, one) in enumerate(zip(self.region.operators, self.region.firings, strict=True))
        )
        order = self.constants.place(np.array(self.pulled.order, np.uint8))
        low = "".join(
            f"    int32_t low{v} = 0; /* row at which the ring of '{_name(self.graph.values[v])}' begins */\n"
            for v, rows in self.pulled.rings.items()
            if rows < rows_of(self.graph.values[v])
        )
        body = f"""    const uint8_t *order = (const uint8_t *)(p0 + {order});
    int32_t done[{len(self.region.operators)}] = {{0}};
{low}    for (int32_t i = 0; i < {len(self.pulled.order)}; ++i) {{
        const int32_t row = done[order[i]]++;
        switch (order[i]) {{
{cases}        default:
            break;
        }}
    }}
"""
        return Kernel(
            family="rows",
            parameters=self._parameters(),
            body=body,
            helpers=self.helpers,
            constants=(self.constants.array(),),
            workspace_bytes=self.workspace_bytes,
            overlaps=self._overlaps(),
        )

    def _parameters(self) -> tuple[Parameter, ...]:
        values = self.graph.values
        found = [Parameter(Role.INPUT, i, c_type(values[x].dtype)) for i, x in enumerate(self.fused.inputs)]
        found.append(Parameter(Role.CONSTANT, 0, "int32_t"))
        found += [
            Parameter(Role.OUTPUT, i, c_type(values[y].dtype)) for i, y in enumerate(self.fused.outputs)
        ]
        if self.workspace_bytes:
            found.append(Parameter(Role.WORKSPACE, 0, "int32_t"))
        return tuple(found)

    def _overlaps(self) -> dict[int, int]:
        values = self.graph.values
        found = {}
        for number, x in enumerate(self.fused.inputs):
            outputs = self.fused.outputs
            if x in self.region.inputs and all(may_share(values[x], values[y]) for y in outputs):
                found[number] = max(self.pulled.distances[y, x] for y in outputs)
        return found

    def _case(self, k: int, operator: Operator, one: Firings) -> str:
        """Statements of a firing of an operator, whose number is ``row``."""
        (y,) = operator.outputs
        ring = self.pulled.rings.get(y)
        size = row_bytes(self.graph.values[y])
        lines = []
        if ring is not None and ring < rows_of(self.graph.values[y]):
            lines.append(f"if (row - low{y} >= {ring}) {{")
            if ring > 1:
                lines.append(f"    keep_rows(b0 + {self.rings[y]}, {size // 4}, {(ring - 1) * size // 4});")
                self.helpers["keep_rows"] = _MOVE
            lines += [f"    ++low{y};", "}"]
        calls = self._calls(operator, one, self.tiles[k])
        text = "".join(f"            {line}\n" for line in [*lines, *calls, "break;"])
        value = self.graph.values[y]
        return f"        case {k}: /* layer {operator.number}: {operator.kind} '{_name(value)}' */\n{text}"

    def _calls(self, operator: Operator, one: Firings, tiles: tuple[RowTile, ...]) -> list[str]:
        if len(tiles) == 1:
            return [f"{self._call(operator, one, tiles[0].kernel)}"]
        lines = []
        for number, tile in enumerate(tiles):
            last = tile is tiles[-1]
            head = "} else {" if last else f"{'} else ' if number else ''}if (row < {tile.end}) {{"
            lines += [head, f"    {self._call(operator, one, tile.kernel)}"]
        return [*lines, "}"]

    def _call(self, operator: Operator, one: Firings, kernel: Kernel) -> str:
        arguments = []
        for p in kernel.parameters:
            if p.role is Role.CONSTANT:
                text = f"(const {p.type} *)(p0 + {self.constants.place(kernel.constants[p.number])})"
            elif p.role is Role.WORKSPACE:
                text = f"({p.type} *)(b0 + {self.scratch})"
            elif p.role is Role.OUTPUT:
                text = self._place(operator.outputs[p.number], "row", p.type)
            else:
                x = operator.inputs[p.number]
                text = self._place(x, _first(one.first[x]), f"const {p.type}")
            arguments.append(text)
        return f"{self._function(kernel)}({', '.join(arguments)});"

    def _place(self, value: int, row: str, type_: str) -> str:
        """Address of a row."""
        size = row_bytes(self.graph.values[value])
        ring = self.pulled.rings.get(value)
        if ring is not None:
            low = f" - low{value}" if ring < rows_of(self.graph.values[value]) else ""
            offset = f" + ({row}{low}) * {size // 4}" if ring > 1 else ""
            return f"({type_} *)(b0 + {self.rings[value]}{offset})"
        items = size // self.graph.values[value].dtype.itemsize
        known = self.fused.inputs.index(value) if value in self.fused.inputs else None
        name = f"x{known}" if known is not None else f"y{self.fused.outputs.index(value)}"
        return f"{name} + ({row}) * {items}" if rows_of(self.graph.values[value]) > 1 else name

    def _function(self, kernel: Kernel) -> str:
        """Name of the function of a kernel of rows, once it is among the helpers."""
        name = f"row_{kernel.family}_{kernel.key}"
        parameters = ", ".join(p.declaration.replace("*", "*restrict ") for p in kernel.parameters)
        self.helpers.update(kernel.helpers)
        self.helpers[name] = f"static void {name}({parameters})\n{{\n{kernel.body}}}\n"
        return name


def _first(rows: list[int]) -> str:
    """C expression of the first row that firing ``row`` reads."""
    step, offset = line_of(rows) or (0, 0)
    text = {0: "0", 1: "row"}.get(step, f"row * {step}")
    if not offset:
        return text
    text = f"{text} {'-' if offset < 0 else '+'} {abs(offset)}"
    return f"({text} < 0 ? 0 : {text})" if offset < 0 else text


def _name(value: Value) -> str:
    return c_comment(value.name.partition(";")[0], max_length=60)
