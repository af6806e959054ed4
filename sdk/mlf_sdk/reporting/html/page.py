# SPDX-License-Identifier: Apache-2.0
"""HTML page of a report: one file without scripts or external resources, deterministic."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from mlf_sdk.codegen.templates import CompiledTemplates
from mlf_sdk.reporting.html.arena import arena_picture, when_text
from mlf_sdk.reporting.html.data import Report
from mlf_sdk.reporting.html.flow import flow_picture
from mlf_sdk.reporting.html.layers import (
    histogram_picture,
    layer_cards,
    range_text,
    scale_text,
    short_name,
    zero_text,
)
from mlf_sdk.reporting.html.memory import LABELS, memory_picture
from mlf_sdk.reporting.html.mlperf import mlperf_facts, window_rows
from mlf_sdk.reporting.html.names import anchor_of, profile_names, short_names, source_anchor
from mlf_sdk.reporting.html.svg import bar, swatch
from mlf_sdk.reporting.layout import capacity, counted, figure, number, size
from mlf_sdk.tools.checks import printable
from mlf_sdk.version import __version__

_TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
FUNCTIONS_SHOWN = 20


def render_page(report: Report) -> bytes:
    """Render a report as an HTML page in UTF-8."""
    pictures = {
        "arena": Markup(arena_picture(report.arena, report.steps)),  # noqa: S704 (ElementTree escapes)
        "flow": Markup(flow_picture(report.flow)),  # noqa: S704
        "memories": [(memory, Markup(memory_picture(memory))) for memory in report.memories],  # noqa: S704
    }
    return render(
        "report.html.j2",
        report=report,
        pictures=pictures,
        part_labels=LABELS,
        functions_shown=FUNCTIONS_SHOWN,
        sdk_version=__version__,
        takes=_takes(report),
        cards=layer_cards(report),
        mlperf_facts=mlperf_facts(report.mlperf) if report.mlperf else [],
        mlperf_windows=window_rows(report.mlperf) if report.mlperf else [],
        profile_names=profile_names(report.profile) if report.profile else [],
        code_names=_code_names(report),
        without_server=[m for m in report.memories if 0 < m.product_bytes < m.used_bytes],
    )


def _takes(report: Report) -> list[list[str]]:
    """Names of the sources of each step's inputs."""
    result: list[dict[str, None]] = [{} for _ in report.steps]
    for edge in report.flow.edges:
        source, step = report.flow.nodes[edge.source], report.flow.nodes[edge.target].step
        if step is not None:
            result[step][f"'{source.name}'" if source.step is None else f"step {source.step}"] = None
    return [list(names) for names in result]


def _code_names(report: Report) -> dict[str, str]:
    """Names of functions and constants to show: those of kernels without their common prefix."""
    kernels = [item.name for item in report.code if item.kind == "kernels"]
    shown = dict(zip(kernels, short_names(kernels), strict=True))
    return {item.name: shown.get(item.name, item.name) for item in report.code}


def render(template: str, **values: Any) -> bytes:  # noqa: ANN401
    """Render a template as a page in UTF-8."""
    return (_environment().get_template(template).render(values).rstrip() + "\n").encode()


@cache
def _environment() -> jinja2.Environment:
    """Templates of pages, which escape all that they are given."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_plain,
        bytecode_cache=CompiledTemplates(),
    )
    environment.filters.update(
        number=number,
        size=size,
        capacity=capacity,
        counted=counted,
        address=lambda value: f"0x{value:08x}",
        percent=lambda value: f"{value:.1%}",
        bar=lambda share, kind: Markup(bar(kind, share)),  # noqa: S704
        swatch=lambda kind: Markup(swatch(kind)),  # noqa: S704
        when=when_text,
        histogram=lambda result: Markup(histogram_picture(result)),  # noqa: S704
        range_text=range_text,
        scale_text=scale_text,
        zero_text=zero_text,
        short_name=short_name,
        anchor=anchor_of,
        source_anchor=source_anchor,
        ms=figure,
        plain=plain_text,
        breakable=_breakable,
    )
    return environment


def _breakable(name: str) -> Markup:
    """Allow line breaks after underscores."""
    return Markup("_<wbr>").join(printable(name).split("_"))


def plain_text(text: str) -> str:
    """Escape unprintable characters of a text; line feeds and tabs stay."""
    return printable(text, keep="\n\t")


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Escape unprintable characters of names."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
