# SPDX-License-Identifier: Apache-2.0
"""Files of a model's code in a project, and how its build compiles and links them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

from mlf_sdk.codegen.link import Linkage
from mlf_sdk.codegen.options import NEEDED_FLAGS
from mlf_sdk.frontends.codechecks import needs_cmsis_nn
from mlf_sdk.ir.model import CodeUnit, Model, Step, UnitKind
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.ctext import Values

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


def entry_files(layout: ModelLayout) -> dict[str, list[Step]]:
    """Files of adapters, and the steps of each: those of one unit, else of one header, are together."""
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in layout.model.steps:
        if not step.is_direct:
            groups.setdefault((step.abi.unit, "" if step.abi.unit else step.abi.header), []).append(step)
    stem = f"model/{layout.model.c_name}/{layout.model.c_name}_entry"
    return {f"{stem}_{steps[0].index}.c": steps for steps in groups.values()}


def build_values(layout: ModelLayout, linkage: Linkage) -> Values:
    """Values of a model for the CMake templates."""
    model = layout.model
    folder = f"model/{model.c_name}"
    paths = unit_paths(model)
    linked = [unit for unit in model.units if unit.linked]
    included = {s.abi.unit for s in layout.steps if s.abi.unit}
    entries = entry_files(layout)
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
