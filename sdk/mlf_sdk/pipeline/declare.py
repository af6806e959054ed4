# SPDX-License-Identifier: Apache-2.0
"""Declarations of options: fields of dataclasses that carry their help, group and stage."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlf_sdk.errors import InputError
from mlf_sdk.tools.checks import name_hint

_OPTION = "option"
COMPILER = "Compiler"
GROUPS = (
    "Target",
    COMPILER,
    "Build",
    "Inputs",
    "Budgets and baselines",
    "Flash",
    "Serial",
    "Zephyr",
    "Output",
)


class Stage(enum.IntEnum):
    """Stages of the pipeline, in order; each reads the request and the result of the one before it."""

    LOAD = 1  # file -> Model
    PLAN = 2  # Model -> ProjectPlan
    RENDER = 3  # ProjectPlan -> folder of a project
    BUILD = 4  # folder -> linked image
    FLASH = 5  # linked image -> board that runs it
    OPEN = 6  # linked image or board -> session
    EXECUTE = 7  # session -> outputs and measured figures
    JUDGE = 8  # outputs and figures against what was promised


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Declaration of one option.

    Attributes:
        help: one sentence or two for people.
        group: heading under which the help lists it.
        stage: the stage that reads it; None: it belongs to a single command.
        flags: more spellings than ``--name-of-the-field``, such as ``-b``.
        metavar: placeholder of the value in the help.
        choices: the values allowed; empty: any.
        complete: the kind of names that the shell completes: ``board``, ``runner``, ``port`` or ``target``.
        check: raises InputError for an invalid value.
        fixed: decided when a project is generated: refused for an existing project.
        hidden: not an option of the command line.
        negative: spelling that switches a boolean option off; empty: there is none.
        required: it has no default.
        exists: a path that must exist.
        is_path: a path, or NAME=PATH: one in a file of options is relative to that file.
        count: how many values are positional arguments: ``one``, ``optional`` or ``many``; empty: an option.
    """

    help: str
    group: str = "Output"
    stage: Stage | None = None
    flags: tuple[str, ...] = ()
    metavar: str = ""
    choices: tuple[str, ...] = ()
    complete: str = ""
    check: Callable[[Any, str], None] | None = None
    fixed: bool = False
    hidden: bool = False
    negative: str = ""
    required: bool = False
    exists: bool = False
    is_path: bool = False
    count: str = ""


def option(default: Any, help: str, **declared: Any) -> Any:  # noqa: ANN401
    """Declare a field of a request; ``declared`` are attributes of `Option`."""
    return dataclasses.field(default=default, metadata={_OPTION: Option(help=help, **declared)})


def stated(flag: str, metavar: str, help: str, *, exists: bool = False) -> Any:  # noqa: ANN401
    """Declare a field with what the user states about a file, or adds to it (``exists``: from a path)."""
    declared = {"group": "Target", "stage": Stage.LOAD, "flags": (flag,), "metavar": metavar}
    return option((), f"{help} May repeat.", **declared, fixed=True, exists=exists, is_path=exists)


def option_of(field: dataclasses.Field[Any]) -> Option:
    """Declaration of a field that `option` made."""
    result: Option = field.metadata[_OPTION]
    return result


def path_fields(of: type, *, files: bool = False) -> frozenset[str]:
    """Names of a dataclass's options that are paths; ``files``: without folders that are only pointed to.

    ``NAME=PATH`` is a path, and no file: its value is more than that.
    """
    declared = {one.name: option_of(one) for one in dataclasses.fields(of) if _OPTION in one.metadata}
    return frozenset(
        name
        for name, one in declared.items()
        if one.is_path and not (files and (one.metavar == "DIR" or "=" in one.metavar))
    )


def flag_of(field: dataclasses.Field[Any]) -> str:
    """Spelling of a field on the command line, such as ``--board-file``."""
    declared = option_of(field)
    long = [flag for flag in declared.flags if flag.startswith("--")]
    return long[0] if long else "--" + field.name.removesuffix("_s").replace("_", "-")


def positive(value: float | None, flag: str, most: float = 1e6) -> None:
    """Check that a number is above zero, and at most ``most``; None is allowed."""
    if value is not None and not 0 < value <= most:
        raise InputError(f"invalid value {value:g}", where=flag, hint=f"It must be > 0 and at most {most:g}.")


def not_negative(value: float | None, flag: str) -> None:
    """Check that a number is not below zero; None is allowed."""
    if value is not None and not (value >= 0 and math.isfinite(value)):
        raise InputError(f"invalid value {value:g}", where=flag, hint="It must be a finite number >= 0.")


def zephyr_definitions(values: tuple[str, ...], flag: str) -> None:
    """Check arguments of CMake: ``-DNAME=VALUE`` or ``-UNAME``."""
    for value in values:
        if not (re.fullmatch(r"-D[^=\s]+=.*|-U[^=\s]+", value) and value.isprintable()):
            raise InputError(
                f"no argument -DNAME=VALUE or -UNAME: {value!r}",
                where=flag,
                hint="Such as -DSHIELD=x_nucleo.",
            )


def c_identifier(value: str | None, flag: str) -> None:
    """Check a name that stands at the start of names in C; None is allowed."""
    from mlf_sdk.ir.names import model_c_name  # few requests state a name

    if value is not None and model_c_name(value) != value:
        raise InputError(
            f"invalid value {value!r}",
            where=flag,
            hint=f"Give a name of C, such as {model_c_name(value)}.",
        )


def between(least: float, most: float) -> Callable[[float | None, str], None]:
    """Make the check that a number is from ``least`` to ``most``; None is allowed."""

    def check(value: float | None, flag: str) -> None:
        if value is not None and not least <= value <= most:
            hint = f"It must be from {least:,} to {most:,}."
            raise InputError(f"invalid value {value:g}", where=flag, hint=hint)

    return check


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Fields that `option` declares; their values are checked when an instance is made.

    Raises:
        InputError: a value that its declaration does not allow.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            declared, value, flag = option_of(field), getattr(self, field.name), flag_of(field)
            if declared.choices and value is not None and value not in declared.choices:
                raise InputError(
                    f"invalid value {value!r}",
                    where=flag,
                    hint=f"It must be one of: {', '.join(declared.choices)}.",
                )
            if declared.check is not None:
                declared.check(value, flag)


def defaults_after(stage: Stage, of: type[Any]) -> dict[str, Any]:
    """Defaults of the options of ``of`` that only stages after ``stage`` read."""
    later = [f for f in dataclasses.fields(of) if (option_of(f).stage or Stage.LOAD) > stage]
    return {field.name: field.default for field in later}


def check_names(given: Mapping[str, Any], of: type[Any], what: str) -> None:
    """Refuse names that are not fields of ``of``.

    Raises:
        InputError: with the names that are close.
    """
    known = [field.name for field in dataclasses.fields(of)]
    for name in given:
        if name not in known:
            raise InputError(f"unknown {what} '{name}'", where=what, hint=name_hint(name, known))
