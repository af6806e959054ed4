# SPDX-License-Identifier: Apache-2.0
"""Picture of an arena: steps to the right, offsets upward; a rectangle is a buffer in use."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from mlf_sdk.reporting.html.data import Arena, ArenaRect, StepRow
from mlf_sdk.reporting.html.svg import SMALL_CHAR, centred, element, filled, markup, picture, stroke, ticks
from mlf_sdk.reporting.layout import number, size

_LEFT, _RIGHT, _TOP = 76.0, 14.0, 44.0
_PLOT, _STRIP, _GAP = 360.0, 72.0, 46.0
_ENDS = 34.0  # width of "inputs written" and of "outputs read"
_ALL_STEPS = 940.0
_LEAST_STEP = 8.0
_TICK = 24.0  # room for the number of a step
_LEAST_SIDE = 3.0  # of a rectangle: none is lost
_READABLE = 10  # characters of a shortened name that still say something
_LINE = 14.0


_Box = tuple[float, float, float, float]  # left, top, width and height


def arena_picture(arena: Arena, steps: Sequence[StepRow]) -> str:
    """Draw the plan of an arena as SVG."""
    return _Picture(arena, steps).draw()


def when_text(rect: ArenaRect) -> str:
    """Steps in which a buffer is in use."""
    if rect.steps is None:
        return "before the first step"
    first, last = rect.steps
    return f"step {first}" if first == last else f"steps {first} to {last}"


class _Picture:
    def __init__(self, arena: Arena, steps: Sequence[StepRow]) -> None:
        self.arena = arena
        self.steps = steps
        self.starts = [step.first for step in steps]
        self.column = max(_ALL_STEPS / max(len(steps), 1), _LEAST_STEP)
        self.width = _LEFT + 2 * _ENDS + self.column * len(steps) + _RIGHT
        self.top = max(arena.size_bytes, arena.lower_bound_bytes, arena.measured_bytes or 0, 1)
        self.bottom = _TOP + _PLOT
        self.strip = self.bottom + _GAP
        self.height = self.strip + _STRIP + 26
        text = (
            f"The arena of {size(arena.size_bytes)} over {len(steps)} steps, {len(arena.rects)} buffers; "
            f"most is in use in step {self._step_at(arena.peak)}. The table below has all figures."
        )
        self.root = picture(self.width, self.height, name="arena", text=text)

    def draw(self) -> str:
        self._grid()
        solid = [rect for rect in self.arena.rects if rect.size_bytes]
        boxes = [self._rect(rect) for rect in solid]
        taken: list[_Box] = []
        for rect, box in sorted(zip(solid, boxes, strict=True), key=lambda pair: -pair[0].size_bytes):
            _label(self.root, rect, box, taken)
        self._peak("peak-line")
        self._marks()
        self._axis()
        self._live()
        return markup(self.root)

    def x(self, time: int) -> float:
        """Horizontal position of the begin of a time."""
        if time <= 0:
            return _LEFT
        if time >= self.arena.end:
            return _LEFT + _ENDS + self.column * len(self.steps) + (_ENDS if time > self.arena.end else 0.0)
        index = self._step_at(time)
        step = self.steps[index]
        return _LEFT + _ENDS + self.column * (index + (time - step.first) / step.phases)

    def y(self, offset: float) -> float:
        return self.bottom - _PLOT * offset / self.top

    def _step_at(self, time: int) -> int:
        return max(bisect.bisect_right(self.starts, time) - 1, 0)

    def _grid(self) -> None:
        right = self.width - _RIGHT
        for value in ticks(self.top):
            y = self.y(value)
            stroke(self.root, "grid", (_LEFT, y), (right, y))
            element(self.root, "text", number(value), class_="tick", x=_LEFT - 8, y=y + 4, text_anchor="end")
        for edge in (*(self.x(start) for start in self.starts), self.x(self.arena.end)):
            stroke(self.root, "grid", (edge, _TOP), (edge, self.bottom))
        self._peak("peak")

    def _peak(self, style: str) -> None:
        left, right = self.x(self.arena.peak), self.x(self.arena.peak + 1)
        width = max(right - left, 3) + 2
        element(self.root, "rect", class_=style, x=left - 1, y=_TOP - 6, width=width, height=_PLOT + 12)

    def _rect(self, rect: ArenaRect) -> _Box:
        """Draw a buffer; returns its left, top, width and height."""
        left, right = self.x(rect.first), self.x(rect.last + 1)
        top, bottom = self.y(rect.offset + rect.size_bytes), self.y(rect.offset)
        width, height = max(right - left, _LEAST_SIDE + 1), max(bottom - top, _LEAST_SIDE)
        top = bottom - height
        place = f"{rect.kind}, {size(rect.size_bytes)} at offset {number(rect.offset)}"
        title = f"{rect.name}\n{place}\n{when_text(rect)}"
        filled(self.root, rect.kind, left + 0.5, top, width - 1, height, title=title)
        return left, top, width, height

    def _marks(self) -> None:
        """Draw the planned end, the lower bound and the measured end of the arena."""
        arena = self.arena
        right = self.width - _RIGHT
        planned, bound = arena.size_bytes, arena.lower_bound_bytes
        stroke(self.root, "mark", (_LEFT, self.y(planned)), (right, self.y(planned)))
        said = [f"planned {size(planned)}"]
        if bound == planned:
            said.append("= lower bound")
        else:
            stroke(self.root, "bound", (_LEFT, self.y(bound)), (right, self.y(bound)))
            said.append(f"lower bound {size(bound)} (dashed)")
        if arena.measured_bytes is not None:
            equal = "=" if arena.measured_bytes == planned else ""
            said.append(f"{equal} measured {'' if equal else size(arena.measured_bytes)}".strip())
        element(self.root, "text", ", ".join(said).replace(", =", " ="), class_="label out", x=_LEFT, y=16)

    def _axis(self) -> None:
        y = self.bottom + 16
        centred(self.root, "in", _LEFT + _ENDS / 2, y, "tick")
        for step in self.steps[:: math.ceil(_TICK / self.column)]:
            middle = self.x(step.first) + self.column / 2
            centred(self.root, str(step.index), middle, y, "tick", title=step.name)
        end = self.x(self.arena.end) + _ENDS / 2
        centred(self.root, "out", end, y, "tick")
        element(self.root, "text", "step", class_="tick", x=_LEFT - 8, y=y, text_anchor="end")

    def _live(self) -> None:
        """Draw the bytes in use over time."""
        base = self.strip + _STRIP
        most = max((live for _, live in self.arena.live), default=0)
        if not most:
            return
        points = [(_LEFT, base)]
        times = [*(time for time, _ in self.arena.live[1:]), self.arena.end + 1]
        for (start, live), stop in zip(self.arena.live, times, strict=True):
            y = base - _STRIP * live / most
            points += [(self.x(start), y), (self.x(stop), y)]
        points.append((points[-1][0], base))
        stroke(self.root, "live", *points, closed=True)
        stroke(self.root, "axis", (_LEFT, base), (self.width - _RIGHT, base))
        element(self.root, "text", "in use", class_="tick", x=_LEFT - 8, y=base - 2, text_anchor="end")
        x = (self.x(self.arena.peak) + self.x(self.arena.peak + 1)) / 2
        element(self.root, "circle", class_="dot", cx=x, cy=self.strip, r=3.5)
        text = f"peak: {size(most)} in step {self._step_at(self.arena.peak)}"
        wide = SMALL_CHAR * len(text)
        at = min(max(x, _LEFT + wide / 2), self.width - _RIGHT - wide / 2)
        centred(self.root, text, at, self.strip - 8, "label out")


def _label(root: ET.Element, rect: ArenaRect, box: _Box, taken: list[_Box]) -> None:
    """Label a buffer by its whole name and size as far as there is room; vertically in narrow rectangles.

    Args:
        taken: room of the labels so far (buffers may lie over each other), to which this one's is added.
    """
    left, top, width, height = box
    lies = width >= height or width >= _READABLE * SMALL_CHAR + 8
    along, across = (width, height) if lies else (height, width)
    lines = _lines(rect, int((along - 8) / SMALL_CHAR), int((across - 2) / _LINE))
    x, y = left + width / 2, top + height / 2
    wide = max(map(len, lines), default=0) * SMALL_CHAR
    across, along = (_LINE * len(lines), wide) if lies else (wide, _LINE * len(lines))
    room = (x - along / 2, y - across / 2, along, across)
    if any(_overlap(room, other) for other in taken):
        return
    taken.append(room)
    turn = {} if lies else {"transform": f"rotate(-90 {x:.2f} {y:.2f})"}
    for index, text in enumerate(lines):
        line_y = y + 4 + _LINE * (index - (len(lines) - 1) / 2)
        centred(root, text, x, line_y, "small in over", **turn)


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def _lines(rect: ArenaRect, fits: int, rows: int) -> list[str]:
    """Text of a label in at most ``rows`` lines of ``fits`` characters; a size comes before a name."""
    figure = size(rect.size_bytes)
    together = f"{rect.label}  {figure}"
    if rows < 1 or len(figure) > fits:
        return []
    if rows < 2:
        return [together if len(together) <= fits else figure]
    if len(rect.label) <= fits:
        return [rect.label, figure]
    return [figure]
