# SPDX-License-Identifier: Apache-2.0
"""``mlf-sdk``: arguments to one call, print, exit code.

Exit codes: 0 good; 1 the work was done and a check or comparison failed; 2 bad arguments or bad input;
3 a tool is missing or failed; 4 the target did not answer, or faulted.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from mlf_sdk.cli import commands, state
from mlf_sdk.cli.output import message_console, show_error
from mlf_sdk.errors import MlfError
from mlf_sdk.version import __version__

app = typer.Typer(
    name="mlf-sdk",
    help="From a compiled model archive (TVM Model Library Format) to firmware that is proven on its target.",
    epilog="Start with: mlf-sdk run ARCHIVE --board mps2-an386",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"mlf-sdk {__version__}\n")
        raise typer.Exit


@app.callback()
def _global(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    state.debug = debug


commands.register(app)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code: every error becomes one block and a code."""
    state.reset()
    try:
        app(args=argv, prog_name="mlf-sdk")
    except MlfError as error:
        if state.debug:
            traceback.print_exc()
        show_error(error, as_json=state.as_json)
        return error.exit_code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        message_console().print("stopped")
        return 130
    return 0


def run_console_script() -> None:
    """Entry point of the installed command."""
    sys.exit(main())


if __name__ == "__main__":
    run_console_script()
