# SPDX-License-Identifier: Apache-2.0
"""Expansion of a plan: each value of an axis is looked at once, cells are combinations of their parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlf_sdk.errors import InputError
from mlf_sdk.judge.witnesses.panel import installed_titles
from mlf_sdk.pipeline.request import Request
from mlf_sdk.sweep.identity import (
    HOST,
    name_of,
    place_resource,
    places_of,
    resources_for,
    sdk_version,
    tool_versions,
    toolchain_used,
)
from mlf_sdk.sweep.job import CELL, REFERENCE, Spec
from mlf_sdk.sweep.parts import (
    FILES,
    Part,
    board_part,
    given_options,
    label_of,
    merged,
    part_of,
    parts_of,
    text_of,
)
from mlf_sdk.sweep.plan import BOARD, MODEL, Plan
from mlf_sdk.tools.toolchains import GCC

_NOT_OF_THE_TWIN = frozenset(
    {
        *("board", "board_file", "platform", "port", "baud", "max_baud", "image", "executor", "share_arena"),
        *("plan", "twin", "expect", "rtol", "atol", "row", "model_file", "witness_s"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """A cell of a plan: its job, and the labels of its values by axis."""

    spec: Spec
    labels: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """All cells of a plan.

    Attributes:
        axes: labels by axis, in the plan's order.
        references: jobs that give cells their expected outputs, by name.
    """

    axes: dict[str, tuple[str, ...]]
    cells: tuple[PlannedCell, ...]
    references: dict[str, Spec]


def expand(plan: Plan, base: Request | None = None) -> Expansion:
    """Expand a checked plan.

    Args:
        plan: as `read_plan` or `make_plan` gives it.
        base: options beside those of the plan.

    Raises:
        InputError: a file is missing, a board is unknown, or no cell is left.
    """
    parts = parts_of(plan, base or Request())
    common = _common(plan, base or Request())
    references: dict[str, Spec] = {}
    cells = tuple(_cells(plan, parts, common, references))
    if not cells:
        raise InputError("no cell is left", where=plan.name, hint="Fewer rows in exclude.")
    axes = {axis: tuple(dict.fromkeys(part.label for part in values)) for axis, values in parts.items()}
    return Expansion(axes=axes, cells=cells, references=references)


# ---- cells ----


def _common(plan: Plan, base: Request) -> Part:
    options = {name: value for name, value in plan.options.items() if name != BOARD}
    everything = {**given_options(base), **options}
    return merged(*(part_of(name, value) for name, value in everything.items()))


def _cells(
    plan: Plan, parts: Mapping[str, list[Part]], common: Part, references: dict[str, Spec]
) -> Iterator[PlannedCell]:
    combine = _Combiner(common, references)
    excluded = [_matcher(row) for row in plan.exclude]
    axes = list(parts)
    for chosen in itertools.product(*parts.values()):
        labels = {axis: part.label for axis, part in zip(axes, chosen, strict=True)}
        if not any(all(labels[a] in v for a, v in row.items()) for row in excluded):
            yield PlannedCell(spec=combine.spec(chosen), labels=labels)
    for row in plan.include:
        yield _included(row, parts, combine)


def _matcher(row: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    return {
        axis: frozenset(label_of(one) for one in (value if isinstance(value, list) else [value]))
        for axis, value in row.items()
    }


def _included(row: Mapping[str, Any], parts: Mapping[str, list[Part]], combine: _Combiner) -> PlannedCell:
    chosen = []
    for axis, values in parts.items():
        if axis not in row:
            chosen.append(values[0])
            continue
        wanted = label_of(row[axis])
        known = next((part for part in values if part.label == wanted), None)
        if known is None and axis == MODEL:
            raise InputError(f"there is no model '{wanted}'", where="include", hint="Name one of the axis.")
        if known is None:
            known = board_part(wanted, {}) if axis == BOARD else part_of(axis, row[axis])
        chosen.append(known)
    labels = {axis: part.label for axis, part in zip(parts, chosen, strict=True)}
    return PlannedCell(spec=combine.spec(chosen), labels=labels)


class _Combiner:
    """Makes jobs of parts; what depends on the board alone is made once a board."""

    def __init__(self, common: Part, references: dict[str, Spec]) -> None:
        self._common, self._references = common, references
        self._versions = (
            ("sdk", sdk_version()),
            ("tools", text_of(dict(tool_versions()))),
            ("witnesses", ", ".join(installed_titles())),
        )
        self._resources: dict[tuple[str, str | None], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def spec(self, chosen: Sequence[Part]) -> Spec:
        """The job of a combination of one part of each axis, which win over what is common to all."""
        identity = dict(self._common.identity)
        fields, files = dict(self._common.fields), dict(self._common.files)
        board = core = ""
        compiles = False
        for part in chosen:
            identity.update(part.identity)
            fields.update(part.fields)
            files.update(part.files)
            board, core = board or part.board, core or part.core
            compiles = compiles or part.compiles
        wanted = fields.get("toolchain")
        resources, places = self._needs(board, wanted)
        used_here = toolchain_used(board, wanted) if "platform" not in fields else ""
        if port := fields.get("port"):
            resources = (*resources, place_resource(f"port {port}"))
        used = _used(fields, files)
        tools = (("toolchain used", used_here),)
        own = (
            {"toolchain": used_here} if used_here not in ("", GCC) else {}
        )  # for workers that have others too
        return Spec(
            name=name_of((("kind", CELL), *identity.items(), *tools, *self._versions)),
            fields={**fields, **own},
            files=used,
            resources=resources,
            places=places,
            reference=self._reference(identity, fields, used, core if compiles else ""),
        )

    def _needs(self, board: str, toolchain: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if (board, toolchain) not in self._resources:
            self._resources[board, toolchain] = resources_for(board, toolchain), places_of(board)
        return self._resources[board, toolchain]

    def _reference(
        self,
        identity: Mapping[str, str],
        fields: Mapping[str, Any],
        files: Mapping[str, str],
        core: str,
    ) -> str:
        """Name of the host twin's job; empty where outputs are given, or a twin is asked for or refused."""
        if fields.get("expect") is not None or fields.get("twin") is not None:
            return ""
        parts = [(name, value) for name, value in identity.items() if name not in _NOT_OF_THE_TWIN]
        if core and "core" not in fields:
            parts.append(("core", core))
        wanted = fields.get("toolchain")
        used_here = toolchain_used(HOST, wanted)
        name = name_of((("kind", REFERENCE), *parts, ("toolchain used", used_here), *self._versions))
        if name not in self._references:
            kept = {key: value for key, value in fields.items() if key not in _NOT_OF_THE_TWIN}
            kept |= {"core": core} if core and "core" not in fields else {}
            kept |= {"toolchain": used_here} if used_here != GCC else {}
            self._references[name] = Spec(
                name=name,
                kind=REFERENCE,
                fields=kept,
                files=_used(kept, files),
                resources=resources_for(HOST, wanted),
            )
        return name


def _used(fields: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, str]:
    """Files that fields name."""
    if not files:
        return {}
    named: set[str] = set()
    for name in FILES & fields.keys():
        value = fields[name]
        named.update([value] if isinstance(value, str) else value if isinstance(value, list | tuple) else [])
    return {path: digest for path, digest in files.items() if path in named}


def names_of(cells: Iterable[PlannedCell]) -> list[str]:
    """Names of cells, each once, in order."""
    return list(dict.fromkeys(cell.spec.name for cell in cells))
