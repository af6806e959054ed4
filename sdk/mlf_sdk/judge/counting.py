# SPDX-License-Identifier: Apache-2.0
"""Counts executed instructions of an emulated image by function, with the plugin in qemu/plugin."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.errors import ToolError
from mlf_sdk.judge.windows import Window
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import isa_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.isas import fallback_isa
from mlf_sdk.tools.process import run_process

CFLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Executed instructions of a function, and how often its first one was executed: its calls."""

    instructions: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCount:
    """One pass through a window.

    Attributes:
        name, index: which window, and which pass, from 0.
        total: all instructions.
        outside: those in no function that has a symbol.
        tallies: by function (the first of its names), without those that did not run.
        executed: how often each instruction was executed, by address; empty unless that was asked for.
    """

    name: str
    index: int
    total: int
    outside: int
    tallies: Mapping[str, Tally]
    executed: Mapping[int, int] = field(default_factory=dict)

    def instructions(self, *functions: str) -> int:
        """Instructions of these functions together."""
        return sum(self.tallies[name].instructions for name in functions if name in self.tallies)

    def calls(self, function: str) -> int:
        """Calls of this function."""
        return self.tallies[function].calls if function in self.tallies else 0

    def __add__(self, other: WindowCount) -> WindowCount:
        """This pass, with all that another one counted."""
        tallies, executed = dict(self.tallies), dict(self.executed)
        for name, tally in other.tallies.items():
            mine = tallies.get(name, Tally(instructions=0, calls=0))
            tallies[name] = Tally(
                instructions=mine.instructions + tally.instructions, calls=mine.calls + tally.calls
            )
        for address, count in other.executed.items():
            executed[address] = executed.get(address, 0) + count
        return replace(
            self,
            total=self.total + other.total,
            outside=self.outside + other.outside,
            tallies=tallies,
            executed=executed,
        )


