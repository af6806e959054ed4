# SPDX-License-Identifier: Apache-2.0
"""Texts of a result of ``bench mlperf``."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.pipeline.mlperf.results import MlperfReport
from mlf_sdk.reporting.layout import counted, number

_WINDOWS_SHOWN = 5


def is_timed(mlperf_report: MlperfReport) -> bool:
    """Return whether windows were timed: in accuracy mode none is."""
    return mlperf_report.throughput is not None or mlperf_report.top1_percent is None


def mlperf_facts(mlperf_report: MlperfReport) -> list[tuple[str, str]]:
    """Labels and texts of a result."""
    by = "the official runner, unchanged" if mlperf_report.official else "mlf-sdk's own client"
    place = (
        f"{mlperf_report.port}, taken for {mlperf_report.board.name}"
        if mlperf_report.port
        else mlperf_report.board.name
    )
    facts = [
        ("benchmark", f"{mlperf_report.id} of MLPerf Tiny, {mlperf_report.mode} mode, by {by}"),
        ("device", f"{mlperf_report.name}: {mlperf_report.model} on {place}"),
        ("inputs", f"{counted(mlperf_report.inputs, 'input')}{', made up' if mlperf_report.made_up else ''}"),
    ]
    if is_timed(mlperf_report):
        warmups = counted(mlperf_report.warmups, "warm-up")
        text = f"{counted(mlperf_report.inferences, 'inference')} after {warmups}"
        facts.append(("windows", f"{len(mlperf_report.windows)} of {text}"))
    if mlperf_report.throughput is not None:
        facts.append(("median", f"{mlperf_report.throughput:,.3f} inferences/s"))
    if mlperf_report.top1_percent is not None:
        facts.append(("accuracy", f"{mlperf_report.top1_percent:.1f} % (top 1)"))
    if mlperf_report.auc is not None:
        facts.append(("AUC", f"{mlperf_report.auc:.3f}"))
    if mlperf_report.instructions is not None:
        facts.append(("cost", f"{number(mlperf_report.instructions)} instructions an inference"))
    if mlperf_report.cycles is not None:
        cycles = mlperf_report.cycles
        text = (
            f"{number(cycles.cycles)} cycles: {cycles.core}, {cycles.kind}, wait states {cycles.wait_states}"
        )
        facts.append(("estimate", text))
    if mlperf_report.session is not None:
        facts.append(("session", str(mlperf_report.session)))
    return facts


def window_rows(mlperf_report: MlperfReport) -> Sequence[tuple[str, str, str]]:
    """Number, seconds and throughput of the windows."""
    shown = mlperf_report.windows[:_WINDOWS_SHOWN]
    return [(str(i), f"{w.seconds:.6f}", f"{w.throughput:,.3f}") for i, w in enumerate(shown, 1)]
