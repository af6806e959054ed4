# SPDX-License-Identifier: Apache-2.0
"""The main job: an archive or a project to a verified run.

`run` generates and builds in a cache when it is given an archive, starts the image, runs a batch of
inferences, and compares: outputs with a reference and with the host twin, memory with the plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlf_sdk.codegen.lock import Lock, LockModel, LockTensor, choose_model, read_lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.samples import pattern_array
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Model, Tensor, TensorKind, UnitKind
from mlf_sdk.judge.check import CheckReport, with_painted
from mlf_sdk.judge.compare import Comparison, Tolerance, compare_outputs
from mlf_sdk.judge.data import Batch, Reference, accuracy, match_inputs, match_reference, read_npz
from mlf_sdk.judge.execute import Execution, execute
from mlf_sdk.pipeline.cache import cached_project
from mlf_sdk.pipeline.project import PathLike, build, check, load, plan_project, project_board
from mlf_sdk.pipeline.results import Array, MemoryFigures, RunReport, as_promised, is_exact
from mlf_sdk.pipeline.verification import check_same_image
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.cmake import BuildResult
from mlf_sdk.targets.launch import open_session
from mlf_sdk.targets.serial.session import PortChoice, port_session
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.tools.locks import exclusive

Say = Callable[[str], None]
Count = Callable[[int, int], None]
HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What `run` is to do; see there."""

    inputs: PathLike | Mapping[str, Array] | None = None
    expect: PathLike | Mapping[str, Array] | None = None
    tolerance: Tolerance = dataclasses.field(default_factory=Tolerance)
    twin: bool | None = None
    timeout_s: float = 120.0
    build_timeout_s: float = 600.0
    port: PortChoice | None = None
    platform: str | None = None
    zephyr: ZephyrSetup | None = None


def run(  # noqa: PLR0913 (the front door: one keyword for each thing a person may choose)
    target: PathLike,
    *,
    board: str | None = None,
    board_file: PathLike | None = None,
    module: str | None = None,
    inputs: PathLike | Mapping[str, Array] | None = None,
    expect: PathLike | Mapping[str, Array] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    twin: bool | None = None,
    timeout_s: float = 120.0,
    options: ProjectOptions | None = None,
    platform: str | None = None,
    zephyr: ZephyrSetup | None = None,
    port: PortChoice | None = None,
    say: Say = lambda _: None,
    count: Count = lambda _done, _total: None,
) -> RunReport:
    """Run an archive or a generated project, and compare what happens with what was promised.

    Args:
        target: an archive, or the folder of a project.
        board: where to run an archive (default: mps2-an386); a project knows its board.
        module: of an archive with several; of a project with several models, which model.
        inputs: npz file or arrays by name; without them a repeatable pattern. One extra leading axis
            is a batch.
        expect: npz file or arrays by name or number of the output; ``label`` holds classes.
        rtol, atol: tolerance for floats; integers must be equal unless ``atol`` is 1 or more.
        twin: also run on the host and compare; default: when there is no ``expect``.
        timeout_s: for starting the image and all inferences together.
        platform: of an archive: ``zephyr``, or that of the board's row.
        zephyr: how to get at Zephyr, on that platform.
        port: where a board is that holds the image already; None: it is started here.

    Raises:
        InputError: bad arguments, archive, or arrays.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or faulted.
    """
    request = RunRequest(
        inputs=inputs,
        expect=expect,
        tolerance=Tolerance(rtol=rtol, atol=atol),
        twin=twin,
        timeout_s=timeout_s,
        platform=platform,
        zephyr=zephyr,
        port=port,
    )
    path = Path(target)
    if (path / LOCK_NAME).is_file():
        return _Runner(request, say, count).run_project(path, module)
    return _Runner(request, say, count).run_archive(
        path,
        board or DEFAULT_BOARD,
        Path(board_file) if board_file else None,
        module,
        options or ProjectOptions(),
    )


