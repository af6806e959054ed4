# SPDX-License-Identifier: Apache-2.0
"""Objects of a model in several memories: an arena and a run of parameters for each, with their sections."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from mlf_sdk.codegen.link import Linkage
from mlf_sdk.planner.layout import ModelLayout, Part, align_up
from mlf_sdk.tools.ctext import Values


class MemoryObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that lies in one memory.

    Attributes:
        first: offset of the layout that it begins with.
        size_bytes: exact; ``reserved_bytes`` is that of the object without guards.
        section: of the object, in the linker script.
        guard_bytes: on each side.
        covered_bytes: of the first guard that are behind the symbol: all of an arena's, none of parameters'.
    """

    symbol: str
    memory: str
    section: str
    first: int
    size_bytes: int
    reserved_bytes: int
    is_ram: bool
    guard_bytes: int
    covered_bytes: int = 0


def arena_objects(layout: ModelLayout, linkage: Linkage) -> tuple[MemoryObject, ...]:
    """Arenas of a model in several memories, by offset; empty: it has one, where it always lies."""
    return tuple(
        MemoryObject(
            symbol=(symbol := _symbol(linkage.arena_symbol, number, part)),
            memory=part.bank.name,
            section=f"{part.bank.noinit}.mlf_arena.{symbol}",
            first=part.first,
            size_bytes=part.size_bytes,
            reserved_bytes=align_up(max(part.size_bytes, 1), layout.alignment),
            is_ram=True,
            guard_bytes=linkage.guard_bytes,
            covered_bytes=linkage.guard_bytes,
        )
        for number, part in enumerate(layout.arenas)
    )


def params_objects(layout: ModelLayout, linkage: Linkage) -> tuple[MemoryObject, ...]:
    """Parameters of a model in several memories, by offset; empty: they are in one blob."""
    c_name = layout.model.c_name
    return tuple(
        MemoryObject(
            symbol=(symbol := _symbol(f"{c_name}_params", number, part)),
            memory=part.bank.name,
            section=f"{part.bank.data if part.bank.is_ram else part.bank.rodata}.mlf_params.{symbol}",
            first=part.first,
            size_bytes=part.size_bytes,
            reserved_bytes=part.size_bytes,
            is_ram=part.bank.is_ram,
            guard_bytes=linkage.guard_bytes if part.bank.is_ram else 0,
        )
        for number, part in enumerate(layout.params)
    )


def _symbol(stem: str, number: int, part: Part) -> str:
    return stem if number == 0 else f"{stem}_{part.bank.name}"


class Places:
    """C expressions of addresses of a model in several memories, and the values of its templates."""

    def __init__(self, layout: ModelLayout, linkage: Linkage) -> None:
        self._arenas = arena_objects(layout, linkage)
        self._params = params_objects(layout, linkage)
        bank = layout.state_bank
        self.values: Values = {
            "arenas": [asdict(one) for one in self._arenas],
            "params_parts": [asdict(one) for one in self._params],
            "state_section": f"{bank.data}.mlf_state.{layout.model.c_name}" if bank is not None else "",
        }

    def buffer(self, offset: int) -> str:
        """Address of what the plan puts at an offset."""
        return _address(self._arenas, offset)

    def constant(self, offset: int) -> str:
        """Address of the constant at an offset of the parameters."""
        return _address(self._params, offset)


def _address(objects: Sequence[MemoryObject], offset: int) -> str:
    inside = next(one for one in reversed(objects) if one.first <= offset)
    return f"{inside.symbol} + {offset - inside.first + inside.covered_bytes}"
