# SPDX-License-Identifier: Apache-2.0
"""``mlf-sdk``: arguments to one call, print, exit code.

Exit codes: 0 good; 1 the work was done and a check or comparison failed; 2 bad arguments or bad input;
3 a tool is missing or failed; 4 the target did not answer, or faulted.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import click
from click.shell_completion import get_completion_class

from mlf_sdk.cli import STOPPED
from mlf_sdk.errors import InputError, MlfError, ToolError
from mlf_sdk.version import __version__

_NAME = "mlf-sdk"
_COMPLETE = "_MLF_SDK_COMPLETE"
_NO_COMMAND = re.compile(r"No such command '([^']*)'")
_NO_CHOICE = re.compile(r"Invalid value for .*: '([^']*)' is not one of ")

# Name, module and summary of each command, in the order of work; modules are imported when asked for.
_COMMANDS = (
    ("compile", "archives", "Compile a .tflite, .onnx or .pt2 model to an archive with kernels made for it."),
    ("quantize", "archives", "Quantise a float ONNX model to int8, and show what it saves and loses."),
    ("convert", "archives", "Write a compiled model of any format as an archive or as a bundle."),
    ("inspect", "archives", "Show what an archive holds, or what a firmware was made from."),
    ("doctor", "archives", "Show which tools are missing, or what is unusual in an archive."),
    ("boards", "boards", "List the known boards, or write the file of a new one from its chip."),
    ("chips", "chips", "Show the microcontrollers that a model fits, with milliseconds of an inference."),
    ("generate", "projects", "Generate a C project, or renew one; your edits are never lost."),
    ("export", "exports", "Write a model as plain C for a build system or IDE: CMake, Zephyr, Arduino, ..."),
    ("build", "projects", "Build a generated project with CMake and Ninja, or with west."),
    ("check", "projects", "Compare a built image with plan, budget, baseline."),
    ("run", "runs", "Build, boot and run a model, compare its outputs, check its memory."),
    ("report", "runs", "Show memory, time and verdicts as one HTML page."),
    ("test", "runs", "Run many cases: outputs within tolerance, or an accuracy."),
    ("proof", "runs", "Prove many models on many boards."),
    ("bench", "benches", "Run a benchmark of the field on a board."),
    ("sweep", "sweeps", "Run a matrix of models, boards and options, and show which choice to make."),
    ("flash", "devices", "Flash a built project and prove it by the device."),
    ("debug", "debugger", "Step through a built project in GDB, on QEMU or a probe: at main or in a layer."),
    ("profile", "runs", "Show what each step costs."),
    ("compare", "runs", "Find the first step in which targets differ."),
    ("ports", "devices", "List serial ports and the boards they may be."),
    ("verify", "devices", "Ask a board whether it runs this very image."),
    ("monitor", "devices", "Show what a board prints, until Ctrl-C."),
    ("triage", "devices", "Explain a fault line: location, call path, probable cause."),
    ("sbom", "projects", "Write what a project is made of, as SPDX."),
    ("cache", "archives", "Show or remove what is kept between runs."),
    ("completion", "", "Print the script that completes commands in a shell."),
    ("params", "devices", "Replace a model's parameters on a target."),
    ("package", "packages", "Sign a model's parameters, and update devices that take nothing else."),
)
_SWEEP = (
    ("run", "Run the cells of a plan that are not finished (the word may be left out)."),
    ("status", "Show how far a sweep is."),
    ("show", "Show one cell: options, figures, attempts, log."),
    ("retry", "Plan cells again that were set aside, cancelled, lost or failed."),
    ("cancel", "Take cells out of a sweep."),
    ("merge", "Merge the journals of a plan's shards."),
    ("diff", "Compare two sweeps; exit code 1 on a regression."),
    ("worker", "Run cells for a scheduler."),
    ("push", "Send a signed package to many devices, and ask each what is in force."),
)
_BENCH = (("mlperf", "Run the procedure of MLPerf Tiny, by its official runner or by a client of our own."),)
_PARAMS = (
    ("push", "Replace the parameters: the old ones stay in force until the new ones are whole."),
    ("show", "Show which parameters are in force."),
)


_PACKAGE = (
    ("make", "Sign the parameters of a model, with self-test cases (the word may be left out)."),
    ("verify", "Check the hashes of a package, and who signed it."),
    ("push", "Send a package: the device verifies it, tries it, and only then changes over."),
    ("keys", "Make a key pair; add it to a list of trusted keys, and drop others."),
)


class _Commands(click.Group):
    """All commands; each is made when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of work."""
        return [name for name, _, _ in _COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make one command; None: there is none of that name."""
        if cmd_name in _GROUPS:
            return _GROUPS[cmd_name]
        if cmd_name == "completion":
            return completion
        module = next((module for name, module, _ in _COMMANDS if name == cmd_name), None)
        return None if module is None else _command(module, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names with their summaries, without making the commands."""
        rows = [(name, summary) for name, _, summary in _COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _Group(click.Group):
    """Commands about one thing, such as parameters; without a command its help is shown.

    Args:
        module: of the commands.
        rows: name and summary of each, in the order of work.
    """

    def __init__(self, name: str, module: str, rows: Sequence[tuple[str, str]], *, help: str) -> None:
        super().__init__(name, invoke_without_command=True, callback=_help_alone, help=help)
        self.module, self.rows = module, rows

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of work."""
        return [name for name, _ in self.rows]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make one command; None: there is none of that name."""
        return _command(self.module, f"{self.name} {cmd_name}") if cmd_name in dict(self.rows) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.rows))


class _FirstGroup(_Group):
    """Commands about one thing; an argument or an option in place of a command's name is for the first."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the name of the first command where it was left out."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and args[0] not in ctx.help_option_names:
            args = [names[0], *args]
        return super().parse_args(ctx, args)


@cache
def _command(module: str, name: str) -> click.Command:
    from mlf_sdk.cli.command import make_click_command

    commands = import_module(f"mlf_sdk.cli.{module}").COMMANDS
    return make_click_command(name.rpartition(" ")[2], commands[name])


@click.group(
    cls=_Commands,
    name=_NAME,
    help="From a model (.tflite, ONNX, PyTorch, archives of TVM) to firmware that is proven on its target.",
    epilog="Start with: mlf-sdk run MODEL --board mps2-an386",
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--version", is_flag=True, help="Show the version.")
@click.pass_context
def app(context: click.Context, debug: bool, version: bool) -> None:
    """Handle options that come before the command."""
    if version:
        sys.stdout.write(f"{_NAME} {__version__}\n")
        context.exit(0)
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        context.exit(InputError.exit_code)


@click.pass_context
def _help_alone(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


_GROUPS = {
    "params": _Group("params", "devices", _PARAMS, help="Replace a model's parameters on a target."),
    "bench": _Group("bench", "benches", _BENCH, help="Run a benchmark of the field on a board."),
    "package": _FirstGroup(
        "package",
        "packages",
        _PACKAGE,
        help="Sign a model's parameters: mlf-sdk package MODEL --project DIR --key KEY -o M.mlfp.",
    ),
    "sweep": _FirstGroup(
        "sweep",
        "sweeps",
        _SWEEP,
        help="Run a matrix of models, boards and options: mlf-sdk sweep PLAN.toml -o FOLDER.",
    ),
}


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    Example: mlf-sdk completion bash >> ~/.bashrc
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise ToolError(f"no completion for {shell}")
    sys.stdout.write(completion(app, {}, _NAME, _COMPLETE).source() + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is printed as one block."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    try:
        code: Any = app(args=arguments, prog_name=_NAME, standalone_mode=False, complete_var=_COMPLETE)
    except SystemExit as stop:  # shell completion
        return stop.code if isinstance(stop.code, int) else 0
    except (KeyboardInterrupt, click.Abort):
        return _stopped()
    except Exception as error:
        return _failed(_as_ours(error), as_json="--json" in own, debug="--debug" in own)
    return code if isinstance(code, int) else 0


def _as_ours(error: Exception) -> MlfError:
    """Whatever went wrong as one of our errors."""
    if isinstance(error, MlfError):
        return error
    if isinstance(error, click.ClickException):
        return _arguments_error(error)
    if isinstance(error, OSError):
        from mlf_sdk.tools.files import write_error

        return write_error(error, "a file can't be used", where=str(error.filename or ""), hint="")
    return ToolError(
        f"mlf-sdk itself failed: {type(error).__name__}: {error}",
        hint="This is a defect. Run it again with --debug to see where, and report it.",
    )


def _failed(error: MlfError, *, as_json: bool, debug: bool) -> int:
    from mlf_sdk.cli.output import show_error

    if debug:
        traceback.print_exc()
    show_error(error, as_json=as_json)
    return error.exit_code


def _stopped() -> int:
    sys.stderr.write("stopped\n")
    return STOPPED


def _arguments_error(error: click.ClickException) -> InputError:
    """Bad arguments as one of our errors."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else _NAME
    said = error.format_message().rstrip(".")
    hint = f"See: {command} --help"
    unknown = _NO_COMMAND.match(said)
    if unknown and isinstance(error, click.UsageError) and isinstance(context, click.Context):
        group = context.command
        known = group.list_commands(context) if isinstance(group, click.Group) else []
        said, hint = unknown[0], _suggested(unknown[1], known) + hint
    choices = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    wrong = _NO_CHOICE.match(said)
    if wrong and isinstance(choices, click.Choice):
        hint = _suggested(wrong[1], [str(choice) for choice in choices.choices]) + hint
    return InputError(said[:1].lower() + said[1:], where=command, hint=hint)


def _suggested(name: str, known: Sequence[str]) -> str:
    """Question with the names that are nearly ``name``; empty: there are none."""
    from difflib import get_close_matches

    close = " or ".join(get_close_matches(name, known, n=2, cutoff=0.6))
    return f"Did you mean {close}? " if close else ""
