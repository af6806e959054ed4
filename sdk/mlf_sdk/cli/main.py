# SPDX-License-Identifier: Apache-2.0
"""``mlf-sdk``: arguments to one call, print, exit code.

Exit codes: 0 good; 1 the work was done and a check or comparison failed; 2 bad arguments or bad input;
3 a tool is missing or failed; 4 the target did not answer, or faulted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from mlf_sdk.cli import commands, state
from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import message_console, show_error
from mlf_sdk.errors import InputError, MlfError, ToolError
from mlf_sdk.version import __version__

_STOPPED = 130  # by Ctrl-C, as shells count it

# What is raised for bad arguments; its place differs between versions of typer.
_ArgumentsError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)

app = typer.Typer(
    name="mlf-sdk",
    help="From a compiled model archive (TVM Model Library Format) to firmware that is proven on its target.",
    epilog="Start with: mlf-sdk run ARCHIVE --board mps2-an386",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"mlf-sdk {__version__}\n")
        raise typer.Exit


@app.callback()
def _global(
    debug: opt.Debug = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options that come before the command."""


commands.register(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: every error becomes one block and a code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    state.reset()
    try:
        code = _run(arguments or ["--help"])
    except SystemExit as stop:  # shell completion
        return stop.code if isinstance(stop.code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _stopped()
    except Exception as error:
        return _failed(_as_ours(error, arguments))
    return code if arguments else InputError.exit_code


def _run(arguments: list[str]) -> int:
    code: Any = app(args=arguments, prog_name="mlf-sdk", standalone_mode=False)
    return _stopped() if code == _STOPPED else code if isinstance(code, int) else 0


def _as_ours(error: Exception, arguments: list[str]) -> MlfError:
    """Whatever went wrong as one of our errors."""
    if isinstance(error, MlfError):
        return error
    if isinstance(error, _ArgumentsError):
        state.as_json = state.as_json or "--json" in arguments
        return _arguments_error(error)
    if isinstance(error, OSError):
        return InputError(f"a file can't be used: {error.strerror or error}", where=str(error.filename or ""))
    return ToolError(
        f"mlf-sdk itself failed: {type(error).__name__}: {error}",
        hint="This is a defect. Run it again with --debug to see where, and report it.",
    )


def _failed(error: MlfError) -> int:
    if state.debug:
        traceback.print_exc()
    show_error(error, as_json=state.as_json)
    return error.exit_code


def _stopped() -> int:
    message_console().print("stopped")
    return _STOPPED


def _arguments_error(error: Any) -> InputError:  # noqa: ANN401 (see _ArgumentsError)
    """Bad arguments as one of our errors."""
    said = error.format_message().rstrip(".").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mlf-sdk"
    return InputError(said[:1].lower() + said[1:], where=command, hint=f"See: {command} --help")


def run_console_script() -> None:
    """Entry point of the installed command."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names are Unicode
    sys.exit(main())


if __name__ == "__main__":
    run_console_script()
