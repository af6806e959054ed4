# SPDX-License-Identifier: Apache-2.0
"""Values of a plan's axes as parts of cells: fields of a request, files, and what enters a cell's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import ArchiveError, InputError, ModuleChoiceError
from mlf_sdk.frontends.registry import find_frontend
from mlf_sdk.pipeline.declare import path_fields
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.witness import file_beside
from mlf_sdk.sweep.identity import (
    board_identity,
    core_for,
    digest_of,
    digest_of_value,
)
from mlf_sdk.sweep.plan import BOARD, MODEL, Plan, PlannedModel
from mlf_sdk.targets.boards import DEFAULT_BOARD

FILES = path_fields(Request, files=True) | {"source"}
_UNTIMED = frozenset({"timeout_s", "build_timeout_s", "strict"})  # decide no result


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


def parts_of(plan: Plan, base: Request) -> dict[str, list[Part]]:
    """Parts of a plan by axis, those of the model and the board first."""
    models = [PlannedModel(source=source) for source in plan.axes.get(MODEL, [])]
    result = {MODEL: [part for model in (*plan.models, *models) for part in model_parts(model, plan, base)]}
    _check_labels(result[MODEL], MODEL)
    boards = plan.axes.get(BOARD) or [plan.options.get(BOARD) or base.board or DEFAULT_BOARD]
    option = plan.options | given_options(base)
    result[BOARD] = [board_part(str(board), option) for board in boards]
    for axis, values in plan.axes.items():
        if axis not in (MODEL, BOARD):
            result[axis] = [part_of(axis, value) for value in values]
            _check_labels(result[axis], axis)
    return result


def _check_labels(parts: Sequence[Part], axis: str) -> None:
    for label, count in Counter(part.label for part in parts).items():
        if count > 1:
            raise InputError(
                f"two values have the name '{label}'", where=f"axis {axis}", hint="Name one of them."
            )


def model_parts(model: PlannedModel, plan: Plan, base: Request) -> Iterator[Part]:
    """Parts of a model: one for each of its modules."""
    own = {
        name: value
        for name in ("module", "inputs", "expect", "output_names", "tensor_types", "more_sources")
        if (value := getattr(model, name))
    }
    table = dict(model.options)
    request = {name: value for name, value in own.items() if name in ("output_names", "tensor_types")}
    modules = [model.module] if model.module else modules_of(model.source, base.replace(**request))
    origin = "" if base.model_file or "model_file" in table else _origin_of(model.source, base)
    for module in modules:
        name = model.name or Path(model.source).name
        part = merged(
            part_of("source", (model.source,)),
            *(part_of(field, value) for field, value in own.items() if field != "module"),
            *(part_of(field, value) for field, value in table.items()),
            *([part_of("module", module)] if module else []),
            *([part_of("model_file", origin)] if origin else []),
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


def _origin_of(source: str, base: Request) -> str:
    """Path of the model file beside an archive, which travels with it; empty: there is none."""
    if find_frontend(Path(source)).compiles:
        return ""
    try:
        made_from = Pipeline().models(base.replace(source=(source,), module=None))[0].provenance.made_from
    except (ModuleChoiceError, ArchiveError):
        return ""
    path = file_beside(source, made_from)
    return str(path) if path is not None else ""


def board_part(board: str, options: Mapping[str, Any]) -> Part:
    """The part of a board."""
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


def part_of(axis: str, value: Any) -> Part:  # noqa: ANN401
    """The part of one option's value; an empty text is an option that is not given."""
    label = label_of(value)
    if value == "" or value is None:
        return Part(label=label)
    if axis in FILES:
        if isinstance(value, Mapping):  # arrays
            return Part(label=label, fields={axis: value}, identity=((axis, digest_of_value(value)),))
        paths = (value,) if isinstance(value, str) else value
        files = {str(path): digest_of(path) for path in paths}
        return Part(
            label=label, fields={axis: value}, files=files, identity=((axis, ",".join(files.values())),)
        )
    identity = () if axis in _UNTIMED else ((axis, text_of(value)),)
    return Part(label=label, fields={axis: value}, identity=identity)


def label_of(value: Any) -> str:  # noqa: ANN401
    """Text of a value in results."""
    if isinstance(value, str):
        return value or "default"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else text_of(value)


def text_of(value: Any) -> str:  # noqa: ANN401
    """Text of a value in a cell's name."""
    return msgspec.json.encode(value).decode() if not isinstance(value, Mapping) else digest_of_value(value)


def merged(*parts: Part) -> Part:
    """One part of several; a later one wins."""
    result = Part(label=", ".join(part.label for part in parts))
    for part in parts:
        result.fields.update(part.fields)
        result.files.update(part.files)
    return Part(
        label=result.label,
        fields=result.fields,
        files=result.files,
        identity=tuple(pair for part in parts for pair in part.identity),
        board=next((part.board for part in parts if part.board), ""),
    )


def given_options(base: Request) -> dict[str, Any]:
    """Options of a request that are not at their default, sources and board aside."""
    default = Request()
    names = [name for name in Request.__dataclass_fields__ if name not in ("source", "board", "module")]
    return {name: getattr(base, name) for name in names if getattr(base, name) != getattr(default, name)}