def with_rows(passes: Iterable[WindowCount], rows: str, run: str) -> tuple[WindowCount, ...]:
    """Passes without those of rows, which are added to the run behind them and to its first step.

    Args:
        rows, run: names of the windows.
    """
    result: list[WindowCount] = []
    pending: WindowCount | None = None
    is_first = True
    for one in passes:
        if one.name == rows:
            pending = one if pending is None else pending + one
            continue
        counts = pending is not None and (is_first or one.name == run)
        result.append(one + pending if counts and pending is not None else one)
        is_first = one.name == run
        pending = None if one.name == run else pending
    return tuple(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """All passes through all windows, in the order in which they ended."""

    passes: tuple[WindowCount, ...]
    total: int

    def of(self, name: str) -> tuple[WindowCount, ...]:
        """The passes through the window ``name``."""
        return tuple(one for one in self.passes if one.name == name)


def missing_plugin_support(board: Board | None = None) -> str:
    """Reason why QEMU's plugin cannot be used here for a board (None: any); empty when it can."""
    isa = isa_of(board) if board is not None else None
    qemu = (isa or fallback_isa()).tools.emulator
    try:
        text = run_process([qemu, "--help"], timeout_s=20).stdout
        run_process(["cc", "--version"], timeout_s=20)
    except ToolError as error:
        return error.what.splitlines()[0]
    return "" if "-plugin" in text else f"this {qemu} was built without plugins"


def build_plugin(folder: Path) -> Path:
    """Build the plugin into ``folder``, unless the same one is there already."""
    source = data_dir("qemu") / "plugin" / "mlf_count.c"
    key = hashlib.sha256(source.read_bytes() + " ".join(CFLAGS).encode()).hexdigest()[:16]
    library = folder / f"mlf_count-{key}.so"
    if not library.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{library.name}.{os.getpid()}"
        run_process(["cc", *CFLAGS, "-o", str(fresh), str(source)], timeout_s=60)
        fresh.replace(library)
    return library


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """Plugin configured for counting in one run of an image.

    Attributes:
        arguments: what QEMU needs to load it.
    """

    image: Image
    arguments: tuple[str, ...]
    out: Path

    def passes(self, *names: str) -> tuple[WindowCount, ...]:
        """Passes through windows that ended so far; each is written when it ends, however QEMU does."""
        return tuple(
            _window_count(self.image, line)
            for line in self._lines()
            if line.get("window") in names and "total" in line
        )

    def _lines(self) -> list[dict[str, Any]]:
        """Whole lines that the plugin wrote."""
        try:
            return [json.loads(line) for line in self.out.read_text(encoding="ascii").splitlines()]
        except (OSError, ValueError):
            return []

    def read(self) -> Counts:
        """Read the counts, after QEMU has ended.

        Raises:
            ToolError: QEMU did not end in order, or a window has no end.
        """
        lines = self._lines()
        if not lines or not lines[-1].get("end"):
            raise ToolError("the counts are not complete: QEMU ended before the plugin did")
        given_up = [line["window"] for line in lines if line.get("given_up")]
        if given_up or lines[-1]["open"]:
            raise ToolError(f"windows without an end: {sorted({*given_up, *lines[-1]['open']})}")
        passes = tuple(_window_count(self.image, line) for line in lines[:-1])
        return Counts(passes=passes, total=lines[-1]["total"])


@contextmanager
def counter(
    image: Image,
    windows: Sequence[Window],
    *,
    plugin: Path,
    by_instruction: bool = False,
) -> Iterator[Counter]:
    """Counter for one run; its files are deleted afterwards.

    Args:
        by_instruction: count each instruction.
    """
    with tempfile.TemporaryDirectory(prefix="mlf-count-") as folder:
        out, ranges = Path(folder) / "counts.jsonl", Path(folder) / "ranges.txt"
        own = Path(folder) / plugin.name  # the folder of plugins may be cleaned
        shutil.copy(plugin, own)
        lines = _instruction_lines(image) if by_instruction else _range_lines(image)
        ranges.write_text("".join(lines), encoding="ascii")
        arguments = ("-plugin", _plugin_argument(own, out, ranges, windows))
        yield Counter(image=image, arguments=arguments, out=out)


def _range_lines(image: Image) -> list[str]:
    """Two ranges for each function, named by its address: its first instruction, and all others."""
    lines = []
    for function in image.functions.values():
        number, start = f"{function.address:x}", function.address
        if function.limit > start:
            lines.append(f"{number}e:{start:#x}:{start + 2:#x}\n")
        if function.limit > start + 2:
            lines.append(f"{number}:{start + 2:#x}:{function.limit:#x}\n")
    return lines


def _instruction_lines(image: Image) -> Iterator[str]:
    """A range for each instruction, named by its address with an ``i``; for code that is not decoded two."""
    code = machine_code(image)
    for function in image.functions.values():
        instructions = {} if code is None else code.instructions(function)
        starts = [a for a in instructions if a < function.limit] or [function.address]
        for start, after in zip(starts, [*starts[1:], function.limit], strict=True):
            yield f"{start:x}i:{start:#x}:{after:#x}\n"


def _plugin_argument(plugin: Path, out: Path, ranges: Path, windows: Sequence[Window]) -> str:
    parts = [str(plugin), f"out={out}", f"ranges={ranges}"]
    for window in windows:
        parts.append(f"begin={window.name}:{window.begin:#x}")
        parts += [f"end={window.name}:{end:#x}" for end in window.ends]
    return ",".join(part.replace(",", ",,") for part in parts)


def _window_count(image: Image, line: dict[str, Any]) -> WindowCount:
    counts = line["counts"]
    executed = {int(name[:-1], 16): count for name, count in counts.items() if name.endswith("i")}
    tallies = _tallies_of(image, executed) if executed else {}
    for function in image.functions.values():
        calls = counts.get(f"{function.address:x}e", 0)
        instructions = calls + counts.get(f"{function.address:x}", 0)
        if instructions:
            tallies[function.name] = Tally(instructions=instructions, calls=calls)
    return WindowCount(
        name=line["window"],
        index=line["index"],
        total=line["total"],
        outside=line["outside"],
        tallies=tallies,
        executed=executed,
    )


def _tallies_of(image: Image, executed: Mapping[int, int]) -> dict[str, Tally]:
    """Counts by function of instructions that were counted each."""
    sums: dict[int, int] = {}
    for address, count in executed.items():
        function = image.function_at(address)
        if function is not None:
            sums[function.address] = sums.get(function.address, 0) + count
    return {
        image.functions[address].name: Tally(instructions=total, calls=executed.get(address, 0))
        for address, total in sums.items()
    }
