# SPDX-License-Identifier: Apache-2.0
"""Objects of the image that hold what a model writes: one arena, or one object for each buffer."""

from __future__ import annotations

import msgspec

from mlf_sdk.codegen.link import Linkage
from mlf_sdk.ir.model import Step, Tensor
from mlf_sdk.ir.names import input_symbol
from mlf_sdk.planner.layout import OUTSIDE, ModelLayout, align_up


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a model with guard bytes on both sides.

    Attributes:
        name: for messages.
        symbol: of the object.
        size_bytes: without the guard bytes.
        data: initial bytes; empty: they need not be set.
    """

    name: str
    symbol: str
    size_bytes: int
    data: bytes = b""


def tensor_symbol(c_name: str, tensor: int) -> str:
    """Symbol of the object of one tensor that shares no memory."""
    return f"{c_name}_tensor_{tensor}"


def workspace_symbol(c_name: str, step: int, slot: int) -> str:
    """Symbol of the object of one workspace that shares no memory."""
    return f"{c_name}_workspace_{step}_{slot}"


def apart_regions(layout: ModelLayout) -> tuple[Region, ...]:
    """An object for each tensor, workspace and state of a layout that shares nothing."""
    model = layout.model
    roots = [t for t in model.tensors if t.alias_of is None and t.kind not in OUTSIDE]
    tensors = [_of_tensor(model.c_name, t) for t in (*roots, *model.states)]
    for step in model.steps:
        tensors += [
            Region(
                name=f"workspace {slot} of step {step.index}",
                symbol=workspace_symbol(model.c_name, step.index, slot),
                size_bytes=size_bytes,
            )
            for slot, size_bytes in placed_workspaces(step)
        ]
    return tuple(tensors)


def _of_tensor(c_name: str, tensor: Tensor) -> Region:
    return Region(
        name=f"tensor '{tensor.name}'",
        symbol=tensor_symbol(c_name, tensor.id),
        size_bytes=tensor.size_bytes,
        data=tensor.data or b"",
    )


def placed_workspaces(step: Step) -> list[tuple[int, int]]:
    """Slot and bytes of each workspace of a step, the last-in-first-out one among them."""
    result = [(w.slot, w.size_bytes) for w in step.workspaces]
    if step.workspace_stack_bytes:
        result.append((step.stack_slot, align_up(step.workspace_stack_bytes)))
    return result


def regions_of(layout: ModelLayout, linkage: Linkage, params: str) -> tuple[Region, ...]:
    """Regions of a model that have guard bytes, in the order in which the device numbers them.

    Args:
        params: ``ram``: the parameters are one of them.
    """
    if not linkage.guard_bytes:
        return ()
    c_name = layout.model.c_name
    regions: list[Region] = []
    if linkage.input_bytes:
        symbol = input_symbol(c_name)
        regions.append(Region(name="the inputs", symbol=symbol, size_bytes=linkage.input_bytes))
    if layout.arenas:
        from mlf_sdk.codegen.places import arena_objects, params_objects  # few models lie in several memories

        regions += [
            Region(name=f"the arena in {one.memory}", symbol=one.symbol, size_bytes=one.reserved_bytes)
            for one in arena_objects(layout, linkage)
        ]
        if layout.state_bytes:
            regions.append(Region(name="the state", symbol=f"{c_name}_state", size_bytes=layout.state_bytes))
        regions += [
            Region(name=f"the parameters in {one.memory}", symbol=one.symbol, size_bytes=one.size_bytes)
            for one in params_objects(layout, linkage)
            if one.is_ram
        ]
        return tuple(regions)
    if layout.shared:
        arena = Region(name="the arena", symbol=linkage.arena_symbol, size_bytes=linkage.arena_reserved_bytes)
        regions.append(arena)
        if layout.state_bytes:
            regions.append(Region(name="the state", symbol=f"{c_name}_state", size_bytes=layout.state_bytes))
    else:
        regions += apart_regions(layout)
    if params == "ram" and layout.params_bytes:
        regions.append(
            Region(name="the parameters", symbol=f"{c_name}_params", size_bytes=layout.params_bytes)
        )
    return tuple(regions)
