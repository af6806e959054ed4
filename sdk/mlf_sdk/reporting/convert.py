# SPDX-License-Identifier: Apache-2.0
"""Result of a conversion as terminal text and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlf_sdk.reporting.layout import Parts, line, lines, size

if TYPE_CHECKING:
    from mlf_sdk.pipeline.convert import ConvertedModel


def converted_parts(found: ConvertedModel) -> Parts:
    """Lay out the files that were written, and the memory that they need."""
    written = [f"{name}: {size(count)}" for name, count in found.sizes_bytes.items()]
    parts: Parts = [line("model", f"{found.model.name}, as read back: {found.model.provenance.format_text}")]
    if found.board is not None:
        summary = found.model.summary
        parts.append(line("compiled", f"for {found.board}"))
        parts.append(
            line("memory", f"{size(summary.workspace_bytes)} RAM, {size(summary.constants_bytes)} constants")
        )
    return [*parts, line("output", str(found.output)), *lines("written", written)]


def converted_values(found: ConvertedModel) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "output": str(found.output),
        "to": found.to,
        "board": found.board,
        "sizes_bytes": dict(found.sizes_bytes),
        "model": found.model.name,
        "workspace_bytes": found.model.summary.workspace_bytes,
        "constants_bytes": found.model.summary.constants_bytes,
    }
