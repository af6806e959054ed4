# SPDX-License-Identifier: Apache-2.0
"""Commands derived from declarations: the options of a request and of the command itself become click's.

A command states which stages it runs; every option that one of those stages reads is an option of the command
(`mlf_sdk.pipeline.request`). Help lists options by group.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mlf_sdk.cli import STOPPED
from mlf_sdk.errors import MlfError
from mlf_sdk.pipeline.config import Config, read_config
from mlf_sdk.pipeline.declare import Option, Options, Stage, flag_of, option_of
from mlf_sdk.pipeline.request import Request

if TYPE_CHECKING:
    from mlf_sdk.cli.output import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a command.

    Attributes:
        parts: the text, in order.
        values: the same as plain values, for ``--json``.
        exit_code: 0 good, 1 a check or comparison failed, and those of errors.
        error: why the work ended early; shown behind the text.
    """

    parts: Sequence[Any] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 0
    error: MlfError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the command line.

    Attributes:
        call: does the work; its docstring is the help.
        source: placeholder of the positional argument, such as ``MODEL|DIR``; empty: there is none.
        source_help: help of that argument.
        count: how many sources: ``one``, ``optional`` or ``many``.
        stages: stages that it runs.
        takes: single fields of the request beside those of the stages.
        omits: fields of its stages that make no sense here.
        own: dataclass of its own options.
        takes_project: it works on generated projects alone: options that decide a project are left out.
        defaults: defaults other than those of the request.
        required: fields that must be given.
        shows_output: the output of other programs is shown without ``--verbose``.
    """

    call: Callable[[Request, Any, Status], Outcome]
    source: str = ""
    source_help: str = ""
    count: str = "one"
    stages: frozenset[Stage] = frozenset()
    takes: tuple[str, ...] = ()
    omits: tuple[str, ...] = ()
    own: type[Options] = Options
    takes_project: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    shows_output: bool = False

    def fields(self) -> Iterable[dataclasses.Field[Any]]:
        """Fields of the request that are options of this command."""
        own = {one.name for one in dataclasses.fields(self.own)}
        own_flags = {flag for one in dataclasses.fields(self.own) for flag in _flags(one)}
        for one in dataclasses.fields(Request):
            declared = option_of(one)
            if one.name in self.omits or one.name in own or declared.hidden or own_flags & set(_flags(one)):
                continue
            by_stage = declared.stage in self.stages and not (self.takes_project and declared.fixed)
            if by_stage or one.name in self.takes:
                yield one


GENERATE_STAGES = frozenset({Stage.LOAD, Stage.PLAN, Stage.RENDER})
BUILD_STAGES = GENERATE_STAGES | {Stage.BUILD}
RUN_STAGES = BUILD_STAGES | {Stage.OPEN, Stage.EXECUTE, Stage.JUDGE}

_SHOWS_ALL = "mlf_sdk.help_all"  # key of a context that shows the help with all options
_LONG = 20  # options above which --help lists the frequent ones alone


def _flags(one: dataclasses.Field[Any]) -> tuple[str, ...]:
    declared = option_of(one)
    return (flag_of(one), *(flag for flag in declared.flags if flag != flag_of(one)))


def make_click_command(name: str, command: Command) -> click.Command:
    """Build click's command of a declaration."""
    params: list[click.Parameter] = []
    hints_of_request, hints_of_own = typing.get_type_hints(Request), typing.get_type_hints(command.own)
    if command.source:
        metavar = f"[{command.source}]" if command.count == "optional" else command.source
        params.append(_argument("source", metavar, command.source_help, command.count))
    for one in dataclasses.fields(command.own):
        params.append(_parameter(one, hints_of_own[one.name], one.default, is_own=True))
    for one in command.fields():
        default = command.defaults.get(one.name, one.default)
        required = one.name in command.required
        params.append(_parameter(one, hints_of_request[one.name], default, required=required))
    params += _common()
    if sum(isinstance(param, click.Option) for param in params) > _LONG:
        params.append(_help_all())

    def callback(**given: Any) -> int:  # noqa: ANN401
        try:
            return _invoke(command, given)
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")
            raise SystemExit(STOPPED) from None

    return GroupedCommand(
        name, params=params, callback=callback, help=inspect.cleandoc(command.call.__doc__ or "")
    )


def _invoke(command: Command, given: dict[str, Any]) -> int:
    from mlf_sdk.cli.output import show, status

    as_json, verbose = given.pop("json"), given.pop("verbose")
    given.pop("debug")
    own = command.own(**{one.name: given.pop(one.name) for one in dataclasses.fields(command.own)})
    sources = given.pop("source", ())
    paths = (sources,) if isinstance(sources, str) else tuple(sources or ())
    request = Request(source=paths, **_with_config(command, given))
    with status(as_json=as_json, verbose=verbose or command.shows_output) as progress:
        outcome = command.call(request, own, progress)
    if outcome.parts or outcome.values or as_json:
        show(list(outcome.parts), outcome.values, as_json=as_json)
    if outcome.error is not None and not as_json:
        raise outcome.error
    return outcome.exit_code


def _with_config(command: Command, given: dict[str, Any]) -> dict[str, Any]:
    """Values of the command line, with those of mlf.toml where the command line says nothing."""
    config: Config = read_config()
    context = click.get_current_context()
    unset = {
        one.name
        for one in command.fields()
        if context.get_parameter_source(one.name) is click.core.ParameterSource.DEFAULT
    }
    return {**given, **config.defaults_for(unset, board_given="board" not in unset)}


