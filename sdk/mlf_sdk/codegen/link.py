# SPDX-License-Identifier: Apache-2.0
"""Code of several models in one image: sources of the build, symbols; those that collide are renamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from mlf_sdk.codegen.options import NEEDED_FLAGS, ProjectOptions
from mlf_sdk.ir.model import ALIGNMENT, CodeUnit, Model, Step, UnitKind, needs_cmsis_nn
from mlf_sdk.ir.names import NameTable
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.ctext import Values

_RESERVED_PREFIXES = ("mlf_", "__mlf_", "TVMBackend", "TVMAPI", "TVMFFI")
_RESERVED = frozenset({"main", "memcpy", "memset", "memmove", "memcmp", "strlen"})


def link_models(
    layouts: Sequence[ModelLayout], *, share_arena: bool, guarded: bool = False, holds_inputs: bool = False
) -> tuple[Linkage, ...]:
    """Assign the symbols of every model in one image.

    A symbol that an earlier model, the runtime or the C library defines is prefixed with the model's name.

    Args:
        share_arena: the models use one arena, as large as the largest needs.
        guarded: arena, states and parameters in RAM have guard bytes around them.
        holds_inputs: the application has a buffer for inputs that do not lie in the arena.

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
                input_bytes=layout.input_bytes if holds_inputs else 0,
            )
        )
    return tuple(linkages)


def link_project(
    layouts: Sequence[ModelLayout], options: ProjectOptions, *, guarded: bool
) -> tuple[Linkage, ...]:
    """Assign the symbols of every model of a project, as `link_models` does."""
    return link_models(
        layouts, share_arena=options.share_arena, guarded=guarded, holds_inputs=options.holds_inputs
    )


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
        input_bytes: of the application's buffer for inputs that do not lie in the arena; 0: it has none.
    """

    arena_symbol: str
    owns_arena: bool
    arena_reserved_bytes: int
    renames: dict[str, str]
    arena_alignment: int = ALIGNMENT
    guard_bytes: int = 0
    input_bytes: int = 0

    def symbol(self, name: str) -> str:
        """Symbol in the image of the archive's symbol ``name``."""
        return self.renames.get(name, name)


_COMPILED: Final = (UnitKind.C, UnitKind.CXX, UnitKind.ASSEMBLY)
_KERNELS: Final = "kernels"  # folder of code that the compiler made for this model alone


def unit_paths(model: Model) -> dict[str, str]:
    """Paths of a model's code in its folder, by member: those of the archive, or ``kernels/NAME``."""
    members = [unit.member for unit in model.units]
    if not any(unit.clean for unit in model.units):
        return {member: member for member in members}
    names = {member: member.rpartition("/")[2] for member in members}
    count = Counter(names.values())
    return {m: f"{_KERNELS}/{name}" if count[name] == 1 else m for m, name in names.items()}


def entry_files(layout: ModelLayout, executor: str = "static") -> dict[str, list[Step]]:
    """Files of adapters, and the steps of each: those of one unit, else of one header, are together.

    The dynamic executor has none: its adapters are in the model's own file.
    """
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in layout.model.steps:
        if not step.is_direct and executor == "static":
            groups.setdefault((step.abi.unit, "" if step.abi.unit else step.abi.header), []).append(step)
    stem = f"model/{layout.model.c_name}/{layout.model.c_name}_entry"
    return {f"{stem}_{steps[0].index}.c": steps for steps in groups.values()}


def build_values(layout: ModelLayout, linkage: Linkage, executor: str = "static") -> Values:
    """Values of a model for the CMake templates."""
    model = layout.model
    folder = f"model/{model.c_name}"
    paths = unit_paths(model)
    linked = [unit for unit in model.units if unit.linked]
    included = {s.abi.unit for s in layout.steps if s.abi.unit}
    entries = entry_files(layout, executor)
    clean = {u.member for u in model.units if u.clean}
    good = [path for path, steps in entries.items() if _is_clean(steps[0], clean)]
    units = [u for u in linked if u.kind in _COMPILED and u.member not in included]
    sources = {f"{folder}/{paths[u.member]}": u for u in units}
    warned = {path: unit for path, unit in sources.items() if unit.kind is not UnitKind.ASSEMBLY}
    foreign = [path for path, unit in warned.items() if not unit.clean]
    headers = [paths[u.member] for u in model.units if u.kind is UnitKind.HEADER]
    return {
        "dir": folder,
        "sources": [*sources, *entries],
        "clean": [*(path for path, unit in warned.items() if unit.clean), *good],
        "foreign_c": [p for p in foreign if not p.endswith(".cc")] + [p for p in entries if p not in good],
        "foreign_cxx": [p for p in foreign if p.endswith(".cc")],
        "entries": list(entries),
        "objects": _objects(folder, layout, linkage),
        "renames": bool(linkage.renames),
        "flags": NEEDED_FLAGS,
        "include_dirs": sorted({f"{folder}/{path}".rpartition("/")[0] for path in headers}),
        "needs_cmsis_nn": needs_cmsis_nn(model),
    }


def _objects(folder: str, layout: ModelLayout, linkage: Linkage) -> list[dict[str, Any]]:
    """Objects to link, and those that are made from the model's: joined, or with other names of symbols."""
    model = layout.model
    units = [unit for unit in model.units if unit.linked and unit.kind is UnitKind.OBJECT]
    places = unit_paths(model)
    paths = [f"{folder}/{places[unit.member]}" for unit in units]
    if not model.exports:
        made = bool(linkage.renames)
        return [{"path": path, "made": made, "joins": [], "output": path.replace("/", "_")} for path in paths]
    output = f"{folder}/joined.o".replace("/", "_")
    return [{"path": output, "made": True, "joins": paths, "output": output, "absent": _absent(units)}]


def _absent(units: Sequence[CodeUnit]) -> list[str]:
    """Symbols of the C++ unwinder that are only named, to have it linked; the joined object has none."""
    named = {name for unit in units for name in (b"__aeabi_unwind_cpp_pr0",) if name in unit.data}
    return sorted(name.decode() for name in named)


def _is_clean(step: Step, clean: Collection[str]) -> bool:
    """Return whether an entry includes nothing but what builds without a warning."""
    return not step.abi.unit and (not step.abi.header or step.abi.header in clean)
