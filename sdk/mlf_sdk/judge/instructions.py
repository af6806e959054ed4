# SPDX-License-Identifier: Apache-2.0
"""Instructions of an inference in a run: counted by an emulator, else by a known machine's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Protocol

from mlf_sdk.errors import ToolError
from mlf_sdk.judge.execute import Execution, InstructionCount
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.load import counter_hz
from mlf_sdk.targets.target import Target

if TYPE_CHECKING:
    from mlf_sdk.judge.counting import Counter

_READING_TICKS = 3  # two readings of the clock, each to a tick, and the instructions that read it


class Counting(Protocol):
    """A way to count instructions."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments for the emulator."""

    def of(self, done: Execution) -> InstructionCount | None:
        """Return the count of an execution, after the emulator has ended; None: it can't be known."""


@contextmanager
def counting(target: Target, elf: Path, plugins: Path) -> Iterator[Counting]:
    """Count the instructions of the runs of an image on a target.

    Args:
        target: an emulated or simulated board; elsewhere nothing is counted.
        elf: its image.
        plugins: folder that keeps the plugin.

    Raises:
        ToolError: the plugin can't be built.
    """
    if target.counts_cycles:
        from mlf_sdk.judge.simulated import simulated_counting

        with simulated_counting(elf) as simulated:
            yield simulated or ByClock(hz=None)
        return
    if not target.counts_instructions:
        yield ByClock(hz=None)
        return
    from mlf_sdk.analysis.elf.read import read_image
    from mlf_sdk.judge.counting import build_plugin, counter, missing_plugin_support
    from mlf_sdk.judge.windows import RUN, function_window, handlers, row_windows
    from mlf_sdk.targets.unicorn.launch import uses_unicorn

    known = ByClock(hz=counter_hz(target.board))
    counts = uses_unicorn(target.board)
    if not counts and missing_plugin_support(target.board):
        yield known
        return
    image = read_image(elf)
    try:
        window = function_window(image, "mlf_run", window=RUN)
    except LookupError:
        yield known
        return
    plugin = data_dir("qemu") / "plugin" / "mlf_count.c" if counts else build_plugin(plugins)
    with counter(image, (window, *row_windows(image)), plugin=plugin) as one:
        yield ByPlugin(counter=one, interrupts=handlers(image), arguments=one.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPlugin:
    """Counts instruction by instruction, without those of interrupts."""

    counter: Counter
    interrupts: frozenset[str]
    arguments: tuple[str, ...]

    def of(self, done: Execution) -> InstructionCount:
        """See `Counting`; raises ToolError where QEMU did not count each run."""
        from mlf_sdk.judge.counting import with_rows
        from mlf_sdk.judge.windows import ROWS, RUN

        passes = with_rows(self.counter.passes(RUN, ROWS), ROWS, RUN)
        runs = [one.total - one.instructions(*self.interrupts) for one in passes]
        if len(runs) < done.count:
            raise ToolError(f"QEMU's plugin counted {len(runs)} of {done.count} inferences")
        of_batch = runs[: done.count]
        return InstructionCount(each=median_low(of_batch), least=min(of_batch), most=max(of_batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class ByClock:
    """Counts to a few ticks of the core's counter, whose rate on the emulated machine is a fact of QEMU.

    The rate that a board row or an image states is none: a wrong one would be a wrong count.

    Attributes:
        hz: of the machine; None: not known.
    """

    hz: int | None
    arguments: tuple[str, ...] = ()

    def of(self, done: Execution) -> InstructionCount | None:
        """See `Counting`."""
        if self.hz is None or not done.ticks or not done.count:
            return None

        from mlf_sdk.targets.qemu import instructions, tick_instructions  # no other target needs it

        resolution = _READING_TICKS * tick_instructions(self.hz)
        known = 10 ** (len(str(resolution)) - 1)
        each = round(instructions(done.ticks, self.hz) / done.count / known) * known
        return InstructionCount(each=each, least=each, most=each, resolution=resolution)
