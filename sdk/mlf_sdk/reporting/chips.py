# SPDX-License-Identifier: Apache-2.0
"""Chips for a model, for people and as plain values."""

from __future__ import annotations

from typing import Any

import msgspec

from mlf_sdk.judge.chiptime import DOCUMENT, ChipTime
from mlf_sdk.pipeline.chips import STACK_BYTES, ChipChoice, ChipFigures, Needs
from mlf_sdk.reporting.layout import (
    Parts,
    capacity,
    chip_time_text,
    counted,
    figure,
    line,
    lines,
    number,
    size,
    table,
)
from mlf_sdk.targets.chips.row import Chip


def chips_parts(chip_choice: ChipChoice) -> Parts:
    """Lay out chips as a table, what was estimated before it."""
    if not chip_choice.model:
        rows = [
            (*_chip_cells(one.chip), ", ".join(one.chip.zephyr_boards[:2]) or "-")
            for one in chip_choice.chips
        ]
        return [table(("=chip", "=core", ">MHz", ">flash", ">RAM", "boards of Zephyr"), rows)]
    columns = ["=chip", "=core", ">MHz", ">flash", ">RAM", ">ms", ">mJ"]
    shown = [[*_chip_cells(one.chip), figure(one.ms), figure(one.mj)] for one in chip_choice.chips]
    if any(one.why for one in chip_choice.chips):
        columns.append("why not")
        shown = [[*row, one.why] for row, one in zip(shown, chip_choice.chips, strict=True)]
    left_out = chip_choice.small - sum(not one.fits for one in chip_choice.chips)
    return [
        line("model", chip_choice.model),
        *lines("takes", [_needs_text(needs) for needs in _needs(chip_choice)]),
        "",
        table(columns, shown),
        "",
        *([line("left out", f"{counted(left_out, 'chip')} that can't hold it (--all)")] if left_out else []),
        line("ms", f"an estimate, at the MHz shown and no wait states: {DOCUMENT} has its errors"),
    ]


def _chip_cells(chip: Chip) -> list[str]:
    clock = f"{chip.clock_hz / 1e6:g}" if chip.clock_hz else "-"
    flash = capacity(chip.flash_bytes) if chip.flash_bytes else "-"
    flash += "" if chip.has_own_flash or not chip.flash_bytes else " *"
    return [chip.name, chip.core, clock, flash, capacity(chip.ram_bytes) if chip.ram_bytes else "-"]


def _needs(chip_choice: ChipChoice) -> list[Needs]:
    """Needs on each core, once."""
    kept = {one.needs.core: one.needs for one in chip_choice.chips if one.needs is not None}
    return [kept[core] for core in sorted(kept)]


def _needs_text(needs: Needs) -> str:
    cost = "kernels unknown: no estimate"
    if needs.estimate is not None:
        cost = f"~{number(needs.estimate.instructions)} instructions, ~{number(needs.estimate.cycles)} cycles"
        cost += "" if needs.estimate.timed else " (one each: the core has no timing)"
    flash = f"flash ~{size(needs.flash_bytes)}"
    return f"{needs.core}: RAM {size(needs.ram_bytes)} (stack {number(STACK_BYTES)}), {flash}, {cost}"


def chip_parts(one: ChipFigures) -> Parts:
    """Lay out the fit and the time of a model on a chip that was named."""
    time = ChipTime(
        chip=one.chip.name,
        clock_hz=one.chip.clock_hz,
        ms=one.ms,
        why="no time: its clock or the model's kernels are not known",
    )
    fit = "it fits" if one.fits else one.why
    if one.needs is None:
        return [line("chip", f"{one.chip.short}: {fit}")]
    needed = f"RAM {size(one.needs.ram_bytes)}, flash ~{size(one.needs.flash_bytes)}, no RPC server: {fit}"
    return lines("chip", [f"{one.chip.short}: {needed}", chip_time_text(time)])


def chips_values(chip_choice: ChipChoice) -> dict[str, Any]:
    """Chips as plain values."""
    return {
        "model": chip_choice.model,
        "left_out": chip_choice.small,
        "chips": [chip_values(one) for one in chip_choice.chips],
    }


def chip_values(one: ChipFigures) -> dict[str, Any]:
    """A chip and its figures as plain values."""
    chip, needs = one.chip, one.needs
    result = {
        **{key: getattr(chip, key) for key in ("name", "title", "vendor", "core", "dsp", "clock_hz")},
        "flash_bytes": chip.flash_bytes,
        "ram_bytes": chip.ram_bytes,
        "own_flash": chip.has_own_flash,
        "zephyr_boards": list(chip.zephyr_boards),
        "memories": msgspec.to_builtins(chip.memories),
        "flash": msgspec.to_builtins(chip.flash),
        "current": msgspec.to_builtins(chip.current),
        "sources": chip.sources,
    }
    if needs is None:
        return result | {"fits": None, "why": one.why}
    return result | {
        "fits": one.fits,
        "why": one.why,
        "kernels_for": needs.core,
        "needs_ram_bytes": needs.ram_bytes,
        "needs_flash_bytes": needs.flash_bytes,
        "estimate": msgspec.to_builtins(needs.estimate),
        "cycles": one.cycles,
        "ms": one.ms,
        "waiting_ms": one.waiting_ms,
        "mj": one.mj,
        "see": DOCUMENT,
    }
