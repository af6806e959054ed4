# SPDX-License-Identifier: Apache-2.0
"""Console output: results on standard output, everything else on standard error.

Nothing that comes from an archive is ever interpreted: names are printed as they are, and characters
that could drive a terminal are escaped.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from mlf_sdk.errors import ArchiveError, MlfError
from mlf_sdk.pipeline.progress import Progress as Receiver
from mlf_sdk.tools.checks import printable

if TYPE_CHECKING:
    from rich.progress import Progress

_SURROGATE = re.compile("[\ud800-\udfff]")
SCHEMA = 1
"""Version of the JSON of every command; a key that changes its meaning raises it."""

_WIDTH = 120  # where no terminal and no COLUMNS says how wide it is
_LEAST_WIDTH = 40
_TRAILING_SPACE = re.compile(r"(?:[ ]|\x1b\[[0-9;]*m)+$", re.MULTILINE)


def result_console() -> Console:
    """Standard output; wide enough for tables when it is no terminal."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    console = Console(highlight=False, markup=False, emoji=False, width=None if known else _WIDTH)
    console.width = max(console.width, _LEAST_WIDTH)
    return console


def message_console() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def show(result: list[RenderableType], value: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a result: as JSON for programs, or as tables and lines for people.

    Args:
        result: parts of the text, in order.
        value: the result as a mapping; its ``ok`` is True where it says nothing else.
        as_json: print the mapping with its schema's version instead of the text.
    """
    if as_json:
        _write_json({"ok": True, **value})
        return
    console = result_console()
    with console.capture() as captured:
        for part in result:
            console.print(part)
    _write(_TRAILING_SPACE.sub(lambda end: "\x1b[0m" if "\x1b" in end[0] else "", captured.get()))


def _write_json(value: dict[str, Any]) -> None:
    value = {"schema": SCHEMA, **value}
    try:
        encoded = msgspec.json.encode(value, enc_hook=_plain, order="deterministic")
    except UnicodeEncodeError:  # a file's name that is not UTF-8
        import json  # for few names

        text = json.dumps(msgspec.to_builtins(value, enc_hook=_plain), ensure_ascii=False, sort_keys=True)
        encoded = _SURROGATE.sub(lambda one: rf"\\u{ord(one[0]):x}", text).encode()
    _write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def _write(text: str) -> None:
    """Write to standard output; a reader that has gone away (``| head``) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _plain(value: Any) -> Any:  # noqa: ANN401
    if hasattr(value, "item"):
        return value.item()
    return str(value)


def escaped(text: str) -> str:
    """Escape ``text`` for a terminal; line feeds and tabs stay."""
    return printable(text.replace("\r\n", "\n"), keep="\n\t")


def show_error(error: MlfError, *, as_json: bool) -> None:
    """Print an error as one block: message, location, hint."""
    if as_json:
        _write_json({"ok": False, "error": _error_values(error)})
    text = Text("error: ", style="bold red").append(escaped(error.what), style="default not bold")
    if error.where:
        text.append(f"\n  where: {escaped(error.where)}", style="default not bold")
    if error.hint:
        hint = escaped(error.hint).replace("\n", "\n      ")
        text.append(f"\n  do: {hint}", style="default not bold")
    message_console().print(text, soft_wrap=True)


def _error_values(error: MlfError) -> dict[str, Any]:
    values: dict[str, Any] = {
        "what": error.what,
        "where": error.where,
        "hint": error.hint,
        "exit_code": error.exit_code,
        **error.details,
    }
    if isinstance(error, ArchiveError):
        values["faults"] = [{"member": f.member, "field": f.field, "what": f.what} for f in error.faults]
    return values


class Status(Receiver):
    """Progress on standard error.

    Args:
        console: for the output of other programs.
        bar: None where standard error is no terminal, or JSON was asked for.
        shows_log: print the output of other programs.
        is_quiet: nothing is shown: JSON was asked for.
    """

    def __init__(
        self, console: Console, bar: Progress | None, *, shows_log: bool = False, is_quiet: bool = False
    ) -> None:
        self.is_quiet = is_quiet
        self._console = console
        self._progress = bar
        self.shows_log = shows_log
        self._task = bar.add_task("", total=None) if bar is not None else None
        self._what = ""

    def hide(self) -> None:
        """Give the line up to another view."""
        if self._progress is not None:
            self._progress.stop()

    def say(self, what: str) -> None:
        """Name what is being done now."""
        self._what = escaped(what)
        self._show(self._what)

    def _show(self, text: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)

    def log(self, line: str) -> None:
        """Print a line that another program wrote, terminal or not."""
        if self.shows_log:
            self._console.print(escaped(line), markup=False, highlight=False, soft_wrap=True)

    def count(self, done: int, total: int) -> None:
        """Show how much of it is done."""
        self._show(f"{self._what}: {done:,} of {total:,} inferences")


@contextmanager
def status(*, as_json: bool, verbose: bool = False) -> Iterator[Status]:
    """A progress line for anything that takes longer than a second."""
    console = message_console()
    shows_log = verbose and not as_json
    if as_json or not console.is_terminal:
        yield Status(console, None, shows_log=shows_log, is_quiet=as_json)
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Status(console, progress, shows_log=shows_log)
