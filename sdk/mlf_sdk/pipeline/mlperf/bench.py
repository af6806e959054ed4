# SPDX-License-Identifier: Apache-2.0
"""``bench mlperf``: build the firmware, reach the device, run the procedure, keep the results."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mlf_sdk.codegen.mlperf import BENCHMARKS
from mlf_sdk.errors import InputError, MissingToolError, NotPossibleError, TargetError
from mlf_sdk.judge.profile import Profile
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.mlperf import inputs, procedure
from mlf_sdk.pipeline.mlperf.inputs import InputFile
from mlf_sdk.pipeline.mlperf.official import Job, main_of, run_official
from mlf_sdk.pipeline.mlperf.procedure import Identity, Line
from mlf_sdk.pipeline.mlperf.results import (
    PERFORMANCE,
    WINDOWS,
    MlperfReport,
    median_throughput,
    objections,
    score,
)
from mlf_sdk.pipeline.options import MlperfOptions, ProfileOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.profile import profile_request
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import NO_PORT, Request
from mlf_sdk.targets.boards.load import counter_hz
from mlf_sdk.targets.ptyboard import clock_like, start_pty_board
from mlf_sdk.targets.qemu import QemuOptions
from mlf_sdk.targets.serial.ports import resolve_port
from mlf_sdk.targets.serial.stream import DEFAULT_BAUD, open_port
from mlf_sdk.tools.files import make_folder, write_whole
from mlf_sdk.wire.mlperf import Window

_APP = "mlperf"
_ACCURACY_S = 60.0  # of an input, most
_PERFORMANCE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host's part of a bench.

    Attributes:
        emulation: how a board is emulated; None: an instruction takes about a cycle of the board's clock.
        clock, sleep: of the host.
    """

    emulation: QemuOptions | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device that answers.

    Attributes:
        port: path or URL of its line.
        shift: of the emulator's clock; None: a real board.
    """

    port: str
    baud: int
    shift: int | None


def mlperf_request(request: Request) -> Request:
    """Request for the mlperf application of a model; that of a project as it is."""
    return request if stages.is_project(request) else request.replace(app=_APP)


def rpc_request(request: Request) -> Request:
    """Request for the rpc application of a model, on an emulated board."""
    return request.replace(app="rpc", mlperf_id="", softmax=False, **NO_PORT)


def bench_mlperf(
    request: Request, own: MlperfOptions, pipeline: Pipeline, host: Host | None = None
) -> MlperfReport:
    """Run the procedure of MLPerf Tiny on a model, on an emulated board or on a port.

    Args:
        request: model or project, and the board.
        own: runner, mode, inputs.
        pipeline: builds the firmware.
        host: clocks and emulation.

    Raises:
        InputError: bad arguments, model or inputs.
        ToolError: a tool, or the official runner, failed.
        TargetError: the device does not answer as the protocol says, or in time.
    """
    request, host = mlperf_request(request), host or Host()
    project = pipeline.project(request)
    _check(project, own)
    files = _files(project, own)
    with _device(request, project, own, pipeline, host) as device:
        line = Line(
            open=functools.partial(open_port, device.port, baud=device.baud),
            log=pipeline.progress.log,
            clock=host.clock,
            sleep=host.sleep,
        )
        pipeline.progress.say(f"asking {project.target.name}")
        identity = procedure.identify(line)
        wanted = project.lock.options.mlperf_id
        if identity.benchmark != wanted:
            raise TargetError(
                f"the device runs the benchmark {identity.benchmark}, not {wanted}", where=device.port
            )
        result = _Bench(project, own, pipeline.progress, line, device, identity, files).run()
    counted = _counted(request, result, pipeline)
    if counted is None:
        return result
    instructions = counted.total if counted.unit == "instructions" else None
    return dataclasses.replace(
        result, cycles=counted.cycles, instructions=result.instructions or instructions
    )


def _counted(request: Request, mlperf_report: MlperfReport, pipeline: Pipeline) -> Profile | None:
    """Count an inference, and estimate its cycles, by running the rpc application of the model once."""
    if not mlperf_report.emulated or mlperf_report.mode != PERFORMANCE or stages.is_project(request):
        return None
    try:
        return profile_request(rpc_request(request), ProfileOptions(), pipeline)
    except (NotPossibleError, MissingToolError):
        return None


def _check(project: TargetProject, own: MlperfOptions) -> None:
    if project.lock.options.app != _APP:
        raise InputError(
            f"the project's application is {project.lock.options.app}",
            where=str(project.folder),
            hint="Generate it with --app mlperf --id ID.",
        )
    if own.runner is not None:
        main_of(Path(own.runner))
    if project.target.is_host:
        raise InputError(
            "a program of this machine has no serial port",
            where=f"board {project.target.name}",
            hint="Choose an emulated board, or a board on a port.",
        )


def _files(project: TargetProject, own: MlperfOptions) -> list[InputFile]:
    """Inputs of the bench: the first five in performance mode."""
    count = WINDOWS if own.mode == PERFORMANCE else None
    if own.data is not None and own.cases is not None:
        raise InputError("two sources of inputs", where="--data", hint="Leave out --data or --cases.")
    if own.data is not None:
        files = inputs.read_folder(Path(own.data), count)
    elif own.cases is not None:
        files = inputs.from_arrays(Path(own.cases), project.model, count)
    elif own.mode == PERFORMANCE:
        files = inputs.made_up(project.lock.options.mlperf_id, _input_bytes(project), WINDOWS)
    else:
        raise InputError(
            "accuracy mode needs inputs",
            where="--mode",
            hint="Give a folder with y_labels.csv (--data), or an npz file (--cases).",
        )
    if not files:
        raise InputError("there are no inputs", where="--data")
    return files


def _input_bytes(project: TargetProject) -> int:
    benchmark = BENCHMARKS.get(project.lock.options.mlperf_id)
    return benchmark.input_bytes if benchmark else sum(tensor.size_bytes for tensor in project.model.inputs)


@contextmanager
def _device(
    request: Request, project: TargetProject, own: MlperfOptions, pipeline: Pipeline, host: Host
) -> Iterator[Device]:
    """Reach the board on its port, or start the emulated one."""
    board = project.target.board
    baud = request.baud or (board.uart.baud if board.uart else DEFAULT_BAUD)
    if request.port is not None:
        yield Device(port=resolve_port(request.port, board), baud=baud, shift=None)
        return
    stages.check_start(project.target)
    if board.qemu is None:
        raise InputError(
            "the board is not emulated by QEMU", where=f"board {board.name}", hint="Give --port."
        )
    pipeline.check_programs(request)
    built = pipeline.build(request)
    options = host.emulation or clock_like(board)
    if own.mode != PERFORMANCE:
        options = QemuOptions(icount_shift=options.icount_shift)  # nothing is timed
    pipeline.progress.say(f"starting {board.name}")
    with start_pty_board(board, built.elf, options) as port:
        yield Device(port=port, baud=baud, shift=options.icount_shift)


@dataclass(frozen=True, slots=True)
class _Bench:
    """One bench on a device that has named itself."""

    project: TargetProject
    own: MlperfOptions
    progress: Progress
    line: Line
    device: Device
    identity: Identity
    files: list[InputFile]

    def run(self) -> MlperfReport:
        """Run the procedure in the chosen mode."""
        if self.own.mode == PERFORMANCE:
            first = next(self.files[0].segments(self.identity.benchmark))
            inferences, warmups = procedure.propose(self.line, first)
            inferences = self.own.inferences or inferences
        else:
            inferences, warmups = 1, 0
        self.progress.say(f"{len(self.files):,} inputs, {inferences:,} inferences on each")
        return (self._by_client if self.own.runner is None else self._by_runner)(inferences, warmups)

    def _report(self, windows: tuple[Window, ...], inferences: int, warmups: int) -> MlperfReport:
        return MlperfReport(
            id=self.identity.benchmark,
            model=self.project.model.name,
            board=self.project.target.board,
            mode=self.own.mode,
            official=self.own.runner is not None,
            emulated=self.device.shift is not None,
            name=self.identity.name,
            profile=self.identity.profile,
            inferences=inferences,
            warmups=warmups,
            inputs=len(self.files),
            made_up=self.own.data is None and self.own.cases is None,
            windows=windows,
            instructions=self._instructions(windows),
            port="" if self.device.shift is not None else self.device.port,
        )

    def _instructions(self, windows: tuple[Window, ...]) -> int | None:
        """Instructions of an inference: what the emulator's clock counted, whose rate is known."""
        if self.device.shift is None or not windows or counter_hz(self.project.target.board) is None:
            return None
        each_us = median((w.end_us - w.start_us) / w.inferences for w in windows)
        return round(each_us * 1000 / (1 << self.device.shift))

    def _by_client(self, inferences: int, warmups: int) -> MlperfReport:
        benchmark = self.identity.benchmark
        if self.own.mode == PERFORMANCE:
            windows, host_s = procedure.measure(self.line, self.files, benchmark, inferences, warmups)
            return dataclasses.replace(
                self._report(windows, inferences, warmups),
                throughput=median_throughput(windows),
                errors=tuple(objections(windows, host_s)),
            )
        result = procedure.classify(self.line, self.files, benchmark, self.progress.count)
        results = [[window.results for window in of_file] for of_file in result]
        top1, auc = score(results, [file.label for file in self.files])
        flat = tuple(window for of_file in result for window in of_file)
        return dataclasses.replace(self._report(flat, inferences, warmups), top1_percent=top1, auc=auc)

    def _by_runner(self, inferences: int, warmups: int) -> MlperfReport:
        with tempfile.TemporaryDirectory(prefix="mlf-mlperf-") as name:
            folder = Path(name)
            timed = self.own.mode == PERFORMANCE
            job = Job(
                runner=Path(self.own.runner or ""),
                python=self.own.runner_python,
                port=self.device.port,
                baud=self.device.baud,
                folder=folder,
                benchmark=self.identity.benchmark,
                mode=self.own.mode,
                inferences=inferences,
                warmups=warmups,
                files=self.files,
                timeout_s=_PERFORMANCE_S if timed else _ACCURACY_S * (1 + len(self.files)),
            )
            self.progress.say("running the official runner")
            result = run_official(job, watch=self.progress.log)
            return dataclasses.replace(
                self._report(result.windows, inferences, warmups),
                throughput=result.throughput,
                top1_percent=result.top1_percent,
                auc=result.auc,
                errors=result.objections,
                session=_kept(result.session, self.own.save),
            )


def _kept(session: Path, save: str | None) -> Path | None:
    """Copy the runner's log and results out of the temporary folder."""
    if save is None:
        return None
    target = Path(save)
    make_folder(target)
    for path in sorted(session.iterdir()):
        if path.is_file():
            write_whole(target / path.name, path.read_bytes())
    return target
