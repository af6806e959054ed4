# SPDX-License-Identifier: Apache-2.0
"""Sessions with an image that is started here, on this machine or emulated, and files that outlive it."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError, TargetError, ToolError
from mlf_sdk.targets.boards.load import machine_of, with_arguments
from mlf_sdk.targets.boards.row import Board, MachineMemory, Memory
from mlf_sdk.tools.process import RunningProcess, start_process
from mlf_sdk.wire.codes import DeviceError, DeviceFaultError, NoAnswerError
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.transport import PipeTransport, SocketTransport

if TYPE_CHECKING:
    from mlf_sdk.targets.qemu import QemuMachine
    from mlf_sdk.wire.session import Session

Console = Callable[[str], None]
_END_S = 2.0  # for a program that closed its connection to be gone
_WORDS = 2000
_HELLO_S = 0.02  # an emulated board that was spoken to before it listened hears it with the next byte
# Lines of QEMU and the address sanitizer without information: an unused network card, dumps of shadow memory.
_NOISE = re.compile(r"warning: nic \S+ has no peer|^(  |=>)0x[0-9a-f]+:|^Shadow byte|^=+$|DEADLYSIGNAL$")

_ASAN_OPTIONS = "abort_on_error=0:handle_abort=1:detect_leaks=0:exitcode=99:print_legend=0"
_FRAME_NUMBER = re.compile(r"^\s*#\d+ ")


@contextmanager
def open_program(
    elf: Path,
    *,
    timeout_s: float,
    console: Console | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """Start a program of this machine, and yield a session over its standard input and output.

    Args:
        elf: the program.
        timeout_s: for a run, in seconds.
        console: called with each piece of text that it prints.
        variables: more variables of its environment.
    """
    from mlf_sdk.wire.session import Session  # numpy takes time to load

    environment = {**os.environ, "ASAN_OPTIONS": _ASAN_OPTIONS, **(variables or {})}
    with start_process([str(elf)], env=environment, pipes=True) as process:
        transport = PipeTransport(process.stdout_fd, process.stdin_fd, name=f"host program {elf.name}")
        with (
            Session(transport, timeouts=_timeouts(timeout_s), console=console) as session,
            _explained(process, elf),
        ):
            yield session


@contextmanager
def open_emulated(
    board: Board, elf: Path, *, timeout_s: float, console: Console | None = None
) -> Iterator[Session]:
    """Start an image on an emulated or simulated board, and yield a session over its UART.

    Raises:
        InputError: the board is not emulated.
        ToolError: the emulator is missing or failed.
    """
    from mlf_sdk.wire.session import Session  # numpy takes time to load

    with _started(board, elf) as (machine, title), _flash_kept(board, elf, machine.monitor):
        transport = SocketTransport(machine.socket, name=f"{board.name} ({title})")
        timeouts = dataclasses.replace(_timeouts(timeout_s), hello_first_s=_HELLO_S)
        with (
            Session(transport, timeouts=timeouts, console=console) as session,
            _explained(machine.process, elf),
            _located(board, elf, machine.monitor),
        ):
            yield session


@contextmanager
def _started(board: Board, elf: Path) -> Iterator[tuple[QemuMachine, str]]:
    """The running machine, and what runs it."""
    if board.rtl is not None:
        from mlf_sdk.targets.rtl.launch import SIMULATOR_TITLE, start_simulation

        with start_simulation(board, elf) as machine:
            yield machine, SIMULATOR_TITLE
        return
    from mlf_sdk.targets.qemu import QemuOptions, start_qemu
    from mlf_sdk.targets.unicorn.launch import emulator_title

    with start_qemu(board, elf, QemuOptions(read_ahead=True)) as machine:
        yield machine, emulator_title(board)


@contextmanager
def _located(board: Board, elf: Path, monitor: socket.socket | None) -> Iterator[None]:
    """Add to a missing answer where the CPU is, and what the image expects of the line."""
    try:
        yield
    except NoAnswerError as error:
        from mlf_sdk.targets.silence import silence_text

        error.hint = "\n".join(filter(None, [error.hint, silence_text(board, elf, monitor)]))
        raise


def _timeouts(timeout_s: float) -> Timeouts:
    """Timeouts of a process: nothing is lost on the way to it, so it is silent while the machine is busy."""
    timeouts = Timeouts(run_s=timeout_s, transfer_s=max(timeout_s, Timeouts().transfer_s))
    while timeouts.silence_s < timeout_s:
        timeouts = dataclasses.replace(timeouts, tries=timeouts.tries + 1)
    return timeouts


@contextmanager
def _explained(process: RunningProcess, elf: Path) -> Iterator[None]:
    """Add to a target's failure how the program or emulator ended, and its last output.

    A fault is explained by ``elf``, or by what a sanitizer wrote.
    """
    try:
        yield
    except TargetError as error:
        from mlf_sdk.triage.explain import triage
        from mlf_sdk.triage.sanitizer import add_sanitizer_report, sanitizer_summary

        if isinstance(error, DeviceFaultError):
            process.wait(_END_S if not error.fault.registers else 0)  # a host program says more at its end
            result = triage(error.fault, elf, step_name=error.found.step_name)
            error.explain(add_sanitizer_report(result, process.stderr_text(), elf.parent.parent))
        elif (
            not isinstance(error, DeviceError | NoAnswerError) and (code := process.wait(_END_S)) is not None
        ):
            error.what = ": ".join(filter(None, [_ended(code), sanitizer_summary(process.stderr_text())]))
        if words := _words(process.stderr_text()):
            error.hint = "\n".join(filter(None, [error.hint, "It wrote:", words]))
        raise


def _ended(code: int) -> str:
    return f"the program ended with {f'exit code {code}' if code >= 0 else f'signal {-code}'}"


def _words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not _NOISE.search(line)]
    once = [next(same) for _, same in groupby(lines, lambda line: _FRAME_NUMBER.sub("", line))]
    return "\n".join(once)[-_WORDS:]


_END = "_PARAMS_STORE"
_QEMU_FILE = f"QEMU{_END}.bin"


def host_slots(elf: Path) -> dict[str, str]:
    """Return variables of the environment with which a host program finds its slots again."""
    return {path.stem: str(path.resolve()) for path in _files(elf)}


def with_slots(board: Board, elf: Path) -> Board:
    """Return an emulated board whose memory of the slots is kept in their file, if there is one."""
    files, memory = _files(elf), _kept_memory(board)
    if not files or (memory is None and board.flash_controller is None):
        return board
    path = str(files[0].resolve()).replace(",", ",,")
    if memory is None:
        start = board.flash.end - files[0].stat().st_size
        return with_arguments(board, ("-device", f"loader,file={path},addr={start:#x},force-raw=on"))
    backend = f"memory-backend-file,id=mlf-store,size={memory.size_bytes},mem-path={path},share=on"
    return with_arguments(board, ("-object", backend, "-machine", "memory-backend=mlf-store"))


def keep_host_slots(lock: Lock, elf: Path) -> None:
    """Create the files of a host program's slots where they are missing.

    Raises:
        InputError: the project has no slots.
    """
    _check_replaceable(lock)
    for model in lock.models:
        (elf.parent / f"{model.c_name.upper()}{_END}.bin").touch()


def keep_emulated_slots(lock: Lock, board: Board, elf: Path) -> None:
    """Create the file of an emulated board's slots where it is missing.

    Raises:
        InputError: the project has no slots, or the emulator can't keep their memory.
    """
    _check_replaceable(lock)
    memory = _kept_memory(board)
    if memory is None and board.flash_controller is None:
        raise InputError(
            "the emulator can't keep the memory that the parameters would be in",
            where=f"board {board.name}",
            hint="Push to a board on a port (--port), or choose mps2-an386.",
        )
    size = memory.size_bytes if memory is not None else _slots_in_flash(elf)
    path = elf.parent / _QEMU_FILE
    if not path.exists() or path.stat().st_size != size:
        path.write_bytes(b"")
        os.truncate(path, size)


def _slots_in_flash(elf: Path) -> int:
    """Bytes of the slots in flash of an image."""
    from mlf_sdk.analysis.elf.read import read_image
    from mlf_sdk.targets.boards.requirements import SLOTS_REGION

    return sum(s.size_bytes for s in read_image(elf).sections if s.name == f".{SLOTS_REGION}")


@contextmanager
def _flash_kept(board: Board, elf: Path, monitor: socket.socket | None) -> Iterator[None]:
    """Write the slots in flash to their file, if there is one, as they are when the block ends.

    Raises:
        InputError: the emulator has no monitor.
        ToolError: it did not write them.
    """
    files = _files(elf) if board.flash_controller is not None else []
    if not files:
        yield
        return
    if monitor is None:
        raise InputError(
            "this emulator can't keep flash that is written",
            where=f"board {board.name}",
            hint="Install QEMU.",
        )
    from mlf_sdk.targets.silence import save_memory

    size = files[0].stat().st_size
    save = partial(save_memory, monitor, board.flash.end - size, size, files[0])
    try:
        yield
    except BaseException:
        with suppress(ToolError):  # the first error says more
            save()
        raise
    save()


def _files(elf: Path) -> list[Path]:
    return sorted(elf.parent.glob(f"*{_END}.bin"))


def _check_replaceable(lock: Lock) -> None:
    if lock.options.executor != "graph":
        raise InputError(
            "the parameters of this project can't be replaced",
            where=lock.board,
            hint="Generate it again with --executor graph.",
        )


def _kept_memory(board: Board) -> MachineMemory | None:
    """Return the machine's memory that can be kept in a file, if the board has its slots there."""
    machine = machine_of(board)
    if machine is None:
        return None
    more = [m.origin for m in board.memories if m.kind == "ram" and m.name != board.ram.name]
    main = (m for m in machine.memories if m.main)
    return next((m for m in main if any(0 <= at - m.origin < m.size_bytes for at in more)), None)


def slots_memory(board: Board) -> Memory | None:
    """Return the memory of an emulated board that simulated flash with slots lies in: a file can keep it."""
    kept = _kept_memory(board)
    more = (m for m in board.memories if m.kind == "ram" and m.name != board.ram.name and not m.zephyr)
    return next((m for m in more if kept and 0 <= m.origin - kept.origin < kept.size_bytes), None)
