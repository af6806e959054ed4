# SPDX-License-Identifier: Apache-2.0
"""Counters of a region in C: variables of one call, or in the workspace where its input comes row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.rows.memory import aligned
from mlf_sdk.compiler.rows.needs import row_bytes, rows_of
from mlf_sdk.compiler.rows.pull import Region, spare_rows
from mlf_sdk.ir.step import Stream
from mlf_sdk.tools.ctext import c_comment

_WORDS = 3  # rows that came, the first one that the ring holds, the place in the order


class Counters:
    """Firings of each operator (``done``), the first row of each ring, and the place in the order (``i``).

    Attributes:
        size_bytes: of the workspace, from its start on.
    """

    def __init__(self, region: Region, rings: Sequence[int]) -> None:
        self._region, self._streamed = region, region.streamed
        self._count = len(region.operators) + len(region.streamed)
        self._place = {v: k for k, v in enumerate(v for v in rings if v not in region.streamed)}
        tallest = max(rows_of(region.graph.values[v]) for v in (*region.makers, *region.readers))
        self._type, size = ("int16_t", 2) if tallest < 1 << 15 else ("int32_t", 4)
        used = 4 * _WORDS + size * (self._count + len(self._place))
        self.size_bytes = aligned(used) if region.streamed else 0

    def low(self, value: int, start: int) -> str:
        """The first row that a ring holds, which is ``start`` in the beginning, as a C expression."""
        if value in self._streamed:
            return "b0[1]"
        if not self._streamed:
            return f"low{value}"
        return f"(low[{self._place[value]}] - {-start})" if start else f"low[{self._place[value]}]"

    def add(self, value: int, rows: str) -> str:
        """C statement that drops rows of a ring."""
        if not self._streamed:
            return f"low{value} += {rows}"
        place = f"low[{self._place[value]}]"
        return f"{place} = ({self._type})({place} + {rows})"

    def declarations(self, moving: Mapping[int, tuple[int, str]]) -> str:
        """C text before the loop.

        Args:
            moving: by values whose rows move in their rings, the first row in the beginning, and their names.
        """
        if not self._streamed:
            low = "".join(
                f"    int32_t low{v} = {start}; /* row at which the ring of '{name}' begins */\n"
                for v, (start, name) in moving.items()
            )
            return f"    int32_t done[{self._count}] = {{0}};\n    int32_t i = 0;\n{low}"
        text = f"    {self._type} *const done = ({self._type} *)(b0 + {_WORDS});\n"
        if any(v in self._place for v in moving):
            text += f"    {self._type} *const low = done + {self._count}; /* rows at which rings begin */\n"
        return f"{text}    int32_t i = b0[2];\n"

    def arrivals(
        self, places: Mapping[int, int], rings: Mapping[int, int], keep_rows: Callable[[int], str]
    ) -> str:
        """Cases of rows that come, which end the call where they have not come.

        Args:
            places: words of the workspace at which rings begin.
            rings: rows of rings.
            keep_rows: name of the function that moves rows of so many words.
        """
        first = len(self._region.operators)
        numbered = enumerate(self._streamed, first)
        return "".join(self._arrival(number, x, places[x], rings[x], keep_rows) for number, x in numbered)

    def _arrival(self, number: int, x: int, place: int, rows: int, keep_rows: Callable[[int], str]) -> str:
        value = self._region.graph.values[x]
        size, pad, lowest = row_bytes(value), " " * 16, ""
        for k in self._region.readers[x]:
            one = self._region.firings[k]
            step, offset = one.line(x) or (0, 0)
            text = first_row((step, offset), f"done[{k}]")
            stops = len(one) * step + offset < rows_of(value)  # before the last row came
            reads = f"done[{k}] < {len(one)} && " if stops else ""
            lowest += f"{pad}if ({reads}({text}) < first) {{\n{pad}    first = {text};\n{pad}}}\n"
        if spare := spare_rows(self._region, x):
            lowest += f"{pad}first -= first % {spare + 1};\n"
        if size % 4 == 0:
            words = size // 4
            move = f"{keep_rows(words)}(b0 + {place}, (first - b0[1]) * {words}, (row - first) * {words});"
        else:
            start = f"(int8_t *)(b0 + {place})"
            count = f"(uint32_t)((row - first) * {size})"
            move = f"memmove({start}, {start} + (first - b0[1]) * {size}, {count});"
        return f"""        case {number}: /* a row of '{name_of(value)}' */
            if (row < b0[0]) {{
                break;
            }}
            if (row - b0[1] >= {rows}) {{
                int32_t first = row; /* that is needed */
{lowest}                {move}
                b0[1] = first;
            }}
            --done[{number}];
            b0[2] = i;
            return;
"""

    def end(self) -> str:
        """C text behind the loop: rows that nobody reads may still come."""
        return "    b0[1] = b0[0];\n    b0[2] = i;\n" if self._streamed else ""

    def stream(
        self, inputs: Sequence[int], places: Mapping[int, int], rings: Mapping[int, int]
    ) -> Stream | None:
        """The input that comes row by row; ``inputs`` of the region, the others as for `arrivals`."""
        for x in self._streamed:
            value = self._region.graph.values[x]
            return Stream(
                input=inputs.index(x),
                rows=rows_of(value),
                row_bytes=row_bytes(value),
                ring_rows=rings[x],
                ring_offset_bytes=4 * places[x],
                counter_bytes=self.size_bytes,
            )
        return None


def name_of(value: Value) -> str:
    """Name of a value for a comment in C."""
    return c_comment(value.name.partition(";")[0], max_length=60)


def first_row(line: tuple[int, int] | None, firing: str = "row") -> str:
    """C expression of the first row that a firing reads."""
    step, offset = line or (0, 0)
    text = {0: "0", 1: firing}.get(step, f"{firing} * {step}")
    if not offset:
        return text
    text = f"{text} {'-' if offset < 0 else '+'} {abs(offset)}"
    return f"({text} < 0 ? 0 : {text})" if offset < 0 else text
