# SPDX-License-Identifier: Apache-2.0
"""Result of an export as terminal text and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlf_sdk.reporting.layout import Parts, arena_text, counted, line, lines, params_text, size

if TYPE_CHECKING:
    from mlf_sdk.pipeline.export import ExportedModel
    from mlf_sdk.planner.layout import ModelLayout


def exported_parts(found: ExportedModel) -> Parts:
    """Lay out an export: memory of each model, files, the way into an application."""
    total = size(sum(found.sizes_bytes.values()))
    return [
        line(
            "export",
            f"{found.folder}: {found.chosen.title}, {counted(len(found.sizes_bytes), 'file')}, {total}",
        ),
        *lines("model", [_promise_text(layout) for layout in found.layouts]),
        *lines("kept", [f"{path}: edited by you; a new export differs" for path in found.kept]),
        *lines("sample", list(found.samples)),
        *lines("saved", [f"{path}: your changed file, which was replaced" for path in found.backups]),
        line("next", f"{found.folder / 'README.md'} has the way into your application"),
    ]


def _promise_text(layout: ModelLayout) -> str:
    model = layout.model
    arena = arena_text(layout.arena_bytes, layout.plan.lower_bound_bytes)
    steps = counted(len(layout.steps), "step")
    return f"{model.c_name}: {steps}, {params_text(layout.params_bytes)}, arena {arena}"


def exported_values(found: ExportedModel) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "output": str(found.folder),
        "format": found.chosen.name,
        "sizes_bytes": dict(found.sizes_bytes),
        "kept": found.kept,
        "backups": found.backups,
        "samples": found.samples,
        "models": [
            {"name": one.model.c_name, "arena_bytes": one.arena_bytes, "params_bytes": one.params_bytes}
            for one in found.layouts
        ],
    }
