# SPDX-License-Identifier: Apache-2.0
"""Execution of external programs.

Argument lists, never a shell; a deadline always; each program leads a session of its own, and
whatever is left of its process group is killed when it ends, fails, is late, or is interrupted.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol

from mlf_sdk.errors import InputError, MissingToolError, ToolError
from mlf_sdk.tools.child import Follower, affinity, death_watch, last_lines, read_end, signal_group, wait_exit
from mlf_sdk.tools.programs import is_installed, missing_hint, search_path

GRACE_S = 1.0  # between the request to end and the kill
_OUTPUT_BYTES = 64 << 20  # of each stream; what exceeds it is cut off at the front


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """A program that has ended: its output, exit code (negative: the signal) and run time."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    def tail(self) -> str:
        """The end of its output, for a message."""
        return "\n".join(filter(None, (last_lines(self.stdout), last_lines(self.stderr))))


class ProcessError(ToolError):
    """A program is missing, failed, or was late.

    Attributes:
        argv: the command; returncode: None when it did not end by itself; tail: end of its output.
    """

    def __init__(
        self,
        what: str,
        *,
        argv: Sequence[str],
        returncode: int | None = None,
        tail: str = "",
        hint: str = "",
    ) -> None:
        text = f"{what}:\n  " + "\n  ".join(tail.splitlines()) if tail else what
        super().__init__(text, where=shlex.join(argv), hint=hint)
        self.argv = tuple(argv)
        self.returncode = returncode
        self.tail = tail


class MissingProgramError(ProcessError, MissingToolError):
    """A program is not installed."""


class ProcessRunner(Protocol):
    """Function that runs a program to its end: :func:`run_process`, or a test's stand-in."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input_data: bytes = b"",
        check: bool = True,
        watch: Callable[[str], None] | None = None,
    ) -> ProcessResult:
        """Run ``argv``; see :func:`run_process`."""


def run_process(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input_data: bytes = b"",
    check: bool = True,
    watch: Callable[[str], None] | None = None,
) -> ProcessResult:
    """Run a program to its end and return its output, decoded as UTF-8 with replacement.

    Args:
        argv: program and arguments.
        timeout_s: seconds until the program and all that it started are killed.
        cwd: folder to run in.
        env: the whole environment; None: this process's own.
        input_data: its standard input.
        check: raise when it fails.
        watch: called with each line of its output soon after it was written.

    Raises:
        ProcessError: the program is missing, is late, or (with ``check``) exits with non-zero.
    """
    start = time.monotonic()
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(input_data)
        stdin.seek(0)
        process = _spawn(argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
        late = False
        follower = Follower((stdout, stderr), watch) if watch is not None else None
        try:
            late = wait_exit(process.pid, start + timeout_s, follower) is None
        finally:
            _end_group(process, GRACE_S if late else 0.0)
        if follower is not None:
            follower.finish()
        result = ProcessResult(
            argv=tuple(argv),
            returncode=process.returncode,
            stdout=read_end(stdout, _OUTPUT_BYTES),
            stderr=read_end(stderr, _OUTPUT_BYTES),
            seconds=time.monotonic() - start,
        )
    if late:
        raise ProcessError(
            f"it did not end within {timeout_s:g} s and was stopped",
            argv=argv,
            tail=result.tail(),
            hint="Allow it more time, or see its last output for what it waited for.",
        )
    if check and result.returncode != 0:
        raise ProcessError(
            _outcome(result.returncode), argv=argv, returncode=result.returncode, tail=result.tail()
        )
    return result


class RunningProcess:
    """Program that runs in the background until :meth:`stop`; a context manager that ends it."""

    def __init__(self, argv: Sequence[str], process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
        self.argv = tuple(argv)
        self._process = process
        self._stderr = stderr
        self._last_words = ""

    def __enter__(self) -> RunningProcess:
        """Use it in a with block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the program."""
        self.stop()

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its group."""
        return self._process.pid

    @property
    def stdin_fd(self) -> int:
        """A new file descriptor of its standard input, the caller's to close (only with ``pipes``)."""
        return _duplicate(self._process.stdin)

    @property
    def stdout_fd(self) -> int:
        """A new file descriptor of its standard output, the caller's to close (only with ``pipes``)."""
        return _duplicate(self._process.stdout)

    def exit_code(self) -> int | None:
        """Exit code (negative: the signal); None while the program runs."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end of the program; its exit code, None if still running after ``timeout_s``."""
        if self._process.returncode is not None:
            return self._process.returncode
        return wait_exit(self.pid, time.monotonic() + timeout_s)

    def stderr_text(self) -> str:
        """The program's standard error so far; of a very long one its end."""
        if not self._stderr.closed:
            self._last_words = read_end(self._stderr, _OUTPUT_BYTES)
        return self._last_words

    def stderr_tail(self) -> str:
        """End of the program's standard error, short enough for a message."""
        return last_lines(self.stderr_text())

    def stop(self, grace_s: float = GRACE_S) -> int:
        """Terminate the program, kill its group after ``grace_s``, reap it; returns its exit code."""
        try:
            _end_group(self._process, grace_s)
        finally:
            self.stderr_text()
            self._stderr.close()
            for pipe in filter(None, (self._process.stdin, self._process.stdout)):
                with suppress(OSError):
                    pipe.close()
        return self._process.returncode


