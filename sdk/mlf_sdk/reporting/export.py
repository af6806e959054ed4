# SPDX-License-Identifier: Apache-2.0
"""Result of an export as terminal text and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlf_sdk.reporting.layout import Parts, arena_text, counted, line, lines, params_text, size

if TYPE_CHECKING:
    from mlf_sdk.pipeline.export import ExportedModel
    from mlf_sdk.planner.layout import ModelLayout


def exported_parts(exported_model: ExportedModel) -> Parts:
    """Lay out an export: memory of each model, files, the way into an application."""
    total = size(sum(exported_model.sizes_bytes.values()))
    return [
        line(
            "export",
            f"{exported_model.folder}: {exported_model.chosen.title}, "
            f"{counted(len(exported_model.sizes_bytes), 'file')}, {total}",
        ),
        *lines("model", [_promise_text(layout) for layout in exported_model.layouts]),
        *lines("kept", [f"{path}: edited by you; a new export differs" for path in exported_model.kept]),
        *lines("sample", list(exported_model.samples)),
        *lines(
            "saved", [f"{path}: your changed file, which was replaced" for path in exported_model.backups]
        ),
        line("next", f"{exported_model.folder / 'README.md'} has the way into your application"),
    ]


def _promise_text(layout: ModelLayout) -> str:
    model = layout.model
    arena = arena_text(layout.arena_bytes, layout.plan.lower_bound_bytes, layout.model.caller_inputs_bytes)
    steps = counted(len(layout.steps), "step")
    return f"{model.c_name}: {steps}, {params_text(layout.params_bytes)}, arena {arena}"


def exported_values(exported_model: ExportedModel) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "output": str(exported_model.folder),
        "format": exported_model.chosen.name,
        "sizes_bytes": dict(exported_model.sizes_bytes),
        "kept": exported_model.kept,
        "backups": exported_model.backups,
        "samples": exported_model.samples,
        "models": [
            {"name": one.model.c_name, "arena_bytes": one.arena_bytes, "params_bytes": one.params_bytes}
            for one in exported_model.layouts
        ],
    }
