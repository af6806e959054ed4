# SPDX-License-Identifier: Apache-2.0
"""Expansion of a plan: each value of an axis is looked at once, cells are combinations of their parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import ArchiveError, InputError, ModuleChoiceError
from mlf_sdk.frontends.registry import find_frontend
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.sweep.identity import (
    board_identity,
    core_for,
    digest_of,
    digest_of_value,
    name_of,
    place_resource,
    places_of,
    resources_for,
    sdk_version,
    tool_versions,
)
from mlf_sdk.sweep.job import CELL, REFERENCE, Spec
from mlf_sdk.sweep.plan import BOARD, MODEL, Plan, PlannedModel
from mlf_sdk.targets.boards import DEFAULT_BOARD

_FILES = ("source", "inputs", "expect", "more_sources", "board_file", "cmsis_nn", "image", "sign")
_UNTIMED = frozenset({"timeout_s", "build_timeout_s", "strict"})  # decide no result
_NOT_OF_THE_TWIN = frozenset(
    {
        *("board", "board_file", "platform", "port", "baud", "max_baud", "image", "executor", "share_arena"),
        *("plan", "twin", "expect", "rtol", "atol", "row"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Share of a cell that one value of an axis decides.

    Attributes:
        label: text of the value in results.
        fields, files: as in `Spec`.
        identity: pairs that enter the cell's name.
        board: the value is a board.
        core: of the board, for which a model is compiled.
        compiles: the value is a model that is compiled when it is loaded.
    """

    label: str
    fields: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    identity: tuple[tuple[str, str], ...] = ()
    board: str = ""
    core: str = ""
    compiles: bool = False


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
    parts = _parts(plan, base or Request())
    common = _common(plan, base or Request())
    references: dict[str, Spec] = {}
    cells = tuple(_cells(plan, parts, common, references))
    if not cells:
        raise InputError("no cell is left", where=plan.name, hint="Fewer rows in exclude.")
    axes = {axis: tuple(dict.fromkeys(part.label for part in values)) for axis, values in parts.items()}
    return Expansion(axes=axes, cells=cells, references=references)


# ---- values ----


def _parts(plan: Plan, base: Request) -> dict[str, list[Part]]:
    models = [PlannedModel(source=source) for source in plan.axes.get(MODEL, [])]
    found = {MODEL: [part for model in (*plan.models, *models) for part in _model_parts(model, plan, base)]}
    _check_labels(found[MODEL], MODEL)
    boards = plan.axes.get(BOARD) or [plan.options.get(BOARD) or base.board or DEFAULT_BOARD]
    option = plan.options | _given(base)
    found[BOARD] = [_board_part(str(board), option) for board in boards]
    for axis, values in plan.axes.items():
        if axis not in (MODEL, BOARD):
            found[axis] = [_part(axis, value) for value in values]
            _check_labels(found[axis], axis)
    return found


def _check_labels(parts: Sequence[Part], axis: str) -> None:
    labels = [part.label for part in parts]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"two values have the name '{label}'", where=f"axis {axis}", hint="Name one of them."
            )


def _model_parts(model: PlannedModel, plan: Plan, base: Request) -> Iterator[Part]:
    own = {
        name: value
        for name in ("module", "inputs", "expect", "output_names", "tensor_types", "more_sources")
        if (value := getattr(model, name))
    }
    table = dict(model.options)
    request = {name: value for name, value in own.items() if name in ("output_names", "tensor_types")}
    modules = [model.module] if model.module else modules_of(model.source, base.replace(**request))
    for module in modules:
        name = model.name or Path(model.source).name
        part = _merged(
            _part("source", (model.source,)),
            *(_part(field, value) for field, value in own.items() if field != "module"),
            *(_part(field, value) for field, value in table.items()),
            *([_part("module", module)] if module else []),
        )
        label = f"{name}, {module}" if len(modules) > 1 else name
        yield Part(
            label=label,
            fields=part.fields,
            files=part.files,
            identity=(*part.identity, ("row", Path(model.source).name)),
            compiles=find_frontend(Path(model.source)).compiles,
        )


def modules_of(source: str, base: Request) -> list[str | None]:
    """Names of the modules of an archive with several (in operator style: of the functions); else [None].

    An archive that can't be read has one: its cells say why.

    Raises:
        InputError: there is no such file.
    """
    if not Path(source).exists():
        raise InputError("there is no such file", where=source)
    try:
        if find_frontend(Path(source)).compiles:  # it holds one model
            return [None]
        Pipeline().models(base.replace(source=(source,), module=None))
    except ModuleChoiceError as error:
        return [*error.names]
    except ArchiveError:
        return [None]
    return [None]


