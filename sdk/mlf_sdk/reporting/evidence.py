# SPDX-License-Identifier: Apache-2.0
"""Text about witnesses: what a model's file means, and what no witness says."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.judge.compare import Comparison
from mlf_sdk.judge.witnessed import Witnessed, WitnessResult
from mlf_sdk.reporting.layout import Parts, line, verdict
from mlf_sdk.reporting.terminal import comparison_text


def witness_comparisons(found: Witnessed) -> list[tuple[str, Comparison]]:
    """Comparisons with witnesses by their names: those that agree together, each other one by itself."""
    agreeing = [r for r in found.compared if r.comparison is not None and r.comparison.ok]
    joined = [(_names(agreeing), _joined(agreeing))] if agreeing else []
    return joined + [(r.witness, r.comparison) for r in _differing(found) if r.comparison]


def witness_notes(found: Witnessed, uncovered: str) -> list[tuple[str, str]]:
    """Labels and texts about what is missing; empty: nothing is."""
    notes = [("witness", f"{r.witness} gives nothing: {r.why}") for r in found.results if r.why]
    if found.disagreement:
        notes.append(("witness", found.disagreement))
    if found.is_lacking:
        notes.append(("witness", _lacking(found)))
    if uncovered:
        notes.append(("uncovered", f"{uncovered} (no witness)"))
    return notes


def _lacking(found: Witnessed) -> str:
    said = "its kernels are only compared with themselves"
    return f"{said}; {found.why}" if found.why else said


def _differing(found: Witnessed) -> Sequence[WitnessResult]:
    return [r for r in found.compared if r.comparison is not None and not r.comparison.ok]


def _names(results: Sequence[WitnessResult]) -> str:
    return " and ".join(result.witness for result in results)


def _joined(results: Sequence[WitnessResult]) -> Comparison:
    return Comparison(outputs=tuple(o for r in results if r.comparison for o in r.comparison.outputs))


def witness_parts(found: Witnessed) -> Parts:
    """Lines of the comparisons with witnesses."""
    return [
        line("outputs", comparison_text(compared, name), verdict(compared.ok))
        for name, compared in witness_comparisons(found)
    ]


def note_parts(found: Witnessed, uncovered: str) -> Parts:
    """Lines about what is missing."""
    return [line(label, text) for label, text in witness_notes(found, uncovered)]
