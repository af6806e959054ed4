# SPDX-License-Identifier: Apache-2.0
"""Text of a comparison of several targets."""

from __future__ import annotations

from rich.text import Text

from mlf_sdk.judge.bisect import CompareReport, PlaceResult
from mlf_sdk.judge.compare import StepDifference
from mlf_sdk.reporting.layout import Parts, counted, line, lines, verdict


def compare_parts(report: CompareReport) -> Parts:
    """Lay out the comparison of each target with the first, and the first step that differs."""
    reference, *others = report.places
    parts: Parts = [
        line(
            "model",
            f"{report.model}: {counted(report.steps, 'step')}, {counted(report.inferences, 'inference')}",
        ),
        line("reference", _place_text(reference)),
    ]
    for place in others:
        parts.append(line("against", _place_text(place)))
        if place.comparison is not None:
            parts.append(line("outputs", _outputs_text(place), verdict(place.comparison.ok)))
        if place.steps_equal and report.steps > 1:
            parts.append(line("steps", "all agree", verdict(True)))
        if place.first is not None:
            parts += difference_parts(place.first)
        parts += lines("note", [place.note] if place.note else [])
        if place.saved is not None:
            parts.append(line("saved", str(place.saved)))
    return [*parts, line("verdict", verdict(report.ok))]


def _place_text(place: PlaceResult) -> str:
    return place.name if place.name == place.board else f"{place.name} ({place.board})"


def _outputs_text(place: PlaceResult) -> str:
    comparison = place.comparison
    if comparison is None:
        return "-"
    if comparison.ok:
        words = "equal" if comparison.is_close else "within the tolerance"
        return f"{words} (max difference {comparison.max_abs:.3g})"
    elements = sum(o.elements for o in comparison.outputs)
    text = f"{comparison.mismatches:,} of {elements:,} elements differ, by up to {comparison.max_abs:.6g}"
    return text + (f"; first in inference {place.inference}" if place.inference is not None else "")


def difference_parts(first: StepDifference) -> Parts:
    """Lines about the first step that differs."""
    difference = first.difference
    where = f"[{', '.join(map(str, first.at))}]"
    inputs = "equal inputs" if first.same_inputs else "inputs that agree within the tolerance"
    return [
        line("first step", Text(f"{first.index}: {first.name}", style="bold"), verdict(False)),
        *lines(
            "",
            [
                f"output {first.output} ({first.dtype} {list(first.shape)}), from {inputs}",
                f"{difference.mismatches:,} of {difference.elements:,} elements differ, "
                f"by up to {difference.max_abs:.6g}",
                f"most at {where}: {first.expected:.9g} expected, {first.got:.9g} on the other target",
                *_unobserved(first.inside),
            ],
        ),
    ]


def _unobserved(layers: tuple[int, ...]) -> list[str]:
    """Text about the layers inside of a step."""
    if not layers:
        return []
    return [
        f"layers {layers[0]} to {layers[-1]} run by rows in this step and can't be observed one by one: "
        "without --for ram, --stream and --max-arena each is a step"
    ]
