# SPDX-License-Identifier: Apache-2.0
"""Plans of sweeps: axes of options, rows to include and exclude, gates; read from TOML or made of options."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.config import below, typed_value
from mlf_sdk.pipeline.declare import option_of, path_fields
from mlf_sdk.pipeline.request import Request
from mlf_sdk.sweep.figures import FIGURES
from mlf_sdk.tools.checks import name_hint
from mlf_sdk.tools.rowfile import described

MODEL, BOARD = "model", "board"
_NOT_AXES = frozenset({"source", "strict"})
_PATHS = path_fields(Request) | {MODEL}


class PlannedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of a plan, with what belongs to it.

    Attributes:
        source: archive, model file or bundle; relative to the plan's file.
        name: label in results; default: the file's name.
        inputs, expect: npz files.
        options: options that hold for this model alone.
    """

    source: str
    name: str = ""
    module: str | None = None
    inputs: str | None = None
    expect: str | None = None
    output_names: tuple[str, ...] = ()
    tensor_types: tuple[str, ...] = ()
    more_sources: tuple[str, ...] = ()
    options: dict[str, Any] = {}


class GateLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one figure, in its unit; None: there is none."""

    min: float | None = None
    max: float | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sweep before it is expanded.

    Attributes:
        name: title of results.
        models: those of the axis ``model`` that need more than a path.
        axes: values by axis; each cell takes one of each.
        options: hold for all cells.
        include: cells beside the product: an axis that a row does not state has its first value.
        exclude: cells to leave out: a row matches where all that it states does.
        gates: limits by figure.
    """

    name: str = "sweep"
    models: tuple[PlannedModel, ...] = ()
    axes: dict[str, list[Any]] = {}
    options: dict[str, Any] = {}
    include: tuple[dict[str, Any], ...] = ()
    exclude: tuple[dict[str, Any], ...] = ()
    gates: dict[str, GateLimits] = {}


def read_plan(path: str | Path) -> Plan:
    """Read a plan; paths in it are relative to its file.

    Raises:
        InputError: it can't be read, or states what no plan may; the place is named.
    """
    file = Path(path)
    try:
        plan = msgspec.toml.decode(file.read_bytes(), type=described(Plan))
    except (OSError, ValueError) as error:
        raise InputError(
            f"can't read the plan: {error}", where=str(path), hint="See: docs/howto-sweep.md."
        ) from error
    return checked_plan(_below(plan, file.parent), str(path))


def make_plan(
    archives: Sequence[str], boards: Sequence[str], settings: Sequence[str], name: str = "sweep"
) -> Plan:
    """Make a plan of options.

    Args:
        archives: models of the axis ``model``.
        boards: of the axis ``board``.
        settings: further axes, such as ``cflags=-O2,-Os``.

    Raises:
        InputError: no archive, or a setting that is no ``NAME=VALUE,...``.
    """
    if not archives:
        raise InputError(
            "neither a plan nor an archive was given", where="sweep", hint="mlf-sdk sweep PLAN.toml -o FOLDER"
        )
    axes: dict[str, list[Any]] = {MODEL: list(archives)}
    if boards:
        axes[BOARD] = list(boards)
    for setting in settings:
        axis, equals, values = setting.partition("=")
        if not (axis and equals and values):
            raise InputError(
                f"no NAME=VALUE,VALUE: {setting!r}", where="--set", hint="Such as --set cflags=-O2,-Os."
            )
        axes[axis] = values.split(",")
    return checked_plan(Plan(name=name, axes=axes), "--set")


