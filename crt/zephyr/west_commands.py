# SPDX-License-Identifier: Apache-2.0
"""``west mlf``: the command line of mlf-sdk, with what the west workspace knows already."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from west.commands import WestCommand

_LOCK = "mlf-project.json"
_TO_DO = {
    "generate": "generate a Zephyr application, or with --library a module, from a model archive",
    "build": "build it",
    "run": "build and run an archive or a project on an emulated board, and compare",
    "check": "compare a built image with what was planned",
    "flash": "flash it; the board must then answer with its models",
    "test": "run the cases of an npz file on a project, with a JUnit report",
    "doctor": "show which tools and trees are here",
    "inspect": "show what an archive holds",
}


class Mlf(WestCommand):
    """Passes its arguments on to mlf-sdk."""

    def __init__(self):
        super().__init__(
            "mlf",
            "neural networks from compiled model archives",
            "\n".join(
                [
                    "Commands:",
                    *(f"  {name:9} {text}" for name, text in _TO_DO.items()),
                    "and every other command of mlf-sdk: west mlf COMMAND --help",
                ]
            ),
            accepts_unknown_args=True,
        )

    def do_add_parser(self, parser_adder):
        parser = parser_adder.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            usage="west mlf COMMAND ...  (west mlf COMMAND --help: its options)",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            prefix_chars="\0",  # every option is mlf-sdk's
        )
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND ...")
        return parser

    def do_run(self, args, unknown):
        words = [*args.words, *unknown]
        if not words or words[0] in ("-h", "--help"):
            sys.stdout.write(f"usage: west mlf COMMAND ...\n\n{self.description}\n")
            return
        code = _start(_completed(words, self._default_board()), self)
        if code != 0:
            sys.exit(code)

    def _default_board(self):
        """The board of the workspace: ``west config build.board``."""
        config = getattr(self, "config", None)
        return config.get("build.board") if config is not None else None


def _completed(words, board):
    """The words of mlf-sdk: a new project is one for Zephyr, on the board of the workspace."""
    command, rest = words[0], words[1:]
    if command == "generate":
        fresh = "--library" not in rest
    else:
        fresh = command == "run" and not any((Path(word) / _LOCK).is_file() for word in rest)
    if not fresh or _has(rest, "--help"):
        return words
    more = [] if _has(rest, "--platform") else ["--platform", "zephyr"]
    if board and not _has(rest, "--board", "-b"):
        more += ["--board", board]
    return [command, *more, *rest]


def _has(words, *options):
    return any(word == option or word.startswith(f"{option}=") for word in words for option in options)


def _start(words, command):
    """Run mlf-sdk: in this process where its package is, else the program of that name."""
    try:
        from mlf_sdk.cli.main import main
    except ImportError:
        program = shutil.which("mlf-sdk")
        if program is None:
            command.die("mlf-sdk is not installed: pip install mlf-sdk")
        return subprocess.run([program, *words], env=os.environ, check=False).returncode
    return main(words)
