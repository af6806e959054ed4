# SPDX-License-Identifier: Apache-2.0
"""Start a runner with an image, and judge the result by its output and exit code."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.targets.flashers.errors import NoProbeError, NoRunnerError, RunnerFailedError, RunnerMissingError
from mlf_sdk.targets.flashers.image import flat_binary, intel_hex, load_segments, uf2, vector_table
from mlf_sdk.targets.flashers.output import joined, reported_failure, with_output
from mlf_sdk.targets.flashers.row import FILES, PLACEHOLDER, RunnerRow
from mlf_sdk.targets.flashers.volumes import MOUNTS, find_volume
from mlf_sdk.tools.process import ProcessError, ProcessResult, ProcessRunner, run_process

Which = Callable[[str], str | None]
Watch = Callable[[str], None]
_PORT = re.compile(r"[A-Za-z0-9_./:\[\]%+@-]+")  # nothing that a script could take for more than a name
_VERSION = re.compile(r"\bv?(\d+)\.\d+")
_VERSION_S = 20.0


class FlashJob(msgspec.Struct, frozen=True, kw_only=True):
    """One image for one board.

    Attributes:
        elf: the linked image.
        board: the board's name, for messages.
        options: the board row's options for runners.
        port: serial port, debug server, or folder of a volume; empty: not given.
        extra: the user's own arguments.
        timeout_s: for the runner, in seconds.
    """

    elf: Path
    board: str
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    port: str = ""
    extra: tuple[str, ...] = ()
    timeout_s: float = 120.0


class FlashRun(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a runner: command, output, bytes of the image, and time in seconds."""

    argv: tuple[str, ...]
    output: str
    image_bytes: int
    seconds: float


def run_runner(
    row: RunnerRow,
    job: FlashJob,
    *,
    watch: Watch | None = None,
    runner: ProcessRunner = run_process,
    which: Which = shutil.which,
    mounts: Path = MOUNTS,
) -> FlashRun:
    """Flash the image of ``job``.

    Args:
        row: the runner.
        job: the image and the board.
        watch: called with each line of the runner's output as it comes; errors do not repeat it then.
        runner: starts programs.
        which: finds them.
        mounts: the system's table of volumes.

    Raises:
        InputError: the image or an argument can't be used.
        NoRunnerError: the board row lacks an option that the runner needs.
        RunnerMissingError: its program is not installed.
        NoProbeError: it found nothing to work on.
        RunnerFailedError: it failed, was late, or did not say that it succeeded.
    """
    start = time.monotonic()
    options = {**row.defaults, **job.options}
    _check_needs(row, job, options)
    segments = load_segments(job.elf)
    with tempfile.TemporaryDirectory(prefix="mlf-flash-") as name:
        folder = Path(name)
        if row.kind == "copy":
            volume = find_volume(
                row.marker,
                label=options.get("label", ""),
                board_id=options.get("uf2_board_id", ""),
                given=job.port,
                mounts=mounts,
            )
            image = _write_image(row.file, folder, job, options)
            argv = ["dd", f"if={image}", f"of={volume / image.name}", "bs=64k", "conv=fsync"]
            result = _run(row, argv, job.timeout_s, runner, watch)
            _judge_copy(row, volume, result)
        else:
            program = _program(row, which)
            options = {**_dialect(row, program, runner), **options}
            argv = [program, *_program_arguments(row, job, folder, options)]
            result = _run(row, argv, job.timeout_s, runner, watch)
            _judge(row, result, shown=watch is not None)
    return FlashRun(
        argv=tuple(argv),
        output=joined(result),
        image_bytes=sum(len(s.data) for s in segments),
        seconds=time.monotonic() - start,
    )


def check_program(row: RunnerRow, which: Which = shutil.which) -> None:
    """Check that a runner's program is installed, before anything else is asked for.

    Raises:
        RunnerMissingError: it is not.
    """
    if row.kind == "program":
        _program(row, which)


def _check_needs(row: RunnerRow, job: FlashJob, options: Mapping[str, str]) -> None:
    missing = [need for need in row.needs if need not in options]
    if missing and not job.extra:
        raise NoRunnerError(
            f"the board row lacks {', '.join(missing)}, which {row.name} needs",
            where=f"board {job.board}",
            hint=f"Add it to [flasher.options] of the row, or pass arguments of {row.name} behind --.",
        )
    if row.kind == "program" and row.port != "none" and not job.port:
        hint = {
            "gdb": "Give the debug server: --port localhost:3333 (or the path of its socket).",
            "serial": "Give the board's serial port: --port /dev/ttyACM0.",
        }[row.port]
        raise InputError(f"{row.name} needs a port", where="--port", hint=hint)
    if job.port and row.kind == "program" and not _PORT.fullmatch(job.port):
        raise InputError(f"'{job.port}' is no port", where="--port")


def _program(row: RunnerRow, which: Which) -> str:
    program = next((path for path in map(which, row.program) if path), None)
    if program is None:
        names = " or ".join(f"'{name}'" for name in row.program)
        raise RunnerMissingError(f"{names} is not installed", where=f"runner {row.name}", hint=row.install)
    return program


