# SPDX-License-Identifier: Apache-2.0
"""Memories in which a model lies: bytes of each, its largest tensors, and cycles for the words."""

from __future__ import annotations

from typing import Any

from mlf_sdk.planner.spread import Placement
from mlf_sdk.planner.uses import MemoryUse, uses_of
from mlf_sdk.reporting.layout import Parts, line, number, size, table

_SHOWN = 3  # names of a memory's largest buffers and constants


def placement_parts(placement: Placement) -> Parts:
    """Lay out a placement as a table of memories."""
    rows = [
        (
            one["memory"],
            number(one["arena_bytes"]),
            number(one["lower_bound_bytes"]),
            number(one["weights_bytes"]),
            number(one["read_words"]),
            number(one["written_words"]),
            number(round(one["cycles"])),
            ", ".join(one["largest"]),
        )
        for one in placement_values(placement)["memories"]
    ]
    share = placement.cycles / placement.slow_cycles if placement.slow_cycles else 1.0
    state = placement.layout.state_bank
    return [
        "",
        table(("memory", ">arena", ">bound", ">weights", ">read", ">written", ">cycles", "largest"), rows),
        *([line("state", f"{size(placement.layout.state_bytes)} in {state.name}")] if state else []),
        line(
            "traffic",
            f"{number(round(placement.cycles))} cycles for the words of one inference, "
            f"{share:.0%} of everything in the slowest memory (by the row's cycles, estimate)",
        ),
    ]


def placement_values(placement: Placement) -> dict[str, Any]:
    """The same as plain values."""
    layout = placement.layout
    names = dict.fromkeys(part.bank.name for part in (*layout.arenas, *layout.params))
    used = {use.memory: use for use in uses_of(layout)}
    memories = []
    for name in names:
        use = used.get(name, MemoryUse(memory=name, room_bytes=0, contents=()))
        arena = next((p for p in layout.arenas if p.bank.name == name), None)
        weights = next((p for p in layout.params if p.bank.name == name), None)
        memories.append(
            {
                "memory": name,
                "arena_bytes": arena.size_bytes if arena else 0,
                "lower_bound_bytes": arena.lower_bound_bytes if arena else 0,
                "weights_bytes": weights.size_bytes if weights else 0,
                "read_words": use.read_words,
                "written_words": use.written_words,
                "cycles": use.cycles,
                "largest": _largest(placement, name),
            }
        )
    return {
        "memories": memories,
        "state_memory": layout.state_bank.name if layout.state_bank else "",
        "cycles": placement.cycles,
        "slow_cycles": placement.slow_cycles,
    }


def _largest(placement: Placement, memory: str) -> list[str]:
    """Names of the largest tensors, workspaces and constants in a memory."""
    layout = placement.layout
    model = layout.model
    sized: list[tuple[int, str]] = []
    for part in (p for p in layout.arenas if p.bank.name == memory):
        for buffer in layout.plan.buffers:
            if part.holds(buffer.offset):
                key = buffer.key
                name = (
                    f"scratch of {model.steps[key[0]].name}"
                    if isinstance(key, tuple)
                    else model.tensors[key].name
                )
                sized.append((buffer.size_bytes, name))
    for part in (p for p in layout.params if p.bank.name == memory):
        sized += [
            (tensor.size_bytes, tensor.name)
            for tensor in model.constants
            if part.holds(layout.constant_offsets[tensor.id])
        ]
    return [name for _, name in sorted(sized, reverse=True)[:_SHOWN]]
