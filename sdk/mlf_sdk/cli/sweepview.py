# SPDX-License-Identifier: Apache-2.0
"""Progress of a sweep on standard error: cells done, where others run, estimated end, failures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from mlf_sdk.cli.output import Status, escaped, message_console
from mlf_sdk.judge.check import PROVEN
from mlf_sdk.pipeline.cell import NOT_HERE
from mlf_sdk.sweep.events import Watcher
from mlf_sdk.sweep.job import JobResult

_SHOWN_RUNNING = 8
_SHOWN_NAME = 8  # digits
_LINES_EVERY_S = 10.0  # without a terminal


class SweepView(Watcher):
    """Lines for what failed, and a counter.

    Args:
        console: standard error.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.total = self.done = 0
        self.running: dict[str, str] = {}
        self.titles: Mapping[str, str] = {}
        self._printed = time.monotonic()

    def begin(self, total: int, done: int, titles: Mapping[str, str] | None = None) -> None:
        """See Watcher."""
        self.total, self.done, self.titles = total, done, titles or {}
        self.console.print(f"{total:,} cells, {done:,} finished before", highlight=False)

    def started(self, name: str, worker: str) -> None:
        """See Watcher."""
        self.running[name] = worker

    def ended(self, name: str, result: JobResult | None, why: str = "") -> None:
        """See Watcher."""
        self.done += 1
        self.running.pop(name, None)
        cell = result.cell if result is not None else None
        if cell is None:
            self.say(f"{self.title(name)}: {why}")
        elif cell.outcome not in (PROVEN, NOT_HERE):
            self.say(f"{self.title(name)}: {cell.outcome}: {cell.why}")
        self.moved()

    def title(self, name: str) -> str:
        """Return what people call a cell, after the beginning of its name, which `sweep show` takes."""
        return f"{name[:_SHOWN_NAME]} {self.titles.get(name, '')}".rstrip()

    def say(self, what: str) -> None:
        """See Watcher."""
        self.console.print(escaped(what), markup=False, highlight=False, soft_wrap=True)

    def moved(self) -> None:
        """Show how far the sweep is, now and then."""
        if time.monotonic() - self._printed >= _LINES_EVERY_S:
            self._printed = time.monotonic()
            self.console.print(f"{self.done:,} of {self.total:,} cells", highlight=False)


class LiveView(SweepView):
    """A bar with the estimated end, and the cells that run with their workers."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bar = Progress(
            TextColumn("cells"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self.bar.add_task("cells", total=None)

    def begin(self, total: int, done: int, titles: Mapping[str, str] | None = None) -> None:
        """See Watcher."""
        super().begin(total, done, titles)
        self.bar.reset(self._task, total=total, completed=done)  # cells of before say nothing of the speed

    def moved(self) -> None:
        """See SweepView."""
        self.bar.update(self._task, completed=self.done)

    def __rich__(self) -> Group:
        """Bar and running cells."""
        shown = list(self.running.items())[:_SHOWN_RUNNING]
        lines = [
            Text(f"  {self.title(name)}: {worker}", style="dim", no_wrap=True, overflow="ellipsis")
            for name, worker in shown
        ]
        if len(self.running) > len(shown):
            lines.append(Text(f"  and {len(self.running) - len(shown):,} more", style="dim"))
        return Group(self.bar, *lines)


@contextmanager
def view(progress: Status) -> Iterator[Watcher]:
    """The view for this terminal; none where JSON was asked for."""
    console = message_console()
    if progress.is_quiet:
        yield Watcher()
    elif console.is_terminal:
        progress.hide()
        live_view = LiveView(console)
        with Live(live_view, console=console, refresh_per_second=4, transient=True):
            yield live_view
    else:
        yield SweepView(console)
