# SPDX-License-Identifier: Apache-2.0
"""Cycles and instructions of an inference on a simulated core, counted by its simulator."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median_low

import msgspec

from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import ToolError
from mlf_sdk.judge.execute import Execution, InstructionCount
from mlf_sdk.judge.windows import RUN, Window, function_window
from mlf_sdk.tools.rowfile import described


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One pass through a window, as the simulator writes it (``board_templates/rtl/README.md``)."""

    window: str
    index: int
    instructions: int
    cycles: int


class BySimulator(msgspec.Struct, frozen=True, kw_only=True):
    """Counts each run by the addresses of retired instructions.

    Attributes:
        arguments: of the simulator.
        out: file that it writes.
    """

    arguments: tuple[str, ...]
    out: Path

    def of(self, done: Execution) -> InstructionCount:
        """See `Counting`; raises ToolError where the simulator did not count each run."""
        runs = [one for one in read_passes(self.out) if one.window == RUN][: done.count]
        if len(runs) < done.count:
            raise ToolError(
                f"the simulator counted {len(runs)} of {done.count} inferences", where=str(self.out)
            )
        instructions = [one.instructions for one in runs]
        return InstructionCount(
            each=median_low(instructions),
            least=min(instructions),
            most=max(instructions),
            cycles=median_low(one.cycles for one in runs),
        )


def read_passes(path: Path) -> tuple[Pass, ...]:
    """Passes that the simulator wrote; a last line that is cut off is left out.

    Raises:
        ToolError: a line is not one of the simulator's.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return ()
    try:
        return tuple(msgspec.json.decode(line, type=described(Pass)) for line in lines)
    except msgspec.MsgspecError as error:
        raise ToolError(f"the simulator's counts can't be read: {error}", where=str(path)) from error


def window_argument(window: Window) -> str:
    """A window as an argument of the simulator."""
    return ":".join((f"window={window.name}", *(f"{at:#x}" for at in (window.begin, *window.ends))))


@contextmanager
def simulated_counting(elf: Path) -> Iterator[BySimulator | None]:
    """Count the runs of an image on a simulated core; None: the image is not made as expected."""
    try:
        window = function_window(read_image(elf), "mlf_run")
    except LookupError:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="mlf-count-") as folder:
        out = Path(folder) / "counts.jsonl"
        yield BySimulator(arguments=(f"out={out}", window_argument(window)), out=out)