class _Runner:
    def __init__(self, request: RunRequest, say: Say, count: Count) -> None:
        self.request = request
        self.say = say
        self.count = count

    def run_archive(
        self, path: Path, board: str, board_file: Path | None, module: str | None, options: ProjectOptions
    ) -> RunReport:
        if options.app != "rpc":
            raise InputError("only the rpc application can be run with inputs", where="--app")
        self.say(f"reading {path.name}")
        model = load(path, module=module)
        plan = plan_project(
            [model],
            board=board,
            board_file=board_file,
            options=options,
            platform=self.request.platform,
            zephyr=self.request.zephyr,
        )
        folder = cached_project(plan)
        report = self._run(folder, plan.lock, plan.board, plan.lock.models[0])
        if not self._wants_twin(plan.board):
            return report
        return self._with_twin(report, model, options)

    def run_project(self, folder: Path, module: str | None) -> RunReport:
        lock = read_lock(folder)
        if lock.options.app != "rpc":
            raise InputError(
                f"the project's application is {lock.options.app}: it takes no inputs",
                where=str(folder),
                hint="Generate it with --app rpc to run it with inputs.",
            )
        model = choose_model(lock, module, folder)
        board = project_board(folder, lock)
        report = self._run(folder, lock, board, model, same_image=True)
        if self.request.twin:
            return dataclasses.replace(report, twin_note="a project has no archive to make a host twin from")
        return report

    # ---- one image ----

    def _run(
        self, folder: Path, lock: Lock, board: Board, model: LockModel, *, same_image: bool = False
    ) -> RunReport:
        batch = self._batch(model)
        reference = self._reference(model, batch.count)
        self.say(f"building for {board.name}")
        built = self._build(folder)
        checked = check(folder)
        port = self.request.port
        self.say(f"running on {port.spec if port else board.name}")
        done = self._execute(board, built.elf, model, batch, port, same_image=same_image)
        outputs = {t.name: array for t, array in zip(model.outputs, done.outputs, strict=True)}
        return RunReport(
            model=model,
            board=board,
            folder=folder,
            outputs=outputs,
            inferences=batch.count,
            compare=self._compare(outputs, reference),
            twin=None,
            twin_note="",
            accuracy=accuracy(list(done.outputs[0]), reference.labels)
            if reference and reference.labels is not None
            else None,
            memory=_memory(model, done, checked),
            check=_with_measured(checked, model, done),
            instructions=None if port else _instructions(board, done),
            ticks=done.ticks,
            ticks_hz=done.ticks_hz,
            build_seconds=built.seconds,
            console=done.console,
        )

    def _build(self, folder: Path) -> BuildResult:
        timeout_s = self.request.build_timeout_s
        with exclusive(str(folder.resolve()), timeout_s):
            return build(folder, timeout_s=timeout_s, zephyr=self.request.zephyr)

    def _execute(
        self,
        board: Board,
        elf: Path,
        model: LockModel,
        batch: Batch,
        port: PortChoice | None = None,
        *,
        same_image: bool = False,
    ) -> Execution:
        timeout_s = self.request.timeout_s
        with (
            open_session(board, elf, timeout_s=timeout_s)
            if port is None
            else port_session(port, board=board, elf=elf, timeout_s=timeout_s)
        ) as session:
            done = execute(session, model, batch, timeout_s=timeout_s, progress=self.count)
            if port is not None and same_image:
                check_same_image(session.info, elf, port.spec)
            return done

    def _batch(self, model: LockModel) -> Batch:
        given = self.request.inputs
        if given is None:
            return pattern_batch(model)
        arrays = given if isinstance(given, Mapping) else read_npz(Path(given))
        return match_inputs(model, arrays, "inputs" if isinstance(given, Mapping) else str(given))

    def _reference(self, model: LockModel, count: int) -> Reference | None:
        given = self.request.expect
        if given is None:
            return None
        arrays = given if isinstance(given, Mapping) else read_npz(Path(given))
        where = "expect" if isinstance(given, Mapping) else str(given)
        return match_reference(model, arrays, count, where)

    def _compare(self, outputs: Mapping[str, Array], reference: Reference | None) -> Comparison | None:
        if reference is None or not reference.outputs:
            return None
        return compare_outputs(outputs, reference.outputs, self.request.tolerance)

    # ---- the host twin ----

    def _wants_twin(self, board: Board) -> bool:
        wanted = self.request.twin
        return board.platform != HOST and (self.request.expect is None if wanted is None else wanted)

    def _with_twin(self, report: RunReport, model: Model, options: ProjectOptions) -> RunReport:
        if any(unit.linked and unit.kind is UnitKind.OBJECT for unit in model.units):
            note = "the archive holds machine code for the target: there is no host twin"
            return dataclasses.replace(report, twin_note=note)
        if model.external_headers:
            note = f"its code needs {model.external_headers[0]}: there is no host twin"
            return dataclasses.replace(report, twin_note=note)
        self.say("building and running the host twin")
        try:
            twin_plan = plan_project([model], board=HOST, options=options)
        except MlfError as error:
            return dataclasses.replace(report, twin_note=f"no host twin: {error.what}")
        folder = cached_project(twin_plan)
        built = self._build(folder)
        twin_model = twin_plan.lock.models[0]
        done = self._execute(twin_plan.board, built.elf, twin_model, self._batch(twin_model))
        expected = {t.name: array for t, array in zip(twin_model.outputs, done.outputs, strict=True)}
        return dataclasses.replace(
            report,
            twin=compare_outputs(report.outputs, expected, self.request.tolerance),
            build_seconds=report.build_seconds + built.seconds,
        )


