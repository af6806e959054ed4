# SPDX-License-Identifier: Apache-2.0
"""Where the time of an inference goes, step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlf_sdk.analysis.thumb.firmware import Firmware, read_firmware
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError
from mlf_sdk.judge.counting import build_plugin, missing_plugin_support
from mlf_sdk.judge.data import Batch, match_inputs, read_npz
from mlf_sdk.judge.profile import Costs, Profile, Unit, Work, median, step_rows, works_of
from mlf_sdk.judge.stepcosts import count_steps, inner_kernels, scaled, time_steps, windows_of
from mlf_sdk.pipeline.cache import cache_folder
from mlf_sdk.pipeline.deploy import Prepared, deployed, prepare
from mlf_sdk.pipeline.project import PathLike, build
from mlf_sdk.pipeline.results import Array
from mlf_sdk.pipeline.run import pattern_batch
from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.serial.session import PortChoice
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.tools.locks import exclusive
from mlf_sdk.wire.steps import can_step

Say = Callable[[str], None]
_NS_PER_S = 1_000_000_000
_RUNS_BY_CLOCK = 10
_MOST_RUNS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    costs: Costs
    rows: Literal["steps", "kernels"]
    unit: Unit
    hz: int
    resolution: int
    method: str
    notes: tuple[str, ...]


def profile(  # noqa: PLR0913 (the front door: one keyword for each thing a person may choose)
    target: PathLike,
    *,
    board: str | None = None,
    board_file: PathLike | None = None,
    module: str | None = None,
    inputs: PathLike | Mapping[str, Array] | None = None,
    runs: int | None = None,
    port: PortChoice | str | None = None,
    options: ProjectOptions | None = None,
    platform: str | None = None,
    zephyr: ZephyrSetup | None = None,
    timeout_s: float = 120.0,
    say: Say = lambda _: None,
) -> Profile:
    """What each step of a model costs: instructions on an emulated board, cycles or ticks on another.

    Args:
        target: an archive, or the folder of a project.
        board: where to run an archive (default: mps2-an386); a project knows its board.
        inputs: npz file or arrays by name: the first inference of a batch; default: a repeatable pattern.
        runs: inferences to measure; default: 1 where the count is exact, else 10.
        port: where a board is that holds the image already; None: it is started here.
        timeout_s: for starting the image and all inferences together.

    Raises:
        InputError: bad arguments, archive, or arrays; the image can't run steps one at a time.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or faulted.
    """
    if runs is not None and not 1 <= runs <= _MOST_RUNS:
        raise InputError(f"{runs} is no number of runs", where="--runs", hint=f"Give 1 to {_MOST_RUNS:,}.")
    prepared = prepare(
        target,
        board=board,
        board_file=board_file,
        module=module,
        options=_production(options or ProjectOptions()),
        platform=platform,
        zephyr=zephyr,
    )
    batch = _batch(prepared, inputs)
    profiler = _Profiler(prepared, batch, runs, timeout_s, zephyr, say)
    return _profile(prepared, profiler.by_clock(port) if port is not None else profiler.measure())


def _production(options: ProjectOptions) -> ProjectOptions:
    """Without the trace of workspaces: an allocator that takes notes costs more than one in production."""
    return options if options.trace is not None else dataclasses.replace(options, trace=False)


def _batch(prepared: Prepared, inputs: PathLike | Mapping[str, Array] | None) -> Batch:
    if inputs is None:
        return pattern_batch(prepared.model)
    arrays = inputs if isinstance(inputs, Mapping) else read_npz(Path(inputs))
    return match_inputs(prepared.model, arrays, "inputs" if isinstance(inputs, Mapping) else str(inputs))


@dataclass(frozen=True, slots=True)
class _Profiler:
    prepared: Prepared
    batch: Batch
    runs: int | None
    timeout_s: float
    zephyr: ZephyrSetup | None
    say: Say

    def measure(self) -> _Measured:
        """On a board that is started here: exactly where the emulator can count."""
        board, model = self.prepared.board, self.prepared.model
        if board.qemu is None:
            return self.by_clock(None)
        why = missing_plugin_support()
        if why:
            return self.by_clock(None, f"to the clock's resolution only: {why}")
        self.say(f"building for {board.name}")
        with exclusive(str(self.prepared.folder.resolve()), self.timeout_s):
            elf = build(self.prepared.folder, zephyr=self.zephyr).elf
        firmware = read_firmware(elf)
        try:
            windows_of(model, firmware)
        except LookupError as error:
            return self.by_clock(None, f"to the clock's resolution only: {error}")
        self.say(f"counting instructions on {board.name}")
        costs = count_steps(
            board,
            firmware,
            model,
            self.batch.inputs(0),
            runs=self.runs or 1,
            plugin=build_plugin(cache_folder().parent / "plugins"),
            timeout_s=self.timeout_s,
        )
        return _Measured(
            costs=costs,
            rows="kernels" if inner_kernels(model, firmware) else "steps",
            unit="instructions",
            hz=_NS_PER_S,
            resolution=0,
            method="counted by QEMU, exactly",
            notes=(*_missing_kernels(self.prepared, firmware), *_interrupts(board)),
        )

    def by_clock(self, port: PortChoice | str | None, *notes: str) -> _Measured:
        """By the clock of the board, or of this machine."""
        board, model = self.prepared.board, self.prepared.model
        with deployed(self.prepared, port=port, timeout_s=self.timeout_s, say=self.say) as target:
            if not can_step(target.session):
                raise InputError(
                    "the firmware can't run steps one at a time",
                    where=f"board {board.name}",
                    hint="Generate it again with this SDK (MLF_OBSERVE is on in the rpc application), "
                    "build and flash it.",
                )
            hz = target.session.info.ticks_hz
            self.say(f"measuring on {board.name}")
            costs = time_steps(
                target.session, target.info, model, self.batch.inputs(0), runs=self.runs or _RUNS_BY_CLOCK
            )
        if len(model.steps) == 1 and len(model.kernel_symbols) > 1:
            notes = (*notes, "compiled ahead of time: a clock can't tell the kernels inside apart; QEMU can")
        if board.qemu is not None and port is None and hz:
            step = -(-_NS_PER_S // hz)
            costs = scaled(costs, _NS_PER_S, hz)
            return _Measured(
                costs=costs,
                rows="steps",
                unit="instructions",
                hz=_NS_PER_S,
                resolution=step,
                method=f"the board's clock: a tick is {step} instructions",
                notes=notes,
            )
        return _Measured(
            costs=costs,
            rows="steps",
            unit="cycles" if hz and hz == board.clock_hz else "ticks",
            hz=hz,
            resolution=1,
            method=_clock_text(board, hz),
            notes=notes,
        )


def _clock_text(board: Board, hz: int) -> str:
    if board.platform == "host":
        return "this machine's clock, with sanitizers in the code: only shares mean something"
    return f"the board's clock at {hz / 1e6:g} MHz" if hz else "the board's counter"


def _missing_kernels(prepared: Prepared, firmware: Firmware) -> list[str]:
    model = prepared.model
    if len(model.steps) != 1:
        return []
    lost = [s for s in model.kernel_symbols if firmware.function(s) is None]
    names = ", ".join(s.removeprefix(f"tvmgen_{model.name}_") for s in lost)
    return [f"part of its caller, and so of the overhead: {names}"] if lost else []


def _interrupts(board: Board) -> list[str]:
    return ["interrupts of Zephyr's clock count where they strike"] if board.platform == "zephyr" else []


def _profile(prepared: Prepared, measured: _Measured) -> Profile:
    costs = measured.costs
    works = works_of(prepared.model) if measured.rows == "steps" else (Work(),) * len(costs.names)
    steps = step_rows(costs, works)
    total = median(costs.totals)
    return Profile(
        model=prepared.model.name,
        archive_sha256=prepared.model.archive_sha256,
        board=prepared.board.name,
        rows=measured.rows,
        unit=measured.unit,
        hz=measured.hz,
        runs=len(costs.totals),
        steps=steps,
        overhead=total - sum(step.cost for step in steps),
        total=total,
        resolution=measured.resolution,
        method=measured.method,
        notes=measured.notes,
    )