def _board_part(board: str, options: Mapping[str, Any]) -> Part:
    named = {
        name: options[name] for name in ("board_file", "platform", "zephyr_base", "port") if options.get(name)
    }
    identity = board_identity(Request(board=board, **named))
    return Part(
        label=board,
        fields={"board": board},
        identity=(("board", digest_of_value(identity)),),
        board=board,
        core=core_for(Request(board=board, **named)),
    )


def _part(axis: str, value: Any) -> Part:  # noqa: ANN401
    """The part of one option's value; an empty text is an option that is not given."""
    label = _label(value)
    if value == "" or value is None:
        return Part(label=label)
    if axis in _FILES:
        if isinstance(value, Mapping):  # arrays
            return Part(label=label, fields={axis: value}, identity=((axis, digest_of_value(value)),))
        paths = (value,) if isinstance(value, str) else value
        files = {str(path): digest_of(path) for path in paths}
        return Part(
            label=label, fields={axis: value}, files=files, identity=((axis, ",".join(files.values())),)
        )
    identity = () if axis in _UNTIMED else ((axis, _text(value)),)
    return Part(label=label, fields={axis: value}, identity=identity)


def _label(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return value or "default"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)


def _text(value: Any) -> str:  # noqa: ANN401
    return msgspec.json.encode(value).decode() if not isinstance(value, Mapping) else digest_of_value(value)


def _merged(*parts: Part) -> Part:
    found = Part(label=", ".join(part.label for part in parts))
    for part in parts:
        found.fields.update(part.fields)
        found.files.update(part.files)
    return Part(
        label=found.label,
        fields=found.fields,
        files=found.files,
        identity=tuple(pair for part in parts for pair in part.identity),
        board=next((part.board for part in parts if part.board), ""),
    )


# ---- cells ----


def _given(base: Request) -> dict[str, Any]:
    """Options of a request that are not at their default, sources and board aside."""
    default = Request()
    names = [name for name in Request.__dataclass_fields__ if name not in ("source", "board", "module")]
    return {name: getattr(base, name) for name in names if getattr(base, name) != getattr(default, name)}


def _common(plan: Plan, base: Request) -> Part:
    options = {name: value for name, value in plan.options.items() if name != BOARD}
    everything = {**_given(base), **options}
    return _merged(*(_part(name, value) for name, value in everything.items()))


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
        axis: frozenset(_label(one) for one in (value if isinstance(value, list) else [value]))
        for axis, value in row.items()
    }


def _included(row: Mapping[str, Any], parts: Mapping[str, list[Part]], combine: _Combiner) -> PlannedCell:
    chosen = []
    for axis, values in parts.items():
        if axis not in row:
            chosen.append(values[0])
            continue
        wanted = _label(row[axis])
        known = next((part for part in values if part.label == wanted), None)
        if known is None and axis == MODEL:
            raise InputError(f"there is no model '{wanted}'", where="include", hint="Name one of the axis.")
        if known is None:
            known = _board_part(wanted, {}) if axis == BOARD else _part(axis, row[axis])
        chosen.append(known)
    labels = {axis: part.label for axis, part in zip(parts, chosen, strict=True)}
    return PlannedCell(spec=combine.spec(chosen), labels=labels)


class _Combiner:
    """Makes jobs of parts; what depends on the board alone is made once a board."""

    def __init__(self, common: Part, references: dict[str, Spec]) -> None:
        self._common, self._references = common, references
        self._versions = (("sdk", sdk_version()), ("tools", _text(dict(tool_versions()))))
        self._resources: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

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
        resources, places = self._needs(board)
        if port := fields.get("port"):
            resources = (*resources, place_resource(f"port {port}"))
        used = _used(fields, files)
        return Spec(
            name=name_of((("kind", CELL), *identity.items(), *self._versions)),
            fields=fields,
            files=used,
            resources=resources,
            places=places,
            reference=self._reference(identity, fields, used, core if compiles else ""),
        )

    def _needs(self, board: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if board not in self._resources:
            self._resources[board] = resources_for(board), places_of(board)
        return self._resources[board]

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
        name = name_of((("kind", REFERENCE), *parts, *self._versions))
        if name not in self._references:
            kept = {key: value for key, value in fields.items() if key not in _NOT_OF_THE_TWIN}
            kept |= {"core": core} if core and "core" not in fields else {}
            self._references[name] = Spec(
                name=name,
                kind=REFERENCE,
                fields=kept,
                files=_used(kept, files),
                resources=resources_for("host"),
            )
        return name


def _used(fields: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, str]:
    """Files that fields name."""
    named: set[str] = set()
    for name in _FILES:
        value = fields.get(name)
        named.update([value] if isinstance(value, str) else value if isinstance(value, list | tuple) else [])
    return {path: digest for path, digest in files.items() if path in named}


def names_of(cells: Iterable[PlannedCell]) -> list[str]:
    """Names of cells, each once, in order."""
    return list(dict.fromkeys(cell.spec.name for cell in cells))
