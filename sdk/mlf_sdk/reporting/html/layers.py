# SPDX-License-Identifier: Apache-2.0
"""Cards about layers: what the model's file says of one, what its kernel costs, and its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from mlf_sdk.judge.layerfacts import BINS, FileFacts, Histogram, LayerFacts, LayerTensor
from mlf_sdk.judge.profile import StepProfile
from mlf_sdk.reporting.html.data import Report, StepRow
from mlf_sdk.reporting.html.names import anchor_of
from mlf_sdk.reporting.html.svg import element, markup
from mlf_sdk.reporting.layout import figure

_WIDTH, _HEIGHT = 96.0, 26.0
_NAME_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCard:
    """A step, the layers of the file that it computes, and its cost; None: not known.

    Attributes:
        source: name of its function in the report's kernels; empty: its source is not known.
    """

    step: StepRow
    layers: tuple[LayerFacts, ...]
    profile: StepProfile | None
    source: str
    evidence: str

    @property
    def anchor(self) -> str:
        """Id of the card on the page."""
        return anchor_of(self.step.index)


def layer_cards(report: Report) -> list[LayerCard]:
    """Make a card for each step of a report."""
    by_step = report.profile is not None and len(report.profile.steps) == len(report.steps)
    profiles = {step.index: step for step in report.profile.steps} if report.profile and by_step else {}
    return [_card(report, step, profiles.get(step.index)) for step in report.steps]


def _card(report: Report, step: StepRow, profile: StepProfile | None) -> LayerCard:
    layers = layers_of_step(step, report.layers)
    return LayerCard(
        step=step,
        layers=layers,
        profile=profile,
        source=next((name for name in (step.symbol, step.name) if name in report.kernels), ""),
        evidence=_evidence(report, layers),
    )


def layers_of_step(step: StepRow, facts: FileFacts | None) -> tuple[LayerFacts, ...]:
    """Layers of the file that a step computes, in their order there; none where the file is not at hand."""
    if facts is None or step.layer is None:
        return ()
    stated = step.layer.inside or (step.layer,)
    known = (facts.of(layer.number) for layer in stated)
    return tuple(layer for layer in known if layer is not None)


def _evidence(report: Report, layers: Sequence[LayerFacts]) -> str:
    """Statement about the comparison of a step's results."""
    if report.not_run or not report.evidence:
        return "nothing was compared"
    if not layers:
        return f"through the model's outputs: {report.evidence}"
    missing = [f"{layer.number} {layer.kind}" for layer in layers if not layer.covered]
    if missing and not (report.layers and report.layers.no_activations):
        return f"no reference computes {', '.join(missing)}; compared: {report.evidence}"
    return f"through the model's outputs: {report.evidence}"


def scale_text(tensor: LayerTensor) -> str:
    """Scale of a tensor, or their range: ``0.0196``, ``64 of 0.0012 to 0.031``; empty: not quantised."""
    if not tensor.scales:
        return ""
    low, high = tensor.scale
    return figure(low) if tensor.scales == 1 else f"{tensor.scales} of {figure(low)} to {figure(high)}"


def zero_text(tensor: LayerTensor) -> str:
    """Zero point of a tensor, or their range; empty: it is not quantised."""
    if not tensor.scales:
        return ""
    low, high = tensor.zero_point
    return str(low) if low == high else f"{low} to {high}"


def range_text(histogram: Histogram) -> str:
    """Range of real values: ``-1.27 to 0.98``."""
    return f"{histogram.low:.3g} to {histogram.high:.3g}"


def short_name(name: str) -> str:
    """First of the names that a converter joined, shortened at its begin."""
    first = name.partition(";")[0]
    return first if len(first) <= _NAME_CHARS else f"…{first[-_NAME_CHARS + 1 :]}"


def histogram_picture(histogram: Histogram) -> str:
    """Draw a histogram as SVG; its figures stand beside it as text."""
    root = ET.Element(
        "svg",
        {
            "class": "histogram",
            "viewBox": f"0 0 {_WIDTH:g} {_HEIGHT:g}",
            "width": f"{_WIDTH:g}",
            "height": f"{_HEIGHT:g}",
            "aria-hidden": "true",
        },
    )
    most, wide = max(histogram.counts), _WIDTH / BINS
    for place, count in enumerate(histogram.counts):
        if count:
            height = max(_HEIGHT * count / most, 1.0)
            x, y = place * wide, _HEIGHT - height
            element(root, "rect", class_="f-cost", x=x, y=y, width=wide - 0.5, height=height)
    return markup(root)