def pattern_batch(model: LockModel) -> Batch:
    """One inference on the repeatable pattern."""
    arrays = [pattern_array(_as_tensor(t, i), salt=i)[np.newaxis] for i, t in enumerate(model.inputs)]
    return Batch(arrays=tuple(arrays), count=1)


def _as_tensor(tensor: LockTensor, index: int) -> Tensor:
    dtype = DType.parse(tensor.dtype)
    return Tensor(
        id=index, name=tensor.name, c_name="", dtype=dtype, shape=tensor.shape, kind=TensorKind.INPUT
    )


def _memory(model: LockModel, done: Execution, checked: CheckReport) -> MemoryFigures:
    return MemoryFigures(
        exact=is_exact(model),
        arena_bytes=model.arena_bytes,
        lower_bound_bytes=model.lower_bound_bytes,
        arena_high_water_bytes=done.arena_high_water_bytes,
        params_bytes=model.params_bytes,
        stack_bytes=done.stats.stack_bytes or checked.stack_bytes,
        stack_high_water_bytes=done.stats.stack_high_water_bytes,
    )


def _with_measured(checked: CheckReport, model: LockModel, done: Execution) -> CheckReport:
    """The check with the measured mark in the arena's row."""
    arena = done.arena_high_water_bytes
    good = as_promised(arena, model.arena_bytes, exact=is_exact(model))
    rows = []
    for row in checked.rows:
        if row.item == "arena" and row.model == model.name:
            note = row.note or ("" if good else "measured is not what was planned")
            row = dataclasses.replace(row, measured=arena, ok=row.ok and good, note=note)  # noqa: PLW2901
        elif row.item == "stack":
            row = with_painted(row, done.stats.stack_high_water_bytes)  # noqa: PLW2901
        rows.append(row)
    return dataclasses.replace(checked, rows=tuple(rows))


def _instructions(board: Board, done: Execution) -> int | None:
    """Instructions of one inference: an emulated board runs one in each nanosecond of its time."""
    if board.qemu is None or not done.ticks_hz or not done.ticks:
        return None
    return round(done.ticks * 1_000_000_000 / done.ticks_hz / done.count)
