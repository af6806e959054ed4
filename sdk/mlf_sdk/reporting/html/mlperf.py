# SPDX-License-Identifier: Apache-2.0
"""Texts of a result of ``bench mlperf``."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.pipeline.mlperf.results import MlperfReport
from mlf_sdk.reporting.layout import counted, number

_WINDOWS_SHOWN = 5


def is_timed(found: MlperfReport) -> bool:
    """Return whether windows were timed: in accuracy mode none is."""
    return found.throughput is not None or found.top1_percent is None


def mlperf_facts(found: MlperfReport) -> list[tuple[str, str]]:
    """Labels and texts of a result."""
    by = "the official runner, unchanged" if found.official else "mlf-sdk's own client"
    place = f"{found.port}, taken for {found.board.name}" if found.port else found.board.name
    facts = [
        ("benchmark", f"{found.id} of MLPerf Tiny, {found.mode} mode, by {by}"),
        ("device", f"{found.name}: {found.model} on {place}"),
        ("inputs", f"{counted(found.inputs, 'input')}{', made up' if found.made_up else ''}"),
    ]
    if is_timed(found):
        text = f"{counted(found.inferences, 'inference')} after {counted(found.warmups, 'warm-up')}"
        facts.append(("windows", f"{len(found.windows)} of {text}"))
    if found.throughput is not None:
        facts.append(("median", f"{found.throughput:,.3f} inferences/s"))
    if found.top1_percent is not None:
        facts.append(("accuracy", f"{found.top1_percent:.1f} % (top 1)"))
    if found.auc is not None:
        facts.append(("AUC", f"{found.auc:.3f}"))
    if found.instructions is not None:
        facts.append(("cost", f"{number(found.instructions)} instructions an inference"))
    if found.cycles is not None:
        cycles = found.cycles
        text = (
            f"{number(cycles.cycles)} cycles: {cycles.core}, {cycles.kind}, wait states {cycles.wait_states}"
        )
        facts.append(("estimate", text))
    if found.session is not None:
        facts.append(("session", str(found.session)))
    return facts


def window_rows(found: MlperfReport) -> Sequence[tuple[str, str, str]]:
    """Number, seconds and throughput of the windows."""
    shown = found.windows[:_WINDOWS_SHOWN]
    return [(str(i), f"{w.seconds:.6f}", f"{w.throughput:,.3f}") for i, w in enumerate(shown, 1)]
