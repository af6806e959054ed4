# SPDX-License-Identifier: Apache-2.0
"""Builds a generated project with CMake and Ninja."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.errors import CodeError, DoesNotFitError, ToolError
from mlf_sdk.tools.files import DISK_FULL, disk_full_error, is_full
from mlf_sdk.tools.process import ProcessResult, ProcessRunner, run_process
from mlf_sdk.tools.programs import refuses_code

APP_ELF = "app.elf"
_OVERFLOW = re.compile(r"region [`'](\S+)' overflowed by (\d+) bytes")
_FAILED = re.compile(r"(error: |undefined reference|FAILED: |No such file)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """Result of a build.

    Attributes:
        elf: the linked image.
        seconds: duration.
        log: output of the build.
        signed: images that were signed for a bootloader.
    """

    elf: Path
    seconds: float
    log: str
    signed: tuple[Path, ...] = ()


def build_project(
    folder: Path,
    *,
    timeout_s: float = 600.0,
    jobs: int | None = None,
    runner: ProcessRunner = run_process,
    watch: Callable[[str], None] | None = None,
    variables: Mapping[str, str] | None = None,
) -> BuildResult:
    """Configure (when needed) and build the project in ``folder``.

    Args:
        folder: of the project.
        timeout_s: for all of it, in seconds.
        jobs: commands at once; None: as many as there are processors.
        runner: starts programs.
        watch: called with each line of their output.
        variables: more variables of their environment.

    Raises:
        DoesNotFitError: the image needs more memory than the board has.
        ToolError: a tool is missing or failed; its output ends the message.
    """
    start = time.monotonic()
    log = ""

    environment = {**os.environ, **variables} if variables else None

    def step(argv: list[str]) -> str:
        left_s = max(1.0, timeout_s - (time.monotonic() - start))
        result = runner(argv, cwd=folder, timeout_s=left_s, env=environment, check=False, watch=watch)
        if result.returncode != 0:
            error = build_error(argv, folder, result)
            if not isinstance(error, CodeError | DoesNotFitError) and is_full(folder):
                rules.unlink(missing_ok=True)  # CMake may have cut it off without a word
            raise error
        return result.stdout

    rules = folder / "build" / "build.ninja"
    if not rules.is_file():
        log += step(["cmake", "--preset", "default"])
    argv = ["cmake", "--build", "--preset", "default"]
    if jobs:
        argv += ["--parallel", str(jobs)]
    log += step(argv)
    return BuildResult(elf=folder / "build" / APP_ELF, seconds=time.monotonic() - start, log=log)


def build_error(argv: list[str], folder: Path, result: ProcessResult) -> DoesNotFitError | ToolError:
    """Return the error of a failed build command, with the relevant lines of its output.

    It is a `CodeError` only where a diagnostic says so: a compiler that was killed says nothing of the code.
    """
    output = result.stdout + result.stderr
    overflow = _OVERFLOW.search(output)
    if overflow:
        return DoesNotFitError(
            f"the image does not fit: {overflow.group(1)} overflows by {int(overflow.group(2)):,} bytes",
            where=str(folder),
            hint="Choose a board with more memory, optimise for size (--cflags=-Os), or use a smaller model.",
        )
    is_of_code = refuses_code(output)
    if DISK_FULL in output or (not is_of_code and is_full(folder)):
        return disk_full_error(str(folder))
    lines = output.splitlines()
    marks = [i for i, line in enumerate(lines) if _FAILED.search(line)]
    shown = lines[marks[0] : marks[0] + 12] if marks else lines[-12:]
    kind = CodeError if is_of_code else ToolError
    return kind(
        f"'{' '.join(argv)}' failed with exit code {result.returncode}:\n  " + "\n  ".join(shown),
        where=str(folder),
        hint="The folder is kept: repeat the command there to see all of its output.",
    )