def _dialect(row: RunnerRow, program: str, runner: ProcessRunner) -> Mapping[str, str]:
    """Return the options that fit the program's version; of an unknown version: the newest ones."""
    if not row.dialects:
        return {}
    version = None
    with suppress(ProcessError):
        said = runner([program, *row.version_args], timeout_s=_VERSION_S, check=False)
        version = _VERSION.search(joined(said)) if said.returncode == 0 else None
    known = [d for d in row.dialects if version is None or d.since <= int(version[1])]
    return max(known, key=lambda dialect: dialect.since).options


def _program_arguments(row: RunnerRow, job: FlashJob, folder: Path, options: Mapping[str, str]) -> list[str]:
    used = {name for text in row.texts() for name in PLACEHOLDER.findall(text)}
    values = dict(options)
    for kind in FILES:
        if kind in used:
            values[kind] = str(_write_image(kind, folder, job, options))
    segments = load_segments(job.elf)
    values["address"] = f"{segments[0].address:#x}"
    values["vectors"] = f"{vector_table(job.elf, segments):#x}"
    values["port"] = job.port
    if row.script:
        script = folder / "script"
        script.write_text(_filled(row.script, values, row), encoding="utf-8")
        values["script"] = str(script)
    return _arguments(row, values, job.extra)


def _arguments(row: RunnerRow, values: Mapping[str, str], extra: Sequence[str]) -> list[str]:
    result: list[str] = []
    for arg in row.args:
        if arg == "{extra}":
            result += extra
        elif isinstance(arg, str):
            result.append(_filled(arg, values, row))
        elif all(name in values for part in arg for name in PLACEHOLDER.findall(part)):
            result += [_filled(part, values, row) for part in arg]
    return result if "{extra}" in row.args else [*result, *extra]


def _filled(text: str, values: Mapping[str, str], row: RunnerRow) -> str:
    unknown = [name for name in PLACEHOLDER.findall(text) if name not in values]
    if unknown:
        raise NoRunnerError(
            f"no value for the placeholder {{{unknown[0]}}}",
            where=f"runner {row.name}",
            hint="Add it to [flasher.options] of the board row.",
        )
    return PLACEHOLDER.sub(lambda result: values[result[1]], text)


def _write_image(kind: str, folder: Path, job: FlashJob, options: Mapping[str, str]) -> Path:
    """The image as a file of a plain name, so that no script has to quote it."""
    path = folder / f"image.{kind}"
    if kind == "elf":
        path.write_bytes(job.elf.read_bytes())
        return path
    segments = load_segments(job.elf)
    if kind == "uf2":
        path.write_bytes(uf2(segments, _family(job, options)))
    else:
        path.write_bytes(flat_binary(segments) if kind == "bin" else intel_hex(segments))
    return path


def _family(job: FlashJob, options: Mapping[str, str]) -> int:
    text = options.get("uf2_family", "")
    try:
        family = int(text, 0)
    except ValueError:
        family = -1
    if not 0 <= family <= 0xFFFFFFFF:
        raise NoRunnerError(
            f"'{text}' is no UF2 family" if text else "the board row lacks its UF2 family",
            where=f"board {job.board}",
            hint='Add it to [flasher.options] of the row, as uf2_family = "0xe48bff56".',
        )
    return family


def _run(
    row: RunnerRow, argv: Sequence[str], timeout_s: float, runner: ProcessRunner, watch: Watch | None
) -> ProcessResult:
    try:
        return runner(argv, timeout_s=timeout_s, check=False, watch=watch)
    except ProcessError as error:
        failure = reported_failure(row.failures, error.tail)
        if failure is not None:
            raise _failed(row, argv, failure.kind, f"{failure.what} ({error.what})", failure.hint) from error
        raise RunnerFailedError(
            f"{row.name}: {error.what}", where=error.where, hint=row.late or error.hint
        ) from error


def _judge(row: RunnerRow, result: ProcessResult, *, shown: bool) -> None:
    output = joined(result)
    tail = "" if shown else output
    missing = [p for p in row.success if not re.search(p, output, re.MULTILINE)]
    failure = reported_failure(row.failures, output)
    if result.returncode == 0 and not missing and failure is None:
        return
    if failure is not None:
        raise _failed(row, result.argv, failure.kind, with_output(failure.what, tail), failure.hint)
    if result.returncode != 0:
        what = f"{row.name} failed with exit code {result.returncode}"
    else:
        what = f"{row.name} ended without saying that it succeeded (no '{missing[0]}' in its output)"
    raise _failed(row, result.argv, "failed", with_output(what, tail), "See its output for what it says.")


def _judge_copy(row: RunnerRow, volume: Path, result: ProcessResult) -> None:
    """Judge a copy to a volume; a board may leave the bus before the last block is acknowledged."""
    try:
        refused = (
            (volume / row.fail_file).read_text(encoding="utf-8", errors="replace") if row.fail_file else ""
        )
    except OSError:
        refused = ""
    if refused:
        raise _failed(row, result.argv, "failed", with_output("the board refused the image", refused), "")
    if result.returncode != 0 and (volume / row.marker).is_file():
        what = with_output("the image could not be copied", joined(result))
        raise _failed(row, result.argv, "failed", what, "See that the volume is writable and has room.")


def _failed(
    row: RunnerRow, argv: Sequence[str], kind: str, what: str, hint: str
) -> NoProbeError | RunnerFailedError:
    where = f"runner {row.name}: {shlex.join(argv)}"
    return (
        NoProbeError(what, where=where, hint=hint)
        if kind == "no-probe"
        else RunnerFailedError(what, where=where, hint=hint)
    )
