# SPDX-License-Identifier: Apache-2.0
"""Symbols of several models in one image; those that collide are renamed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mlf_sdk.ir.model import ALIGNMENT, Model
from mlf_sdk.ir.names import NameTable
from mlf_sdk.planner.layout import ModelLayout

_RESERVED_PREFIXES = ("mlf_", "__mlf_", "TVMBackend", "TVMAPI", "TVMFFI")
_RESERVED = frozenset({"main", "memcpy", "memset", "memmove", "memcmp", "strlen"})


def link_models(
    layouts: Sequence[ModelLayout], *, share_arena: bool, guarded: bool = False
) -> tuple[Linkage, ...]:
    """Assign the symbols of every model in one image.

    A symbol that an earlier model, the runtime or the C library defines is prefixed with the model's name.

    Args:
        share_arena: the models use one arena, as large as the largest needs.
        guarded: arena, states and parameters in RAM have guard bytes around them.

    Returns:
        One linkage for each layout, in the same order.
    """
    arena = f"{layouts[0].model.c_name}_shared_arena"
    shared = share_arena and len(layouts) > 1
    alignment = max(layout.alignment for layout in layouts)
    largest = max(layout.arena_reserved_bytes for layout in layouts)
    names = NameTable(frozenset(s.lower() for one in layouts for s in external_symbols(one.model)))
    taken: set[str] = set()
    linkages = []
    for index, layout in enumerate(layouts):
        model = layout.model
        renames = {
            symbol: names.unique(f"{model.c_name}_{symbol}", max_length=127)
            for symbol in external_symbols(model)
            if symbol in taken or _is_reserved(symbol)
        }
        taken.update(renames.get(s, s) for s in external_symbols(model))
        linkages.append(
            Linkage(
                arena_symbol=arena if shared else f"{model.c_name}_arena",
                owns_arena=index == 0 or not shared,
                arena_reserved_bytes=largest if shared else layout.arena_reserved_bytes,
                renames=renames,
                arena_alignment=alignment if shared else layout.alignment,
                guard_bytes=alignment if guarded or not layout.shared else 0,
            )
        )
    return tuple(linkages)


def external_symbols(model: Model) -> tuple[str, ...]:
    """Symbols with external linkage of the model's linked code."""
    result: dict[str, None] = {}
    for unit in model.units:
        if unit.linked:
            result.update(dict.fromkeys(unit.symbols))
    return tuple(result)


def _is_reserved(symbol: str) -> bool:
    return symbol in _RESERVED or symbol.startswith(_RESERVED_PREFIXES)


class Linkage(msgspec.Struct, frozen=True, kw_only=True):
    """Symbols that depend on what else is in the image.

    Attributes:
        arena_symbol: the arena, shared by several models when asked for.
        owns_arena: this model's file defines it.
        arena_alignment: bytes.
        guard_bytes: on each side of the arena, states and parameters in RAM; 0: none.
        renames: archive symbol -> symbol in the image, where two archives collide.
    """

    arena_symbol: str
    owns_arena: bool
    arena_reserved_bytes: int
    renames: dict[str, str]
    arena_alignment: int = ALIGNMENT
    guard_bytes: int = 0

    def symbol(self, name: str) -> str:
        """Symbol in the image of the archive's symbol ``name``."""
        return self.renames.get(name, name)
