# SPDX-License-Identifier: Apache-2.0
"""Models and their memory plans, for people and as plain values; light to import, for ``inspect``."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from mlf_sdk.codegen.tensortext import type_text
from mlf_sdk.ir.model import Model, UnitKind
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.reporting.layout import (
    Parts,
    arena_text,
    counted,
    executor_text,
    line,
    lines,
    number,
    params_text,
    size,
    table,
)
from mlf_sdk.reporting.plan import effect_lines, effect_values, reading_text

Values = dict[str, Any]


def model_parts(model: Model, layout: ModelLayout) -> Parts:
    """Lay out a model of an archive: facts, memory, steps and code."""
    names = dict(zip(model.outputs, model.output_names, strict=True))
    steps, params = counted(len(model.steps), "step"), params_text(layout.params_bytes)
    origin = model.provenance
    parts: Parts = [
        line(
            "model",
            f"{model.name}: {executor_text(model.executor)}, {steps}, {params}",
        ),
        line("archive", f"{origin.format_text}, {origin.compiler_text}, sha256 {origin.sha256[:16]}..."),
        *lines("kernels", kernel_origins(model)),
        line("target", "; ".join(t.strip() for t in model.targets) or "not stated in the archive"),
        *lines("input", [f"'{model.tensors[i].name}'  {type_text(model.tensors[i])}" for i in model.inputs]),
        *lines("output", [f"'{names[i]}'  {type_text(model.tensors[i])}" for i in model.outputs]),
        line("arena", _arena(layout)),
        line("summary", _summary_text(model)),
        *lines("entry", [model.entry] if model.entry else []),
        line("analysis", reading_text(model)),
        *effect_lines(model),
    ]
    for label, texts in model.contents:
        parts += lines(label, texts)
    if model.blocked:
        parts.append(line("deploy", f"no: {model.blocked}"))
    if layout.state_bytes:
        parts.append(line("state", f"{size(layout.state_bytes)} kept from one run to the next"))
    if model.external_headers:
        parts.append(line("needs", ", ".join(model.external_headers)))
    tuned = dict(model.provenance.options).get("tuned", "")
    measured = [line("tuned", f"kernels chosen by {tuned}"), *_counted(model)] if tuned else []
    return [*parts, *measured, "", _steps(layout), "", _code(model)]


def _counted(model: Model) -> Parts:
    """Kernels that were measured, the cheapest two of each layer."""
    rows = []
    for step in model.steps:
        if step.layer is not None and step.layer.counted:
            best, *others = step.layer.counted
            other = (others[0][0], number(others[0][1])) if others else ("", "")
            rows.append((str(step.layer.number), step.layer.operator, best[0], number(best[1]), *other))
    heads = (">layer", "operator", "kernel", ">cost", "the next best", ">cost")
    return ["", table(heads, rows)] if rows else []


def kernel_origins(model: Model) -> list[str]:
    """Steps whose kernels another generator made than the compiler of the archive; empty for none."""
    result: dict[str, list[str]] = {}
    layers = [step.layer for step in model.steps if step.layer is not None]
    for layer in layers:
        if layer.origin:
            result.setdefault(layer.origin, []).append(layer.operator)
    return [
        f"{len(operators)} of {counted(len(model.steps), 'step')} by {origin}: "
        + ", ".join(dict.fromkeys(operators))
        for origin, operators in result.items()
    ]


def _arena(layout: ModelLayout) -> str:
    return arena_text(layout.arena_bytes, layout.plan.lower_bound_bytes, layout.model.caller_inputs_bytes)


def _summary_text(model: Model) -> str:
    said = model.summary
    figures = {
        "workspace": said.workspace_bytes,
        "constants": said.constants_bytes,
        "inputs and outputs": said.io_bytes,
    }
    known = [f"{name} {size(value)}" for name, value in figures.items() if value is not None]
    return f"{', '.join(known)} (as stated in the archive)" if known else "not stated in the archive"


def _steps(layout: ModelLayout) -> Table:
    rows = []
    for index, step in enumerate(layout.steps):
        used = step.workspace_bytes
        rows.append((str(index), ("" if step.exact else "<= ") + number(used), step.name))
    return table((">step", ">workspace", "function"), rows)


def _code(model: Model) -> Table:
    rows = [
        (number(len(unit.data)), unit.member + ("" if unit.linked else "  (not needed: left out)"))
        for unit in model.units
        if unit.kind is not UnitKind.HEADER
    ]
    return table((">bytes", "code"), rows)


def model_values(model: Model, layout: ModelLayout) -> Values:
    """Model and memory plan of an archive."""
    names = dict(zip(model.outputs, model.output_names, strict=True))

    def tensor(index: int) -> Values:
        result = model.tensors[index]
        return {
            "name": names.get(index, result.name),
            "dtype": result.dtype.name,
            "shape": list(result.shape),
            "size_bytes": result.size_bytes,
        }

    return {
        "name": model.name,
        "c_name": model.c_name,
        "archive": model.provenance.source,
        "archive_sha256": model.provenance.sha256,
        "format": model.provenance.format,
        "format_version": model.provenance.format_version,
        "compiler": model.provenance.compiler,
        "compiler_version": model.provenance.compiler_version,
        "executor": model.executor,
        "entry": model.entry,
        "targets": list(model.targets),
        "inputs": [tensor(i) for i in model.inputs],
        "outputs": [tensor(i) for i in model.outputs],
        "steps": [
            {
                "name": step.name,
                "symbol": step.symbol,
                "abi": step.abi.convention.value,
                "kernel": step.layer.kernel if step.layer else "",
                "origin": step.layer.origin if step.layer else "",
                "workspace_bytes": step.workspace_bytes,
                "exact": step.exact,
                "looked_into": not step.opaque_reason,
                "counted": dict(step.layer.counted) if step.layer is not None else {},
                **effect_values(model, step),
            }
            for step in layout.steps
        ],
        "memory": {
            "arena_bytes": layout.arena_bytes,
            "lower_bound_bytes": layout.plan.lower_bound_bytes,
            "io_bytes": layout.io_bytes,
            "caller_inputs_bytes": model.caller_inputs_bytes,
            "params_bytes": layout.params_bytes,
            "state_bytes": layout.state_bytes,
            "summary": {
                "workspace_bytes": model.summary.workspace_bytes,
                "constants_bytes": model.summary.constants_bytes,
                "io_bytes": model.summary.io_bytes,
            },
        },
        "code": [
            {"member": u.member, "kind": u.kind.value, "size_bytes": len(u.data), "linked": u.linked}
            for u in model.units
            if u.kind is not UnitKind.HEADER
        ],
        "blocked": model.blocked,
        "contents": {label: list(texts) for label, texts in model.contents},
        "external_headers": list(model.external_headers),
    }
