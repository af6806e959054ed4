# SPDX-License-Identifier: Apache-2.0
"""Result of a conversion as terminal text and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlf_sdk.reporting.layout import Parts, line, lines, size

if TYPE_CHECKING:
    from mlf_sdk.pipeline.convert import ConvertedModel


def converted_parts(converted_model: ConvertedModel) -> Parts:
    """Lay out the files that were written, and the memory that they need."""
    written = [f"{name}: {size(count)}" for name, count in converted_model.sizes_bytes.items()]
    parts: Parts = [
        line(
            "model",
            f"{converted_model.model.name}, as read back: {converted_model.model.provenance.format_text}",
        )
    ]
    if converted_model.board is not None:
        summary = converted_model.model.summary
        parts.append(line("compiled", f"for {converted_model.board}"))
        parts.append(
            line("memory", f"{size(summary.workspace_bytes)} RAM, {size(summary.constants_bytes)} constants")
        )
    return [*parts, line("output", str(converted_model.output)), *lines("written", written)]


def converted_values(converted_model: ConvertedModel) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "output": str(converted_model.output),
        "to": converted_model.to,
        "board": converted_model.board,
        "sizes_bytes": dict(converted_model.sizes_bytes),
        "model": converted_model.model.name,
        "workspace_bytes": converted_model.model.summary.workspace_bytes,
        "constants_bytes": converted_model.model.summary.constants_bytes,
    }
