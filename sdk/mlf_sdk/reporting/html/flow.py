# SPDX-License-Identifier: Apache-2.0
"""Picture of a graph of data flow: layers downward, folded into columns where there are many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlf_sdk.reporting.html.data import Flow, FlowEdge, FlowNode
from mlf_sdk.reporting.html.names import anchor_of, shorten
from mlf_sdk.reporting.html.svg import centred, element, markup, path, picture

_BOX_W, _BOX_H = 248.0, 40.0
_ROW, _SIDE = 66.0, 14.0  # from one row to the next; room between boxes of a row
_LANE, _TOP, _LEFT = 8.0, 30.0, 4.0
_COLUMNS, _ROWS = 4, 6  # as many columns as the page has room for, where they have this many rows
_CHARS = 36


def flow_picture(flow: Flow) -> str:
    """Draw a graph of steps as SVG."""
    return _Picture(flow).draw()


def layers_of(flow: Flow) -> list[list[int]]:
    """Assign nodes to layers by their longest path from a source; inputs go right above their first reader.

    Returns:
        Indices of the nodes of each layer, from left to right.
    """
    before: dict[int, list[int]] = {n: [] for n in range(len(flow.nodes))}
    after: dict[int, list[int]] = {n: [] for n in range(len(flow.nodes))}
    for edge in flow.edges:
        before[edge.target].append(edge.source)
        after[edge.source].append(edge.target)
    depth = [0] * len(flow.nodes)
    for node in range(len(flow.nodes)):  # nodes stand in an order in which they can be executed
        depth[node] = max((depth[n] + 1 for n in before[node]), default=0)
    for node in range(len(flow.nodes)):
        if not before[node] and after[node]:
            depth[node] = min(depth[n] for n in after[node]) - 1
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    place: dict[int, float] = {}
    for level in range(len(layers)):
        members = [n for n in range(len(flow.nodes)) if depth[n] == level]
        members.sort(key=lambda n: (_middle([place[p] for p in before[n] if p in place], n), n))
        place.update({n: index - (len(members) - 1) / 2 for index, n in enumerate(members)})
        layers[level] = members
    return layers


def _middle(places: Sequence[float], default: float) -> float:
    return sum(places) / len(places) if places else float(default)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    column: int
    row: int
    x: float  # of the middle
    y: float  # of the top


class _Picture:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.layers = layers_of(flow)
        self.columns = min(max(math.ceil(len(self.layers) / _ROWS), 1), _COLUMNS)
        self.rows = math.ceil(len(self.layers) / self.columns) if self.layers else 1
        self.level = {n: level for level, members in enumerate(self.layers) for n in members}
        self.lanes = self._lanes()
        self.rights: list[float] = []  # of the boxes of each column
        self.spots: dict[int, _Spot] = {}
        self.width = self._place()
        steps = sum(node.step is not None for node in flow.nodes)
        text = (
            f"{steps} steps and the {len(flow.edges)} tensors between them; the table below has them as text."
        )
        height = _TOP + self.rows * _ROW + 4
        self.root = picture(
            self.width,
            height,
            name="flow",
            text=text,
            least=round(min(self.width, max(self.width * 0.8, 320))),
        )

    def draw(self) -> str:
        for edge in self.flow.edges:
            self._edge(edge)
        for number, node in enumerate(self.flow.nodes):
            self._box(node, self.spots[number])
        return markup(self.root)

    # ---- places ----

    def _at(self, node: int) -> tuple[int, int]:
        return divmod(self.level[node], self.rows)

    def _is_straight(self, edge: FlowEdge) -> bool:
        """Return whether an edge leads to the row right below in the same column."""
        (column, row), (to, below) = self._at(edge.source), self._at(edge.target)
        return column == to and below == row + 1

    def _lanes(self) -> dict[FlowEdge, int]:
        """Assign each other edge a lane beside the column of its source, so that none overlap."""
        lanes: dict[FlowEdge, int] = {}
        taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
        rest = [edge for edge in self.flow.edges if not self._is_straight(edge)]
        for edge in sorted(rest, key=lambda e: abs(self._at(e.target)[1] - self._at(e.source)[1])):
            column, row = self._at(edge.source)
            low, high = sorted((row, self._at(edge.target)[1]))
            lane = 0
            while any(low <= b and a <= high for a, b in taken.get((column, lane), ())):
                lane += 1
            taken.setdefault((column, lane), []).append((low, high))
            lanes[edge] = lane
        return lanes

    def _place(self) -> float:
        x = _LEFT
        for column in range(self.columns):
            layers = self.layers[column * self.rows : (column + 1) * self.rows]
            most = max((len(members) for members in layers), default=1)
            width = most * _BOX_W + (most - 1) * _SIDE
            for row, members in enumerate(layers):
                used = len(members) * _BOX_W + (len(members) - 1) * _SIDE
                for index, node in enumerate(members):
                    middle = x + (width - used) / 2 + index * (_BOX_W + _SIDE) + _BOX_W / 2
                    self.spots[node] = _Spot(column=column, row=row, x=middle, y=_TOP + row * _ROW)
            self.rights.append(x + width)
            here = [lane for edge, lane in self.lanes.items() if self._at(edge.source)[0] == column]
            x += width + _LANE * (max(here, default=-1) + 1) + 2 * _SIDE
        return x - _SIDE

    # ---- drawing ----

    def _edge(self, edge: FlowEdge) -> None:
        source, target = self.spots[edge.source], self.spots[edge.target]
        if self._is_straight(edge):
            top, bottom = source.y + _BOX_H, target.y
            bend = (bottom - top) / 2
            data = (
                f"M{source.x:.1f},{top:.1f}C{source.x:.1f},{top + bend:.1f} "
                f"{target.x:.1f},{bottom - bend:.1f} {target.x:.1f},{bottom - 5:.1f}"
            )
        else:
            lane = self.rights[source.column] + _SIDE / 2 + _LANE * (self.lanes[edge] + 0.5)
            turn = target.y - (_ROW - _BOX_H) / 2 - 2
            corner = (target.x + 12, turn)
            data = path([*self._leave(source, lane), (lane, turn), corner, (target.x + 12, target.y - 5)])
        group = element(self.root, "g", title=edge.tensor)
        element(group, "path", class_="edge", d=data, marker_end="url(#arrow)")

    def _leave(self, source: _Spot, lane: float) -> list[tuple[float, float]]:
        """Path from a node to a lane: to the side, or below the nodes to its right."""
        right = source.x + _BOX_W / 2
        if not self._has_right_neighbour(source):
            y = source.y + _BOX_H / 2
            return [(right, y), (lane, y)]
        below = source.y + _BOX_H + 8
        return [(source.x + 40, source.y + _BOX_H), (source.x + 40, below), (lane, below)]

    def _has_right_neighbour(self, spot: _Spot) -> bool:
        row = (spot.column, spot.row)
        return any((o.column, o.row) == row and o.x > spot.x for o in self.spots.values())

    def _box(self, node: FlowNode, spot: _Spot) -> None:
        kind = "step" if node.step is not None else "io"
        number = f"{node.step}  " if node.step is not None else ""
        parent = self.root
        if node.step is not None:
            parent = element(self.root, "a", href=f"#{anchor_of(node.step)}")
        group = element(parent, "g", title=f"{number}{node.name}\n{node.detail}".strip())
        left = spot.x - _BOX_W / 2
        element(
            group,
            "rect",
            class_=f"box {kind}",
            x=left,
            y=spot.y,
            width=_BOX_W,
            height=_BOX_H,
            rx=4 if node.step is not None else 18,
        )
        text = shorten(node.label, _CHARS - len(number))
        centred(group, number + text, spot.x, spot.y + 17, "small out")
        centred(group, shorten(node.detail, _CHARS), spot.x, spot.y + 32, "small muted")
