# SPDX-License-Identifier: Apache-2.0
"""Command about debuggers: debug."""

from __future__ import annotations

import sys
import time

from mlf_sdk.cli.command import Command, Outcome
from mlf_sdk.pipeline.options import DebugOptions
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request


def debug(request: Request, own: DebugOptions, progress: Progress) -> Outcome:
    """Start a debug server and GDB on a built project, stopped at main or in a layer.

    On an emulated board an inference runs, over and over, so that every layer is reached. On a board the
    image is written first (--no-load: it is there), and an inference is yours to start: mlf-sdk run DIR
    --port PORT in another terminal.

    Example: mlf-sdk debug app

    Example: mlf-sdk debug app --break layer:3

    Example: mlf-sdk debug app --on openocd --break main
    """
    from mlf_sdk.pipeline.debug import open_debugger
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.tools.process import run_interactive

    with open_debugger(request, own, Pipeline(progress), _say) as session:
        if not session.argv:
            _say(f"{session.server}: GDB connects to localhost:{session.port}; Ctrl-C ends it\n")
            while not session.argv:
                time.sleep(3600)
        code = run_interactive(session.argv, cwd=session.folder)
    return Outcome(exit_code=code)


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


COMMANDS = {
    "debug": Command(
        call=debug,
        source="DIR",
        source_help="Folder of a built project.",
        takes=("module", "inputs"),
        own=DebugOptions,
    ),
}