def checked_plan(plan: Plan, where: str) -> Plan:
    """Give every value its type, and refuse unknown names.

    Raises:
        InputError: what is wrong, and in which table.
    """
    axes = {}
    for axis, values in plan.axes.items():
        if not values:
            raise InputError("an axis has no values", where=f"{where}: axes.{axis}")
        place = f"{where}: axes.{axis}"
        # An empty text stands for an option that is not given.
        axes[field_of(axis, place)] = [
            value if value == "" else _typed(axis, value, place) for value in values
        ]
    if not axes.get(MODEL) and not plan.models:
        raise InputError("the plan has no model", where=where, hint='Add: axes.model = ["model.tar"].')
    for gate in plan.gates:
        if gate not in FIGURES:
            raise _unknown(gate, FIGURES, f"{where}: gates", "figure")
    known = set(axes) | ({MODEL} if plan.models else set())
    options = _typed_table(plan.options, f"{where}: options")
    models = tuple(
        msgspec.structs.replace(one, options=_typed_table(one.options, f"{where}: models"))
        for one in plan.models
    )
    rows = [
        tuple(_row(row, known, f"{where}: {table}") for row in result)
        for table, result in (("include", plan.include), ("exclude", plan.exclude))
    ]
    return msgspec.structs.replace(
        plan, axes=axes, options=options, models=models, include=rows[0], exclude=rows[1]
    )


def field_of(axis: str, where: str) -> str:
    """Name of the field of an axis: an option of a request, or ``model``.

    Raises:
        InputError: there is no such option.
    """
    name = axis.replace("-", "_")
    fields = _fields()
    for result in (name, f"{name}_s"):
        if result == MODEL or result in fields:
            return result
    raise _unknown(axis, [MODEL, *sorted(fields)], where, "option")


@cache
def _fields() -> frozenset[str]:
    return frozenset(one.name for one in dataclasses.fields(Request) if not option_of(one).hidden) - _NOT_AXES


@cache
def _hints() -> Mapping[str, Any]:
    return typing.get_type_hints(Request)


def _typed_table(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {field_of(name, where): _typed(name, value, f"{where}.{name}") for name, value in table.items()}


def _row(row: Mapping[str, Any], known: Iterable[str], where: str) -> dict[str, Any]:
    result = {field_of(name, where): value for name, value in row.items()}
    for name in result:
        if name not in known:
            raise _unknown(name, known, where, "axis")
    return result


def _typed(axis: str, value: Any, where: str) -> Any:  # noqa: ANN401
    """The value as its field's type; texts of a command line are converted."""
    name = field_of(axis, where)
    hints = _hints()
    if name == MODEL:
        if not isinstance(value, str):
            raise InputError(f"invalid value {value!r}", where=where, hint="It must be a path.")
        return value
    if isinstance(value, str) and str not in (hints[name], *typing.get_args(hints[name])):
        value = _parsed(value)
    result = typed_value(value, hints[name], where)
    Request(**{name: result})  # says what is wrong with a value
    return result


def _parsed(text: str) -> Any:  # noqa: ANN401
    """Value of a text of the command line: a number, a truth value, or the text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _below(plan: Plan, folder: Path) -> Plan:
    """The plan with paths relative to ``folder`` made absolute."""

    folder = folder.resolve()

    def path(value: str | None) -> str | None:
        return None if value is None else str(below(folder, value))

    def table(result: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: below(folder, value) if name.replace("-", "_") in _PATHS else value
            for name, value in result.items()
        }

    models = tuple(
        msgspec.structs.replace(
            one,
            source=path(one.source),
            inputs=path(one.inputs),
            expect=path(one.expect),
            more_sources=tuple(str(path(file)) for file in one.more_sources),
            options=table(one.options),
        )
        for one in plan.models
    )
    rows = [tuple(dict(row) for row in rows) for rows in (plan.include, plan.exclude)]
    return msgspec.structs.replace(
        plan,
        models=models,
        axes=table(plan.axes),
        options=table(plan.options),
        include=rows[0],
        exclude=rows[1],
    )


def _unknown(name: str, known: Iterable[str], where: str, what: str) -> InputError:
    return InputError(f"unknown {what} '{name}'", where=where, hint=name_hint(name, known))
