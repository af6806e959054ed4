# SPDX-License-Identifier: Apache-2.0
"""Template values of the memory of a laid-out model: its objects, and their guard bytes."""

from __future__ import annotations

from mlf_sdk.codegen.linkage import Linkage
from mlf_sdk.codegen.regions import Region, apart_regions, regions_of
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.ctext import Values, byte_rows, c_comment


def region_values(layout: ModelLayout, linkage: Linkage, params: str) -> Values:
    """Objects that hold what the model writes, and those with guard bytes."""
    guard = linkage.guard_bytes
    state = bytes(guard) + layout.state_blob()
    guarded = regions_of(layout, linkage, params)
    in_asm = f"{layout.model.c_name}_params"  # its symbol does not cover its guard bytes
    return {
        "guard_bytes": guard,
        "guard_params": guard if params == "ram" else 0,
        "params_gaps": [] if layout.shared else _params_gaps(layout),
        "state_rows": byte_rows(state) if any(state) else [],
        "apart": [] if layout.shared else [_apart_values(region, guard) for region in apart_regions(layout)],
        "guards": [
            {
                "address": region.symbol if region.symbol == in_asm else f"{region.symbol} + {guard}",
                "size_bytes": region.size_bytes,
                "comment": c_comment(region.name),
            }
            for region in guarded
        ],
    }


def _params_gaps(layout: ModelLayout) -> list[tuple[int, int]]:
    """Offset and bytes of what lies between the constants of the parameter blob."""
    spans = sorted((at, layout.model.tensors[i].size_bytes) for i, at in layout.constant_offsets.items())
    ends = [at + size for at, size in spans]
    return [(end, at - end) for end, (at, _) in zip(ends, spans[1:], strict=False)]


def _apart_values(region: Region, guard: int) -> Values:
    rows = any(region.data)
    return {
        "symbol": region.symbol,
        "comment": c_comment(region.name),
        "size_bytes": max(region.size_bytes, 1),
        "rows": byte_rows(region.data) if rows else [],
        "guard_rows": byte_rows(bytes(guard)) if rows else [],
    }
