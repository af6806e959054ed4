# SPDX-License-Identifier: Apache-2.0
"""Where the command line prints: results to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from mlf_sdk.errors import MlfError


def result_console() -> Console:
    """Standard output; wide enough for tables when it is no terminal."""
    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 120)


def message_console() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def show(result: RenderableType | list[RenderableType], value: Any, *, as_json: bool) -> None:  # noqa: ANN401
    """Print a result: as JSON for programs, or as tables and lines for people."""
    if as_json:
        encoded = msgspec.json.encode(value, enc_hook=_plain, order="deterministic")
        sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")
        return
    console = result_console()
    for part in result if isinstance(result, list) else [result]:
        console.print(part)


def _plain(value: Any) -> Any:  # noqa: ANN401
    if hasattr(value, "item"):
        return value.item()
    return str(value)


def show_error(error: MlfError, *, as_json: bool) -> None:
    """One block: what, where, what to do."""
    if as_json:
        block = {"error": {"what": error.what, "where": error.where, "hint": error.hint}}
        sys.stdout.write(msgspec.json.encode(block).decode() + "\n")
    console = message_console()
    text = Text("error: ", style="bold red").append(error.what, style="default not bold")
    console.print(text, soft_wrap=True)
    if error.where:
        console.print(Text(f"  where: {error.where}"), soft_wrap=True)
    if error.hint:
        console.print(Text("  do: " + error.hint.replace("\n", "\n      ")), soft_wrap=True)


class Status:
    """Progress on standard error; silent when that is no terminal or JSON was asked for."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def say(self, what: str) -> None:
        """Name what is being done now."""
        self._progress.update(self._task, description=what, total=None, completed=0)

    def count(self, done: int, total: int) -> None:
        """Show how much of it is done."""
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def status(*, as_json: bool) -> Iterator[Status]:
    """A progress line for anything that takes longer than a second."""
    console = message_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=as_json or not console.is_terminal
    ) as progress:
        yield Status(progress)
