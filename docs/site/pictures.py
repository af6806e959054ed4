# SPDX-License-Identifier: Apache-2.0
"""Pictures of the documentation site, made of measured figures and of the code: SVG that stands in a page.

Colours are CSS variables of the theme, so that light and dark pages have their own.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import mlf_sdk
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.reporting.html.arenadata import arena_of

ROOT = Path(__file__).resolve().parents[2]
_WIDTH = 480
_TEXT, _QUIET = "var(--color-foreground-primary)", "var(--color-foreground-muted)"
_OURS, _OTHERS = "var(--color-brand-primary)", "var(--color-foreground-border)"


def write_pictures(folder: Path) -> None:
    """Write all pictures, as NAME.svg."""
    folder.mkdir(parents=True)
    made = {"instructions": instructions(), "arena": arena(), "rows": rows(), "house": house()}
    for name, svg in made.items():
        (folder / f"{name}.svg").write_text(svg)


def instructions() -> str:
    """Bars of the table in docs/howto-tflite.md: one inference here, and of TFLM with CMSIS-NN."""
    rows = _table("howto-tflite.md", "TFLM with CMSIS-NN |\n")
    figures = [(name, _figure(here, " M"), _figure(theirs, " M")) for name, here, *_, theirs in rows]
    text = "Million instructions of an inference on a Cortex-M4."
    return _bars(figures, lambda value: f"{value:g} M", ("mlf-sdk", "TFLM with CMSIS-NN"), text)


def rows() -> str:
    """Bars of the table in docs/howto-stream.md: the arena of a streamed input, and layer by layer."""
    table = _table("howto-stream.md", "`--for ram --stream` |\n")
    figures = [(name, _figure(streamed, " B"), _figure(whole, " B")) for name, whole, streamed, *_ in table]
    text = "Bytes of the arena, input included."
    return _bars(figures, lambda value: f"{value:,.0f}", ("rows as they come", "layer by layer"), text)


def _table(page: str, head: str) -> list[list[str]]:
    """Cells of the rows of a table, from the end of its first line, ``head``, on."""
    text = (ROOT / "docs" / page).read_text().split(head, 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[1:]]


def _figure(cell: str, unit: str) -> float:
    figure = re.match(rf"([\d.,]+){unit}", cell)
    if figure is None:
        raise ValueError(f"{cell!r} of the pictured table is no figure in{unit}")
    return float(figure[1].replace(",", ""))


def _bars(
    figures: Sequence[tuple[str, float, float]],
    words: Callable[[float], str],
    legend: tuple[str, str],
    text: str,
) -> str:
    """Two bars a row, ours and the other, as long as they are to the longer one; a legend of both above."""
    lines = []
    for x, fill, label in ((0, _OURS, legend[0]), (_WIDTH / 3, _OTHERS, legend[1])):
        lines.append(_rect(x, 2, 14, 14, fill))
        lines.append(_text(x + 22, 14, label, size=13))
    for index, (name, here, theirs) in enumerate(figures):
        y = 32 + index * 66
        lines.append(_text(0, y + 16, name))
        for top, value, fill in ((24, here, _OURS), (42, theirs, _OTHERS)):
            width = max(value / max(here, theirs) * (_WIDTH - 80), 2)
            lines.append(_rect(0, y + top, width, 14, fill))
            lines.append(_text(width + 8, y + top + 12, words(value), size=13))
    return _svg(32 + 66 * len(figures), lines, text)


def arena() -> str:
    """The plan of examples/layers on mps2-an386: bytes upward, steps to the right."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "app"
        mlf_sdk.generate(ROOT / "examples" / "layers" / "layers.tflite", project, board="mps2-an386")
        (model,) = read_lock(project).models
    plan = arena_of(model, None)
    top, height = 8.0, 260.0
    column, scale = _WIDTH / (plan.end + 1), height / plan.size_bytes
    lines = [
        f'<line x1="0" x2="{_WIDTH}" y1="{top}" y2="{top}" stroke="{_QUIET}" stroke-dasharray="4 4"/>',
        _text(_WIDTH, top + 18, f"{plan.size_bytes:,} B planned and measured", anchor="end"),
        _text(_WIDTH, top + 36, f"{plan.lower_bound_bytes:,} B lower bound", quiet=True, anchor="end"),
    ]
    for rect in sorted(plan.rects, key=lambda r: r.first):
        x, y = rect.first * column, top + height - (rect.offset + rect.size_bytes) * scale
        width, tall = (rect.last - rect.first + 1) * column, rect.size_bytes * scale
        lines.append(_rect(x + 1, y + 1, max(width - 2, 2), max(tall - 2, 2), _OURS, opacity=0.55))
    lines.append(_text(0, top + height + 20, "first step", quiet=True))
    lines.append(_text(_WIDTH, top + height + 20, "last step", quiet=True, anchor="end"))
    text = (
        f"The arena of examples/layers: {len(plan.rects)} tensors over {len(model.steps)} steps in "
        f"{plan.size_bytes:,} bytes; no plan can be smaller than {plan.lower_bound_bytes:,}. Stronger colour: an output over its input."
    )
    return _svg(top + height + 30, lines, text)


def house() -> str:
    """The layers of the package, from tests/test_layers.py, as wide as they have lines."""
    tree = ast.parse((ROOT / "tests" / "test_layers.py").read_text())
    every: Sequence[tuple[str, ...]] = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS"
    )
    layers = [names for names in every if names != ("__main__",)]
    package = ROOT / "sdk" / "mlf_sdk"
    sizes = {name: _lines(package, name) for names in layers for name in names}
    most = max(sum(sizes[n] for n in names) for names in layers)
    lines = []
    for index, names in enumerate(layers):
        count = sum(sizes[n] for n in names)
        width = max(count / most * 320, 2)
        lines.append(_rect(0, index * 26, width, 20, _OURS, opacity=0.55))
        lines.append(_text(width + 8, index * 26 + 15, f"{', '.join(names)}  {count:,}", size=13))
    return _svg(
        26 * len(layers), lines, "Layers of the package and their lines; imports only go down this picture."
    )


def _lines(package: Path, name: str) -> int:
    files = [package / f"{name}.py"] if (package / f"{name}.py").exists() else (package / name).rglob("*.py")
    return sum(len(file.read_text().splitlines()) for file in files)


def _rect(x: float, y: float, width: float, height: float, fill: str, *, opacity: float = 1.0) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="2" fill="{fill}" fill-opacity="{opacity}"/>'


def _text(
    x: float, y: float, words: str, *, size: int = 14, quiet: bool = False, anchor: str = "start"
) -> str:
    style = f'font-size="{size}" fill="{_QUIET if quiet else _TEXT}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def _svg(height: float, lines: Sequence[str], text: str) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}"'
    body = "\n".join(lines)
    return (
        f'<div class="picture"><svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'font-family="var(--font-stack)"><title>{escape(text)}</title>\n{body}\n</svg>\n<p>{escape(text)}</p></div>\n'
    )