def start_process(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    pipes: bool = False,
    pass_fds: Sequence[int] = (),
    cpus: Set[int] | None = None,
) -> RunningProcess:
    """Start a background program, as a context manager that kills its process group at the end.

    The system also kills it when this process (the thread that started it) dies, where util-linux's
    setpriv is at hand.

    Args:
        argv: program and arguments.
        cwd: folder to run in.
        env: the whole environment; None: this process's own.
        pipes: standard input and output are pipes to us; else nothing and dropped.
        pass_fds: file descriptors that it inherits under the same numbers.
        cpus: the CPUs that it may use; None: all of ours.

    Raises:
        ProcessError: the program is missing.
    """
    stream = subprocess.PIPE if pipes else subprocess.DEVNULL
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
    try:
        with affinity(cpus):
            process = _spawn(
                argv,
                cwd=cwd,
                env=env,
                stdin=stream,
                stdout=stream,
                stderr=stderr,
                pass_fds=pass_fds,
                bound=True,
            )
    except BaseException:
        stderr.close()
        raise
    return RunningProcess(argv, process, stderr)


def run_interactive(argv: Sequence[str], *, cwd: Path | None = None) -> int:
    """Run a program that has the terminal until it ends, and return its exit code; Ctrl-C is for it alone.

    Raises:
        ProcessError: the program is missing.
    """
    if not is_installed(argv[0], cwd, None):
        raise MissingProgramError(f"'{argv[0]}' is not installed", argv=argv, hint=missing_hint(argv[0]))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with subprocess.Popen(argv, cwd=cwd, preexec_fn=_hear_interrupts) as process:  # noqa: PLW1509
            return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _spawn(
    argv: Sequence[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: IO[bytes],
    pass_fds: Sequence[int] = (),
    bound: bool = False,
) -> subprocess.Popen[bytes]:
    if not argv or not argv[0]:
        raise InputError("no program was given to run")
    if not is_installed(argv[0], cwd, env):
        raise MissingProgramError(f"'{argv[0]}' is not installed", argv=argv, hint=missing_hint(argv[0]))
    try:
        return subprocess.Popen(
            [*(death_watch() if bound else ()), *argv],
            cwd=cwd,
            env=_environment(os.environ if env is None else env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise ProcessError(f"it could not be started: {error.strerror}{place}", argv=argv) from error


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: it finds those of packages, and writes messages as they are read."""
    path = search_path(given.get("PATH", os.defpath))
    return {**given, "PATH": path, "LC_ALL": "C.UTF-8"}


def _end_group(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End and reap a child, and kill all that is left of its group; safe to be interrupted."""
    if process.returncode is not None:
        return
    try:
        if grace_s > 0:
            signal_group(process.pid, signal.SIGTERM)
            wait_exit(process.pid, time.monotonic() + grace_s)
    finally:
        signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _duplicate(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise InputError("the program was started without pipes")
    return os.dup(pipe.fileno())


def _outcome(code: int) -> str:
    if code >= 0:
        return f"it failed with exit code {code}"
    with suppress(ValueError):
        return f"it was ended by the signal {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"
