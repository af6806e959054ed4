# SPDX-License-Identifier: Apache-2.0
"""HTML page of a sweep: one file, nothing external; pivot table, Pareto picture, each cell's proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mlf_sdk.reporting.html.page import plain_text, render
from mlf_sdk.sweep.figures import FIGURES, GREATER_IS_BETTER
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.results import SweepResult, SweepRow
from mlf_sdk.tools.files import write_whole
from mlf_sdk.version import __version__

PAGE_NAME = "index.html"
_LOG_CHARS = 4_000  # of each cell; `mlf-sdk sweep show` has all
_ROW = ("model", "item", "summary", "planned", "image", "measured", "state", "note")


def write_page(sweep_result: SweepResult) -> Path:
    """Write the page of a sweep into its folder; returns its path."""
    with Journal(sweep_result.folder) as journal:
        logs = {row.name: journal.log(row.name)[-_LOG_CHARS:] for row in sweep_result.rows}
    path = sweep_result.folder / PAGE_NAME
    write_whole(path, render_sweep(sweep_result, logs))
    return path


def render_sweep(sweep_result: SweepResult, logs: dict[str, str]) -> bytes:
    """Render a sweep as an HTML page in UTF-8.

    Args:
        sweep_result: the sweep.
        logs: by name of the cell; parsed by the page when one is looked at.
    """
    known = [name for name in FIGURES if any(name in row.figures for row in sweep_result.rows)]
    data = {
        "axes": {axis: list(labels) for axis, labels in sweep_result.axes.items()},
        "figures": known,
        "greater": list(GREATER_IS_BETTER),
        "cells": [_cell(row) for row in sweep_result.rows],
    }
    return render(
        "sweep.html.j2",
        found=sweep_result,
        data=_script(data),
        logs=_script({name: plain_text(text) for name, text in logs.items() if text}),
        folder=str(sweep_result.folder),
        sdk_version=__version__,
    )


def _cell(row: SweepRow) -> dict[str, Any]:
    cell = row.cell
    return {
        "name": row.name,
        "labels": list(map(plain_text, row.labels.values())),
        "verdict": row.verdict,
        "why": plain_text(row.why),
        "figures": dict(row.figures),
        "evidence": cell.evidence if cell is not None else "",
        "proof": [] if cell is None else [[getattr(one, name) for name in _ROW] for one in cell.rows],
        "seconds": row.duration_s,
        "worker": plain_text(row.worker),
        "attempts": row.attempts,
    }


def _script(value: object) -> Markup:
    """JSON for an element ``script``, which no text in it can end."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704
