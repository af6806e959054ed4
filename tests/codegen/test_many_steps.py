# SPDX-License-Identifier: Apache-2.0
"""Work that grows with the number of steps, not with its square: function calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from step_chains import residual_chain

FEW, TIMES = 100, 5
# A tenth more for logarithms; a tenth of the square of the steps, as it was once, is far more.
MOST = 1.1 * TIMES


def calls_of(work: Callable[[], object]) -> int:
    """Functions and generators that ``work`` calls or resumes, C functions included."""
    count = 0

    def counted(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def compiled(steps: int, folder: Path) -> tuple[Path, int]:
    """The archive of a chain, and the calls of its compilation."""
    path = folder / f"chain{steps}.tflite"
    path.write_bytes(residual_chain(steps))
    frontend, made = compiling_frontend(path), []
    calls = calls_of(lambda: made.append(frontend.compile(path, CompileOptions())))
    path.with_suffix(".tar").write_bytes(made[0])
    return path.with_suffix(".tar"), calls


def test_five_times_the_steps_take_five_times_the_calls(tmp_path: Path) -> None:
    compilations, projects = [], []
    for steps in (4, FEW, TIMES * FEW):  # the first imports, and keeps what all share
        archive, calls = compiled(steps, tmp_path)
        compilations.append(calls)
        request = Request(source=(str(archive),), board="mps2-an386")
        projects.append(calls_of(lambda request=request: Pipeline().plan(request).files()))
    assert compilations[2] < MOST * compilations[1]
    assert projects[2] < MOST * projects[1]
