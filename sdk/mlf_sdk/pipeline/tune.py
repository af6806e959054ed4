# SPDX-License-Identifier: Apache-2.0
"""Choice of kernels by counting: those of many layers in one image, on an emulated board or on a real one.

Each kernel computes its layer on the same inputs. Only those whose outputs equal the compiler's reference (of
floats: the outputs of the kernel that the rules choose), bit for bit, can be chosen. Costs are kept in the
cache under everything that decides them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.options import GENERIC, CompileOptions, Goal
from mlf_sdk.errors import InputError, MlfError, ToolError
from mlf_sdk.judge.counting import missing_plugin_support
from mlf_sdk.judge.timings import timings_of
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.stages import board_of
from mlf_sdk.resources import cache_dir, data_dir
from mlf_sdk.targets.boards.isa import isa_of
from mlf_sdk.targets.boards.load import find_board, load_board
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.discovery import find_tools, known_tools
from mlf_sdk.tools.files import make_folder, write_whole
from mlf_sdk.tools.locks import cache_in_use
from mlf_sdk.tools.process import run_process
from mlf_sdk.tools.toolchains import GCC, choose_toolchain, load_toolchains
from mlf_sdk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlf_sdk.compiler.graph import Graph
    from mlf_sdk.compiler.operators import Array
    from mlf_sdk.compiler.schedule import Counted, TuningTask
    from mlf_sdk.judge.profile import Profile
    from mlf_sdk.pipeline.options import ProbeOptions

RULES: Final = 2  # changes with the meaning of what is kept
_SHARE: Final = 0.6  # of a board's memories that kernels and what they read and write may take
_ESTIMATED: Final = "estimated cycles"
_TIMEOUT_S: Final = 600.0  # of one image


@contextmanager
def measuring_request(request: Request) -> Iterator[Request]:
    """Request for the board that counts: that of ``request``, or an emulated one with its core.

    Raises:
        InputError: neither is stated; the board is not emulated, and no port is given.
    """
    if request.board is not None:
        board = find_board(request.board, request.board_file)
        if not board.is_emulated and request.port is None:
            raise InputError(
                f"{board.name} is not emulated",
                where="--tune",
                hint="Give its --port to count cycles on it, or --core to count on an emulated board.",
            )
        yield request
        return
    core = core_named(request.core or GENERIC)
    if request.port is not None or not core.counted_on:
        raise InputError("which processor?", where="--tune", hint="Give --board or --core.")
    board = find_board(core.counted_on)
    if board.cpu.partition("+")[0] == core.name:
        yield request.replace(board=board.name)
        return
    with tempfile.TemporaryDirectory(prefix="mlf-tune-") as folder:
        path = Path(folder) / "board.toml"
        path.write_text(_board_for(core, board), encoding="utf-8")
        yield request.replace(board=load_board(path).name, board_file=str(path))


def _board_for(core: Core, board: Board) -> str:
    """A board row: code for a core without a large emulated board, executed by the core of another."""
    text = (data_dir("board_templates") / "boards" / f"{board.name}.toml").read_text(encoding="utf-8")
    text = text.replace(f'cpu = "{board.cpu}"', f'cpu = "{core.name}"')
    text = text.replace(f'name = "{board.name}"', f'name = "{board.name}-{core.name}"')
    machine = f'machine = "{board.qemu.machine}"' if board.qemu else ""
    return text.replace(machine, f'{machine}\ncpu = "{board.cpu}"')


class BoardTuner:
    """Answers which kernel of a layer takes the least on a board.

    Args:
        request: board and port, as of `measuring_request`.
        progress: called with each stage and its state.
        probe: how the board on the port is flashed.

    Attributes:
        unit: of the costs.
        estimates: they are cycles, by the timings of the core.
        measured: layers that were measured, and not taken from the cache.
    """

    def __init__(self, request: Request, progress: Progress, probe: ProbeOptions) -> None:
        self.progress = progress
        self.board = board_of(request)
        self.estimates = request.port is None and _is_estimated(self.board, request.goal)
        self.unit = _ESTIMATED if self.estimates else "instructions"
        if request.port is not None or self.board.rtl is not None:
            self.unit = _unit_of(self.board)
        self._probe = probe
        self.measured = 0
        self._request = dataclasses.replace(
            Request(source=request.source),
            **{name: getattr(request, name) for name in ("board", "board_file", "port", "baud", "max_baud")},
            timeout_s=_TIMEOUT_S,
        )
        self._kept = cache_dir("tuned")
        self._compiler = _compiler_version(self.board)

    @property
    def text(self) -> str:
        """Board, unit and compiler, as archives keep them."""
        return f"{self.unit} on {self.board.name}, {self._compiler}"

    def __call__(self, graph: Graph, tasks: list[TuningTask]) -> list[tuple[Counted, ...]]:
        """Answer each task; the cost of every kernel that is right, the cheapest first.

        Raises:
            ToolError: a tool is missing or failed, or a kernel that the rules choose is wrong.
            TargetError: the board did not answer.
        """
        from mlf_sdk.compiler.schedule import Counted

        keys = [self._key(graph, task) for task in tasks]
        costs = {key: cost for key in keys if (cost := self._read(key)) is not None}
        missing = {key: q for key, q in zip(keys, tasks, strict=True) if key not in costs}
        for batch in self._batches(graph, missing):
            layers, count = len(batch), sum(len(missing[key][1]) for key in batch)
            self.progress.say(f"counting {count} kernels of {layers} layers on {self.board.name}")
            costs |= self._measure(graph, {key: missing[key] for key in batch})
        answers: list[tuple[Counted, ...]] = []
        for key, (_, kernels) in zip(keys, tasks, strict=True):
            cost = costs.get(key)
            if cost is None:  # the board can't hold its kernels
                answers.append((Counted(kernel=kernels[0]),))
                continue
            right = [Counted(kernel=k, cost=c) for k, c in zip(kernels, cost, strict=True) if c is not None]
            answers.append(tuple(sorted(right, key=lambda one: one.cost or 0)))
        return answers

    def _key(self, graph: Graph, task: TuningTask) -> str:
        """Hash of everything that decides: code, constants, shapes, board, compiler, SDK."""
        operator, kernels = task
        digest = hashlib.sha256(f"{RULES} {__version__} {self.text} {self._request.port}".encode())
        digest.update(repr(self.board).encode())
        digest.update(repr(dataclasses.replace(operator, number=0, inputs=(), outputs=())).encode())
        for value in (*graph.read(operator), *graph.written(operator)):
            digest.update(f"{value.dtype} {value.shape} {value.quantisation}".encode())
            digest.update(b"" if value.data is None else value.data.tobytes())
        for kernel in kernels:
            digest.update(f"{kernel.key} {sorted(kernel.helpers.items())}".encode())
            for array in kernel.constants:
                digest.update(array.tobytes())
        return digest.hexdigest()[:32]

    def _read(self, key: str) -> list[int | None] | None:
        try:
            result = json.loads((self._kept / f"{key}.json").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, list) else None

    def _batches(self, graph: Graph, missing: dict[str, TuningTask]) -> Iterator[list[str]]:
        """Layers that fit on the board together; those that don't fit alone are left out."""
        room = int(self.board.ram.size_bytes * _SHARE), int(self.board.flash.size_bytes * _SHARE)
        batch: list[str] = []
        used = 0
        for key, (operator, kernels) in missing.items():
            reads = [v for v in graph.read(operator) if v.data is None]
            writes = graph.written(operator)
            wanted = sum(v.size_bytes for v in writes)
            ram = wanted * (len(kernels) if any(v.dtype.kind == "f" for v in writes) else 1)
            ram += max(k.workspace_bytes for k in kernels)
            flash = sum(v.size_bytes for v in reads) + wanted + sum(k.constants_bytes + 4096 for k in kernels)
            if ram > room[0] or flash > room[1]:
                continue
            if batch and used + flash > room[1]:
                yield batch
                batch, used = [], 0
            batch.append(key)
            used += flash
        if batch:
            yield batch

    def _measure(self, graph: Graph, tasks: dict[str, TuningTask]) -> dict[str, list[int | None]]:
        """Cost of each kernel of each task; None for one whose outputs differ."""
        from mlf_sdk.pipeline.tunegraph import Trial

        trial = Trial(graph, list(tasks.values()))
        with tempfile.TemporaryDirectory(prefix="mlf-tune-") as folder:
            path = Path(folder) / "kernels.tar"
            path.write_bytes(trial.archive())
            result, outputs = self._run(self._request.replace(source=(str(path),)))
        costs = {
            step.layer.number: step.cycles if self.estimates else step.cost
            for step in result.steps
            if step.layer is not None
        }
        right = trial.right(outputs)
        answers: dict[str, list[int | None]] = {}
        number = 0
        for key, (operator, kernels) in tasks.items():
            answers[key] = []
            for _ in kernels:
                answers[key].append(costs[number] if right[number] else None)
                number += 1
            if answers[key][0] is None:
                raise ToolError(
                    f"{kernels[0].label} gives wrong outputs on {self.board.name}",
                    where=f"layer {operator.number}, {operator.kind}",
                    hint="This is a fault of the compiler: report it with the model. Compile without --tune.",
                )
            self.measured += 1
            with cache_in_use():
                make_folder(self._kept)
                write_whole(self._kept / f"{key}.json", json.dumps(answers[key]).encode())
        return answers

    def _run(self, request: Request) -> tuple[Profile, Sequence[Array]]:
        """Costs of the steps, and the outputs."""
        from mlf_sdk.pipeline.options import ProfileOptions
        from mlf_sdk.pipeline.profile import profile_request

        pipeline = Pipeline()
        if request.port is not None:
            self._flash(request)
        result = profile_request(request, ProfileOptions(), pipeline)
        return result, pipeline.execute(request.replace(trace=False)).outputs

    def _flash(self, request: Request) -> None:
        """Build the image and flash it to the board on the port."""
        from mlf_sdk.pipeline.api import build, generate
        from mlf_sdk.pipeline.flash import flash
        from mlf_sdk.pipeline.options import FlashOptions

        with tempfile.TemporaryDirectory(prefix="mlf-tune-") as folder:
            app = Path(folder) / "app"
            made = request.replace(source=(), port=None, baud=None, max_baud=None, trace=False)
            generate(request.source[0], app, made)
            build(app)
            self.progress.say(f"flashing {self.board.name}")
            job = request.replace(
                source=(), board=None, board_file=None, port=self._probe.port or request.port
            )
            own = FlashOptions(
                runner=self._probe.runner, runner_file=self._probe.runner_file, console=request.port
            )
            flash(app, job, own=own)


