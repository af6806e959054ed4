# SPDX-License-Identifier: Apache-2.0
"""Slots of rings that several values of a region share, so that the later ones need no ring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlf_sdk.compiler.operators import DepthwiseConv2D
from mlf_sdk.compiler.rows.needs import ELEMENTWISE, row_bytes, rows_of
from mlf_sdk.compiler.rows.pull import Pulled, Region


def pulled_in_place(region: Region, in_place: Sequence[frozenset[int]]) -> tuple[Pulled, dict[int, int]]:
    """Simulation of a region, and the values that need no ring, as of `shared_slots`."""
    pulled = region.pull()
    shared = shared_slots(region, pulled.rings, in_place)
    ends = {x: _end_of(region, shared, x) for x in shared}
    ahead = {x: y for x, y in ends.items() if y in region.outputs}
    return (region.pull(ahead) if ahead else pulled), shared


def _end_of(region: Region, shared: Mapping[int, int], value: int) -> int:
    """The value in whose memory a row is made that elementwise operators replace one after the other."""
    while value in shared and region.makers[value] < region.makers[shared[value]]:
        value = shared[value]
    return value


def shared_slots(region: Region, rings: dict[int, int], in_place: Sequence[frozenset[int]]) -> dict[int, int]:
    """Values inside that need no ring: by their ids, the value in whose ring each of their rows lies.

    Rows of a depthwise layer go where the first rows of its windows lay; a ring begins with the rows of
    padding above. A row that only an elementwise operator reads lies where that operator's own newest
    row goes.

    Args:
        in_place: of each operator, see `OperatorMemory`.
    """
    shared: dict[int, int] = {}
    for k, (operator, allowed) in enumerate(zip(region.operators, in_place, strict=True)):
        if isinstance(operator, DepthwiseConv2D) and 0 in allowed:
            if _takes_dying_slot(region, k, rings):
                shared[operator.outputs[0]] = operator.inputs[0]
        elif isinstance(operator, ELEMENTWISE):
            x = next((x for x in _passing(region, k, rings, allowed) if x not in shared), None)
            if x is not None:
                shared[x] = operator.outputs[0]
    return shared


def _takes_dying_slot(region: Region, k: int, rings: dict[int, int]) -> bool:
    """True for a layer whose output, used at once, fits where rows of its input were that are not needed."""
    operator, one = region.operators[k], region.firings[k]
    x, y = operator.inputs[0], operator.outputs[0]
    values = region.graph.values
    line = one.line(x)
    if rings.get(y) != one.lines or not _is_handed_on(region, x) or line is None:
        return False
    step, offset = line
    span = max(last - step * at - offset for at, last in enumerate(one.last[x])) + 1
    room = one.lines <= step and span <= rings[x] and rings[x] > 1
    return room and row_bytes(values[y]) <= row_bytes(values[x])


def _is_handed_on(region: Region, x: int) -> bool:
    """True for rows that are made for one operator alone, when it needs them."""
    alone = x in region.inside and len(region.readers[x]) == 1
    return alone and len(region.operators[region.makers[x]].outputs) == 1


def _passing(region: Region, k: int, rings: dict[int, int], allowed: frozenset[int]) -> Iterator[int]:
    """Inputs of an elementwise operator whose rows may lie where its own ones go."""
    operator = region.operators[k]
    y = region.graph.values[operator.outputs[0]]
    for number, x in enumerate(operator.inputs):
        value = region.graph.values[x]
        alone = number in allowed and rings.get(x) == 1 and _is_handed_on(region, x)
        same = rows_of(value) == rows_of(y) and value.size_bytes == y.size_bytes
        if alone and same:
            yield x
