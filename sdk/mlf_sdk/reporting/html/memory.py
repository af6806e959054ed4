# SPDX-License-Identifier: Apache-2.0
"""Picture of a memory: all of it to scale, its used part enlarged, and small parts enlarged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from mlf_sdk.judge.memorymap import MemoryMap
from mlf_sdk.reporting.html.svg import (
    CHAR,
    LabelRequest,
    centred,
    element,
    filled,
    markup,
    picture,
    spread,
    stroke,
)
from mlf_sdk.reporting.layout import capacity, size

LABELS = {
    "vectors": "vectors",
    "runtime": "runtime",
    "server": "RPC server",
    "application": "application",
    "kernels": "kernels",
    "library": "library and OS",
    "tables": "model tables",
    "params": "parameters",
    "constants": "other constants",
    "init": "initial data",
    "stack": "stack",
    "arena": "arena",
    "statics": "the model's static objects",
    "data": "data",
    "bss": "other variables",
}
_WIDTH, _EDGE = 1080.0, 1.0
_BAR, _LEADER, _AFTER = 44.0, 50.0, 26.0
_ZOOM_BELOW = 0.6  # share of a memory that is used, below which the used part is drawn once more
_DOMINANT = 0.5  # share of the used bytes above which the other parts are drawn once more


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    kind: str
    size_bytes: int

    @property
    def label(self) -> str:
        return LABELS.get(self.kind, self.kind)


def memory_picture(memory: MemoryMap) -> str:
    """Draw a memory as SVG."""
    return _Picture(memory).draw()


class _Picture:
    def __init__(self, memory: MemoryMap) -> None:
        self.memory = memory
        self.parts = [_Part(kind=p.kind, size_bytes=p.size_bytes) for p in memory.parts if p.size_bytes]
        self.root = ET.Element("g")
        self.y = 16.0

    def draw(self) -> str:
        used, whole = self.memory.used_bytes, self.memory.size_bytes
        span = _WIDTH - 2 * _EDGE
        zooms = used < _ZOOM_BELOW * whole and used > 0
        dominant = max(self.parts, key=lambda p: p.size_bytes, default=None)
        others = [p for p in self.parts if p is not dominant]
        has_dominant = dominant is not None and len(others) > 1 and dominant.size_bytes > _DOMINANT * used
        self._caption(f"all of it: {capacity(whole)}")
        self._bar(self.parts, whole, labels=not zooms and not has_dominant, free=whole - used)
        if zooms:
            self._funnel(_EDGE, _EDGE + max(span * used / whole, 1.0))
            self._caption(f"used: {size(used)}, drawn {_times(whole / used)} larger")
            self._bar(self.parts, used, labels=not has_dominant)
        if dominant is not None and has_dominant:
            rest = used - dominant.size_bytes
            self._caption(f"without the {dominant.label}: {size(rest)}, drawn {_times(whole / rest)} larger")
            self._bar(others, rest, labels=True)
        return self._finish()

    def _finish(self) -> str:
        said = ", ".join(f"{p.label} {size(p.size_bytes)}" for p in self.parts) or "nothing"
        text = f"The memory {self.memory.name}: {said}, free {size(self.memory.free_bytes)}."
        svg = picture(_WIDTH, self.y - _AFTER + 4, name=f"memory-{self.memory.name}", text=text, least=760)
        svg.extend(self.root)
        return markup(svg)

    def _caption(self, text: str) -> None:
        element(self.root, "text", text, class_="caption", x=_EDGE, y=self.y)
        self.y += 8

    def _funnel(self, left: float, right: float) -> None:
        """Connect the used part of the bar above with the bar below."""
        top, below = self.y - _AFTER, self.y + 8
        points = [(left, top), (right, top), (_WIDTH - _EDGE, below), (_EDGE, below)]
        stroke(self.root, "funnel", *points, closed=True)

    def _bar(self, parts: Sequence[_Part], total: int, *, labels: bool, free: int = 0) -> None:
        height = _BAR if labels or not free else 24.0
        scale = (_WIDTH - 2 * _EDGE) / total
        x = _EDGE
        outside: list[tuple[LabelRequest, _Part]] = []
        for part in parts:
            width = part.size_bytes * scale
            title = f"{part.label}: {size(part.size_bytes)}, {part.size_bytes / total:.1%}"
            group = filled(self.root, part.kind, x, self.y, width, height, title=title)
            room = CHAR * max(len(part.label), len(size(part.size_bytes))) + 8
            if width >= room and height >= _BAR:
                _two_lines(group, part, x + width / 2, self.y + 18)
            elif labels:
                outside.append((LabelRequest(x=x + width / 2, width=room), part))
            x += width
        if free:
            self._free(x, height, free, total)
        self.y += height
        if outside:
            self._leaders(outside)
        self.y += _AFTER

    def _free(self, x: float, height: float, free: int, total: int) -> None:
        width = max(_WIDTH - _EDGE - x, 0.0)
        group = element(self.root, "g", title=f"free: {size(free)}, {free / total:.1%}")
        element(group, "rect", class_="free", x=x, y=self.y, width=width, height=height)
        text = f"free {size(free)} ({free / total:.1%})"
        if width > CHAR * len(text):
            centred(group, text, x + width / 2, self.y + height / 2 + 4, "muted")

    def _leaders(self, outside: Sequence[tuple[LabelRequest, _Part]]) -> None:
        """Draw labels below the bar for parts that are too narrow for them."""
        middles = spread([wanted for wanted, _ in outside], _EDGE, _WIDTH - _EDGE)
        for (wanted, part), x in zip(outside, middles, strict=True):
            elbow = [(wanted.x, self.y), (wanted.x, self.y + 5), (x, self.y + 16), (x, self.y + 20)]
            stroke(self.root, "leader", *elbow)
            _two_lines(self.root, part, x, self.y + 33)
        self.y += _LEADER


def _times(factor: float) -> str:
    return f"{factor:,.0f} times" if factor >= 10 else f"{factor:.1f} times"


def _two_lines(parent: ET.Element, part: _Part, x: float, y: float) -> None:
    inside = "in" if parent.tag == "g" and parent.find("rect") is not None else "out"
    centred(parent, part.label, x, y, f"label {inside}")
    centred(parent, size(part.size_bytes), x, y + 15, f"figure {inside}")
