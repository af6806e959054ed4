# SPDX-License-Identifier: Apache-2.0
"""SVG elements: a thin layer over ElementTree, which escapes text and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from mlf_sdk.tools.checks import printable

CHAR = 7.0  # width of a character in px, on the safe side: fonts differ
SMALL_CHAR = 6.6

Attribute = str | int | float


def element(
    parent: ET.Element, tag: str, text: str = "", /, *, title: str = "", **attributes: Attribute
) -> ET.Element:
    """Add an element.

    Args:
        parent: of the new element.
        tag: of the element.
        text: content.
        title: tooltip.
        attributes: ``_`` stands for ``-``; a trailing ``_`` is dropped (``class_``).
    """
    names = {key.rstrip("_").replace("_", "-"): _value(value) for key, value in attributes.items()}
    result = ET.SubElement(parent, tag, names)
    if title:
        ET.SubElement(result, "title").text = printable(title)
    if text:
        result.text = printable(text)
    return result


def centred(
    parent: ET.Element, text: str, x: float, y: float, style: str, *, title: str = "", **attributes: Attribute
) -> None:
    """Add text whose middle is at ``x`` and whose baseline is at ``y``."""
    element(parent, "text", text, title=title, class_=style, x=x, y=y, text_anchor="middle", **attributes)


def stroke(parent: ET.Element, style: str, *points: tuple[float, float], closed: bool = False) -> None:
    """Add a line through points."""
    element(parent, "path", class_=style, d=path(points) + ("Z" if closed else ""))


def _value(value: Attribute) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else printable(str(value))


def picture(width: float, height: float, *, name: str, text: str, least: int | None = None) -> ET.Element:
    """Make an SVG picture that scales with the page.

    Args:
        width, height: in px.
        name: prefix that makes its ids unique on the page.
        text: description for screen readers.
        least: minimum width in px; None for ``width``.
    """
    style = f"min-width:{least or round(width)}px;max-width:{round(width * 1.25)}px"
    root = ET.Element(
        "svg",
        {
            "viewBox": f"0 0 {_value(width)} {_value(height)}",
            "width": _value(width),
            "height": _value(height),
            "style": style,
            "role": "img",
            "aria-labelledby": f"{name}-text",
        },
    )
    element(root, "desc", text, id=f"{name}-text")
    return root


def markup(root: ET.Element) -> str:
    """Serialise a picture."""
    return ET.tostring(root, encoding="unicode", short_empty_elements=False)


def swatch(kind: str, width: float = 18.0, height: float = 12.0) -> str:
    """Sample of the colour and pattern of a kind, for legends and tables."""
    root = ET.Element(
        "svg", {"class": "swatch", "width": _value(width), "height": _value(height), "aria-hidden": "true"}
    )
    filled(root, kind, 0.5, 0.5, width - 1, height - 1)
    return markup(root)


def bar(kind: str, share: float, width: float = 160.0) -> str:
    """Horizontal bar of ``share`` (0 to 1) of the width."""
    box = {"viewBox": f"0 0 {_value(width)} 12", "preserveAspectRatio": "none"}
    size = {"width": _value(width), "height": "12"}
    root = ET.Element("svg", {"class": "bar", **box, **size, "aria-hidden": "true"})
    element(root, "rect", class_="rail", x=0, y=5.5, width=width, height=1)
    filled(root, kind, 0.5, 0.5, max(width * min(share, 1.0) - 1, 0.5), 11)
    return markup(root)


def filled(
    parent: ET.Element, kind: str, x: float, y: float, width: float, height: float, *, title: str = ""
) -> ET.Element:
    """Add a rectangle in the colour and pattern of a kind."""
    group = element(parent, "g", title=title)
    for layer in ("f", "p"):  # fill, then pattern
        style = f"{layer} {layer}-{kind}"
        element(group, "rect", class_=style, x=x, y=y, width=max(width, 0.3), height=max(height, 0.3))
    return group


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequest:
    """Preferred horizontal position of the middle of a label, and its width, in px."""

    x: float
    width: float


def spread(labels: Sequence[LabelRequest], left: float, right: float, gap: float = 10.0) -> list[float]:
    """Place labels in one row without overlap, in order and close to their preferred positions.

    Args:
        labels: from left to right.
        left, right: ends of the row in px.
        gap: between labels in px.

    Returns:
        The position of the middle of each label.
    """
    lefts: list[float] = []
    end = left
    for label in labels:
        start = max(label.x - label.width / 2, end)
        lefts.append(start)
        end = start + label.width + gap
    limit = right
    for index in range(len(labels) - 1, -1, -1):
        lefts[index] = min(lefts[index], limit - labels[index].width)
        limit = lefts[index] - gap
    return [start + label.width / 2 for start, label in zip(lefts, labels, strict=True)]


def ticks(most: int, count: int = 8) -> tuple[int, ...]:
    """Multiples of a power of two from 0 to ``most``, about ``count`` of them."""
    if most <= 0:
        return (0,)
    step = 1
    while most / step > count:
        step *= 2
    return tuple(range(0, most + 1, step))


def path(points: Iterable[tuple[float, float]]) -> str:
    """Path data of a line through points."""
    return "M" + "L".join(f"{_value(float(x))},{_value(float(y))}" for x, y in points)
