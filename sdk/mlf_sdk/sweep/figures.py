# SPDX-License-Identifier: Apache-2.0
"""Figures of a cell: names with their units, as results, gates and differences use them."""

from __future__ import annotations

from collections.abc import Mapping

from mlf_sdk.pipeline.cell import Cell

FIGURES: Mapping[str, str] = {
    "flash_bytes": "flash_bytes",
    "ram_bytes": "ram_bytes",
    "arena_bytes": "arena_bytes",
    "arena_measured_bytes": "arena_measured_bytes",
    "lower_bound_bytes": "lower_bound_bytes",
    "stack_bound_bytes": "stack_bound_bytes",
    "stack_measured_bytes": "stack_measured_bytes",
    "stack_reserved_bytes": "stack_bytes",
    "instructions": "instructions",
    "inference_s": "time_s",
    "chip_ms": "chip_ms",
    "chip_mj": "chip_mj",
    "accuracy_share": "accuracy",
    "differing_elements": "differing",
    "max_difference": "max_difference",
}
"""Fields of a `Cell` by the name of the figure."""

SMALLER_IS_BETTER = (
    "flash_bytes",
    "ram_bytes",
    "arena_bytes",
    "stack_bound_bytes",
    "stack_measured_bytes",
    "instructions",
    "inference_s",
    "chip_ms",
    "chip_mj",
    "differing_elements",
)
GREATER_IS_BETTER = ("accuracy_share",)


def figures_of(cell: Cell) -> dict[str, float]:
    """Figures of a cell that are known, by name."""
    result = {name: getattr(cell, field) for name, field in FIGURES.items()}
    return {name: value for name, value in result.items() if value is not None}
