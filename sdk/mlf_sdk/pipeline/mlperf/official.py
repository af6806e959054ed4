# SPDX-License-Identifier: Apache-2.0
"""The official runner of MLPerf Tiny, started unchanged against a port."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.pipeline.mlperf.inputs import InputFile, write_folder
from mlf_sdk.pipeline.mlperf.results import PERFORMANCE, WINDOWS
from mlf_sdk.tools.process import ProcessResult, ProcessRunner, run_process
from mlf_sdk.wire.mlperf import Window

LAUNCHER: Final = Path(__file__).with_name("launcher.py")
MAIN: Final = "main.py"
_VID, _PID = 0x1209, 0x0001  # an id for tests
_MODULES: Final = "numpy scikit-learn matplotlib pyyaml pyserial pyusb"
_OBJECTION: Final = re.compile(r"^.*\b(?:ERROR|WARNING)\b.*$", re.MULTILINE)
_MEDIAN: Final = re.compile(r"Median throughput is\s+([0-9.]+)")
_TOP1: Final = re.compile(r"Top 1% = ([0-9.]+)")
_AUC: Final = re.compile(r"AUC = ([0-9.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of the official runner.

    Attributes:
        runner: folder that holds its ``main.py``.
        python: interpreter that has its packages: a path, or a name on PATH.
        port, baud: of the board.
        folder: where it works: its session, its configuration, its inputs.
    """

    runner: Path
    python: str
    port: str
    baud: int
    folder: Path
    benchmark: str
    mode: str
    inferences: int
    warmups: int
    files: Sequence[InputFile]
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Results as the official runner states them; None where it states none."""

    windows: tuple[Window, ...]
    throughput: float | None
    top1_percent: float | None
    auc: float | None
    objections: tuple[str, ...]
    session: Path


def main_of(folder: Path) -> Path:
    """Find the runner's main program in its folder, or in a checkout of its repository.

    Raises:
        InputError: it is not there.
    """
    for result in (folder / MAIN, folder / "benchmark" / "runner" / MAIN):
        if result.is_file() and (result.parent / "device_manager.py").is_file():
            return result.resolve()
    raise InputError(
        "the runner of MLPerf Tiny is not here",
        where=str(folder),
        hint="Clone https://github.com/mlcommons/tiny and give its folder benchmark/runner.",
    )


def run_official(
    job: Job, *, run: ProcessRunner = run_process, watch: Callable[[str], None] | None = None
) -> Outcome:
    """Run the official runner, and read its results.

    Raises:
        InputError: there is no such runner.
        ToolError: it failed, or a package of its Python is missing.
    """
    main = main_of(job.runner)
    _configure(job)
    argv = [_program(job.python), str(LAUNCHER), job.port, f"{_VID:x}", f"{_PID:x}", str(main)]
    argv += ["-d", "devices.yaml", "-t", "tests.yaml", "-s", "datasets", "-m", job.mode[0]]
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(argv, timeout_s=job.timeout_s, cwd=job.folder, env=environment, check=False, watch=watch)
    if done.returncode != 0:
        raise _failed(done)
    return _outcome(job, done)


def _program(python: str) -> str:
    """Interpreter for a process in another folder: an absolute path, its links (of a venv) as they are."""
    return os.path.abspath(python) if os.path.dirname(python) else python  # noqa: PTH100, PTH120


def _failed(done: ProcessResult) -> ToolError:
    missing = re.search(r"No module named '([^']+)'|(NoBackendError)", done.tail())
    hint = "See its last lines."
    if missing:
        hint = f"Its Python needs {_MODULES}, and the system libusb-1.0; name it with --runner-python."
    return ToolError(
        f"the official runner failed with exit code {done.returncode}:\n  "
        + "\n  ".join(done.tail().splitlines()),
        where="--runner",
        hint=hint,
    )


def _configure(job: Job) -> None:
    """Write what the runner reads: devices, script and inputs."""
    write_folder(job.folder / "datasets" / job.benchmark, job.files)
    (job.folder / "devices.yaml").write_text(devices_text(job.baud), encoding="utf-8")
    (job.folder / "tests.yaml").write_text(
        script_text(job.benchmark, job.mode, job.inferences, job.warmups), encoding="utf-8"
    )


def devices_text(baud: int) -> str:
    """Devices file of the runner with one board, whose port runs at ``baud``."""
    return f"- name: board\n  type: dut\n  baud: {baud}\n  usb:\n    0x{_VID:04x}: 0x{_PID:04x}\n"


def script_text(benchmark: str, mode: str, inferences: int, warmups: int) -> str:
    """Test script of the runner for one benchmark: that of its own, with ``inferences`` of our choice."""
    is_timed = mode == PERFORMANCE
    step = f"infer {inferences} {warmups}" if is_timed else "infer 1 0"
    loop = f"loop {WINDOWS}" if is_timed else "loop"
    return (
        f"{benchmark}:\n  name: {benchmark}\n  model: {benchmark}\n  truth_file: y_labels.csv\n"
        f"  script:\n    - {loop}:\n      - download\n      - {step}\n"
    )


def _outcome(job: Job, done: ProcessResult) -> Outcome:
    sessions = sorted((job.folder / "sessions").glob("*/results.json"))
    if not sessions:
        raise ToolError("the official runner wrote no results", where=str(job.folder), hint=done.tail())
    folder = sessions[-1].parent
    rows: list[dict[str, Any]] = json.loads(sessions[-1].read_text(encoding="utf-8"))
    text = (folder / "results.txt").read_text(encoding="utf-8")
    objections = [result.strip() for result in _OBJECTION.findall(f"{done.stdout}\n{done.stderr}\n{text}")]
    throughput, top1 = _number(_MEDIAN, text), _number(_TOP1, text)
    lacks = throughput is None if job.mode == PERFORMANCE else top1 is None
    if lacks and not objections:
        objections.append("the official runner states no result")
    return Outcome(
        windows=tuple(_window(row["infer"]) for row in rows if "infer" in row),
        throughput=throughput,
        top1_percent=top1,
        auc=_number(_AUC, text),
        objections=tuple(dict.fromkeys(objections)),
        session=folder,
    )


def _window(values: dict[str, Any]) -> Window:
    return Window(
        inferences=int(values["iterations"]),
        warmups=int(values["warmups"]),
        start_us=int(values["start_time"]),
        end_us=int(values["end_time"]),
        results=tuple(map(float, values["results"])),
    )


def _number(expression: re.Pattern[str], text: str) -> float | None:
    match = expression.search(text)
    return None if match is None else float(match[1])