class GroupedCommand(click.Command):
    """A command whose help lists options by group, and arguments with their help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take arguments behind ``--`` for CMake, where the command passes some on to a build."""
        names = {param.name for param in self.params}
        if "cmake_args" in names and "extra" not in names and "--" in args:
            at = args.index("--")
            args = [*args[:at], *(f"--cmake-arg={arg}" for arg in args[at + 1 :])]
        return super().parse_args(ctx, args)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Leave arguments to `format_options`: older versions of click do not call this."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments, then options by group; of a command with many the frequent ones."""
        from mlf_sdk.cli.helptext import write_options

        params = self.get_params(ctx)
        shows_all = bool(ctx.meta.get(_SHOWS_ALL)) or not any(p.name == "help_all" for p in params)
        write_options(params, ctx, formatter, shows_all=shows_all)


class HelpedArgument(click.Argument):
    """A positional argument with a help text."""

    def __init__(self, *args: Any, help: str, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.help = help

    def help_text(self, ctx: click.Context) -> str:
        """Help, with a mark where the argument must be given."""
        return f"{self.help}  [required]" if self.required else str(self.help)


class GroupedOption(click.Option):
    """An option that belongs to a group of the help; ``is_own``: of this command alone."""

    def __init__(self, *args: Any, group: str, is_own: bool = False, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.group, self.is_own = group, is_own


def _argument(name: str, metavar: str, help_text: str, count: str) -> HelpedArgument:
    many = count == "many"
    return HelpedArgument(
        [name],
        metavar=metavar,
        nargs=-1 if many else 1,
        required=count != "optional",
        help=help_text,
        type=click.Path(),
    )


def _parameter(
    one: dataclasses.Field[Any],
    hint: Any,  # noqa: ANN401
    default: Any,  # noqa: ANN401
    *,
    required: bool = False,
    is_own: bool = False,
) -> click.Parameter:
    """The click parameter of a field."""
    declared = option_of(one)
    kind, repeats = _kind_of(hint)
    if declared.count:
        return HelpedArgument(
            [one.name],
            metavar=declared.metavar or one.name.upper(),
            nargs=-1 if declared.count == "many" else 1,
            required=declared.required,
            default=default,
            type=_type_of(declared, kind),
            help=declared.help,
        )
    flags = list(_flags(one))
    keywords: dict[str, Any] = {
        "help": declared.help,
        "group": declared.group,
        "is_own": is_own,
        "required": required or declared.required,
        "show_default": default not in (None, "", (), False, True) and not declared.required,
    }
    if not (repeats or keywords["required"]):
        keywords["default"] = default
    if kind is bool:
        if declared.negative:
            flags[0] = f"{flags[0]}/{declared.negative}"
        keywords |= {"is_flag": True, "show_default": False}
    else:
        keywords |= {
            "type": _type_of(declared, kind),
            "metavar": None if declared.choices else declared.metavar or None,
            "multiple": repeats,
            "shell_complete": _completer(declared),
        }
    if repeats:
        keywords["callback"] = _split_commas if declared.metavar.endswith("S") else _as_tuple
    return GroupedOption([one.name, *flags], **keywords)


def _type_of(declared: Option, kind: type[Any]) -> Any:  # noqa: ANN401
    if declared.choices:
        return click.Choice(declared.choices)
    return click.Path(exists=True) if declared.exists else kind


def _kind_of(hint: Any) -> tuple[type[Any], bool]:  # noqa: ANN401
    """Type of an option's values, and whether it may be given several times."""
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for part in parts:
        if typing.get_origin(part) is tuple:
            return str, True
        if part in (bool, int, float, str):
            return part, False
    return str, False


def _as_tuple(_context: click.Context, _param: click.Parameter, value: Any) -> tuple[str, ...]:  # noqa: ANN401
    return tuple(value or ())


def _split_commas(
    _context: click.Context,
    _param: click.Parameter,
    value: Any,  # noqa: ANN401
) -> tuple[str, ...]:
    return tuple(name.strip() for text in value or () for name in text.split(",") if name.strip())


def _completer(declared: Option) -> Callable[..., list[CompletionItem]] | None:
    if not declared.complete:
        return None

    def complete(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from mlf_sdk.cli.complete import names_for

        try:
            names = names_for(declared.complete)
        except (MlfError, OSError):
            return []
        return [CompletionItem(name, help=text) for name, text in names if name.startswith(incomplete)]

    return complete


def _common() -> list[click.Parameter]:
    """Options of every command."""
    return [
        _flag("--verbose", "Show the output of builds and other programs.", "-v"),
        _flag("--json", "Print the result as JSON, and nothing else, on standard output.", is_eager=True),
        _flag("--debug", "Show the traceback of an error.", is_eager=True),
    ]


def _flag(spelling: str, text: str, *more: str, **keywords: Any) -> GroupedOption:  # noqa: ANN401
    return GroupedOption([spelling, *more], is_flag=True, group="Output", help=text, **keywords)


def _help_all() -> GroupedOption:
    """``--help-all`` of a command with many options."""
    text = "Show all options of this command and exit."
    return _flag("--help-all", text, is_own=True, is_eager=True, expose_value=False, callback=_show_all)


def _show_all(context: click.Context, _param: click.Parameter, value: Any) -> None:  # noqa: ANN401
    if value and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()