def _is_estimated(board: Board, goal: str) -> bool:
    """True where kernels are compared by cycles that the core's timings give for counted instructions."""
    has_timings = goal != Goal.INSTRUCTIONS.value and timings_of(board.cpu) is not None
    return has_timings and not missing_plugin_support(board)


def _unit_of(board: Board) -> str:
    """Unit of a board's clock."""
    return "cycles" if board.counter is not None and board.counter.hz == board.clock_hz else "ticks"


def _compiler_version(board: Board) -> str:
    """Compiler that counted images are built with, and its version."""
    isa = isa_of(board)
    program = isa.tools.c if isa is not None else "cc"
    name = GCC if isa is None else choose_toolchain(isa, None)
    if name != GCC:
        known = tuple(one for one in known_tools() if one.name == load_toolchains()[name].programs[0])
        return " ".join(f"{one.tool.name} {one.version or ''}".strip() for one in find_tools(known))
    try:
        return f"{program} {run_process([program, '-dumpfullversion'], timeout_s=20).stdout.strip()}"
    except MlfError as error:
        error.hint = f"Counting needs {program}. " + error.hint
        raise


def tuned_options(options: CompileOptions, tuner: BoardTuner | None) -> CompileOptions:
    """The options with what chose the kernels."""
    return options if tuner is None else dataclasses.replace(options, tuned=tuner.text)
