# SPDX-License-Identifier: Apache-2.0
"""How long the commands take that people wait for, in seconds; the best of a few tries."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.pipeline.api import build, generate
from mlf_sdk.tools.process import run_process
from step_chains import residual_chain

BOARD = "mps2-an386"
COMMAND = (sys.executable, "-m", "mlf_sdk")


def best_of(tries: int, action: Callable[[int], object]) -> float:
    """Seconds of the fastest call of ``action``, which is given the number of the try."""
    seconds = []
    for number in range(tries):
        start = time.monotonic()
        action(number)
        seconds.append(time.monotonic() - start)
    return min(seconds)


def command(arguments: Sequence[str], *, cache: Path) -> None:
    """Run mlf-sdk in a process of its own, with its cache in ``cache``."""
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    run_process([*COMMAND, *arguments], timeout_s=300, env=env)


def cold_run_seconds(archive: Path, folder: Path, *options: str) -> float:
    """``mlf-sdk run`` with an empty cache: start, read, plan, generate, build, boot, run, compare."""

    def once(number: int) -> None:
        cache = folder / f"cache-{len(options)}-{number}"
        command(["run", str(archive), "--board", BOARD, *options], cache=cache)

    return best_of(2, once)


def generate_seconds(archive: Path, folder: Path) -> float:
    """``generate`` from Python, into a new folder."""
    return best_of(3, lambda number: generate(archive, folder / f"api-{number}", board=BOARD))


def generate_command_seconds(archive: Path, folder: Path) -> float:
    """``mlf-sdk generate`` into a new folder, start of the interpreter and imports included."""

    def once(number: int) -> None:
        target = folder / f"command-{number}"
        command(["generate", str(archive), "-o", str(target), "--board", BOARD], cache=folder / "cache")

    return best_of(3, once)


def rebuild_seconds(archive: Path, folder: Path) -> float:
    """``build`` of a built project whose src/main.c was touched."""
    project = folder / "rebuild"
    generate(archive, project, board=BOARD)
    build(project)

    def once(_: int) -> None:
        (project / "src" / "main.c").touch()
        build(project)

    return best_of(3, once)


def growth_with_steps(folder: Path) -> dict[str, float]:
    """CPU time of ``compile`` and of ``generate`` for 10,000 steps, as a multiple of that for 2,000.

    Each is the least of three: the others hold what else the machine did, a collection of garbage for one.
    """
    folder.mkdir(parents=True)
    spent: dict[str, list[float]] = {"compile": [], "generate": []}
    for steps in (10, 2_000, 10_000):  # the first imports, and keeps what all share
        model = folder / f"chain{steps}.tflite"
        model.write_bytes(residual_chain(steps))
        archive = model.with_suffix(".tar")
        compiled, generated = [], []
        for number in range(3):
            start = time.process_time()
            archive.write_bytes(compiling_frontend(model).compile(model, CompileOptions()))
            compiled.append(time.process_time() - start)
            start = time.process_time()
            generate(archive, folder / f"project{steps}-{number}", board=BOARD)
            generated.append(time.process_time() - start)
        spent["compile"].append(min(compiled))
        spent["generate"].append(min(generated))
    return {name: round(most / few, 2) for name, (_, few, most) in spent.items()}
