# SPDX-License-Identifier: Apache-2.0
"""Entry point of the installed command. Imports nothing that takes time: Ctrl-C is heard at once."""

from __future__ import annotations

import os
import sys

from mlf_sdk.cli import STOPPED


def run_console_script() -> None:
    """Run the command line and exit with its code."""
    try:
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by the caller
                setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
            getattr(sys, name).reconfigure(errors="backslashreplace")  # names are Unicode
        from mlf_sdk.cli.main import main

        code = main()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        code = STOPPED
    sys.exit(code)
