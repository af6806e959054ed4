# SPDX-License-Identifier: Apache-2.0
"""Help of commands: arguments, options by group; of a command with many, those that most people need.

``--help`` of a command that has ``--help-all`` lists its own options and those of `FREQUENT`; ``--help-all``
lists all of them, as the reference page does. Imported when a help is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from mlf_sdk.pipeline.declare import GROUPS

FREQUENT = frozenset(
    {"app", "board", "board_file", "chip", "expect", "goal", "inputs", "json", "platform", "port"}
)
"""Options of requests, and of every command, that most people need."""


def write_options(
    params: Sequence[click.Parameter],
    ctx: click.Context,
    formatter: click.HelpFormatter,
    *,
    shows_all: bool,
) -> None:
    """Write arguments, then options by group, then how many are left out.

    Args:
        params: of the command, those of the help included. An argument may have a method ``help_text(ctx)``;
            an option may have ``group``, and ``is_own``: it is of this command alone.
        ctx: of the command.
        formatter: takes the text.
        shows_all: leave no option out.
    """
    arguments = [p for p in params if isinstance(p, click.Argument) and hasattr(p, "help_text")]
    if arguments:
        with formatter.section("Arguments"):
            formatter.write_dl([(p.make_metavar(ctx) or "", p.help_text(ctx)) for p in arguments])
    options = [p for p in params if isinstance(p, click.Option) and p.get_help_record(ctx)]
    if not shows_all:  # the last line names --help-all; who reads this knows --help
        options = [p for p in options if not {"--help", "--help-all"} & set(p.opts)]
    listed = [p for p in options if shows_all or _is_frequent(p)]
    rows: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    for param in listed:
        record = param.get_help_record(ctx) or ("", "")
        rows.setdefault(getattr(param, "group", "Output"), []).append(record)
    for group, records in rows.items():
        if records:
            with formatter.section(f"{group} options" if " " not in group else group):
                formatter.write_dl(records)
    if len(listed) < len(options):
        formatter.write_paragraph()
        formatter.write_text(f"{len(options) - len(listed)} more options: {ctx.command_path} --help-all")


def _is_frequent(option: click.Option) -> bool:
    """Return True for an option that a short help lists."""
    return option.required or getattr(option, "is_own", True) or option.name in FREQUENT
