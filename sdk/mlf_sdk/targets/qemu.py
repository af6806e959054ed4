# SPDX-License-Identifier: Apache-2.0
"""Runs an image on an emulated board with the QEMU of its architecture, its UART on a private socket pair.

Time in the emulator is counted in instructions (``-icount``): one instruction takes ``2**shift``
nanoseconds of the machine's time whatever the host does, so that a counter of the machine counts
instructions, and the same run gives the same count (see qemu/README.md).
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.process import RunningProcess, start_process

_NS_PER_S = 1_000_000_000
_Socket = socket.socket


class QemuOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the emulation.

    Attributes:
        icount_shift: one instruction takes ``2**icount_shift`` ns (0 to 10); None: as long as it takes.
        real_time: the machine's clock never runs ahead of the host's (with ``icount_shift``).
        read_ahead: QEMU takes up to 32 bytes more than the UART holds, so that its threads need not take
            turns for each byte: input takes a third of the time. A byte that comes before the image
            enables its receiver waits there for the next one: for hosts that repeat what is not answered.
        args: more arguments.
    """

    icount_shift: int | None = 0
    real_time: bool = False
    read_ahead: bool = False
    args: tuple[str, ...] = ()


def instructions(ticks: int, hz: int, *, icount_shift: int = 0) -> int:
    """Instructions in ``ticks`` of a counter of ``hz``.

    To within one when an instruction takes a tick or more (``2**icount_shift >= 1e9 / hz``), else to
    within the instructions of a tick.
    """
    scaled = hz << icount_shift
    return (ticks * _NS_PER_S + scaled // 2) // scaled


def tick_instructions(hz: int) -> int:
    """Instructions in one tick of a counter of ``hz``, rounded up: the resolution of a count by the clock."""
    return -(-_NS_PER_S // hz)


class QemuMachine(msgspec.Struct, frozen=True):
    """Running emulated board.

    Attributes:
        process: the emulator.
        socket: the console, a connected stream socket.
        monitor: of the emulator, likewise; None: it has none.
    """

    process: RunningProcess
    socket: _Socket
    monitor: _Socket | None = None


def qemu_argv(
    board: Board,
    elf: Path,
    *,
    console_fd: int | None,
    options: QemuOptions,
    monitor_fd: int | None = None,
) -> list[str]:
    """The command that emulates ``board`` with the image ``elf``, its console on a socket or a pty.

    Args:
        console_fd: the socket; None: a pty, which QEMU names on its standard output.
        options: of the emulation.
        monitor_fd: the socket of its monitor; None: it has none.

    Raises:
        InputError: the board is not emulated.
    """
    row = board.qemu
    if row is None:
        raise InputError(
            "the board is not emulated",
            where=f"board {board.name}",
            hint="Choose one that is (mlf-sdk boards), or give its row a table [qemu].",
        )
    argv = [cross_isa(board).tools.emulator, "-machine", row.machine, "-nodefaults", "-no-reboot"]
    argv += ["-display", "none", "-nic", "none"]
    if monitor_fd is None:
        argv += ["-monitor", "none"]
    else:
        argv += ["-chardev", f"socket,id=monitor,fd={monitor_fd}", "-mon", "chardev=monitor,mode=readline"]
    if row.cpu:
        argv += ["-cpu", row.cpu]
    kind = "pty,id=console" if console_fd is None else f"socket,id=console,fd={console_fd}"
    if options.read_ahead:  # a multiplexer of one device, which has a buffer; no byte is its escape character
        kind += ",mux=on"
        argv += ["-echr", "256"]
    argv += ["-chardev", kind]
    for _ in range(row.serial_index):
        argv += ["-serial", "null"]
    argv += ["-serial", "chardev:console"]
    if options.icount_shift is not None:
        align = ",align=on" if options.real_time else ""
        argv += ["-icount", f"shift={options.icount_shift}{align}"]
    return [*argv, *row.args, *options.args, "-kernel", str(elf)]


@contextmanager
def start_qemu(board: Board, elf: Path, options: QemuOptions | None = None) -> Iterator[QemuMachine]:
    """Boot ``elf`` on the emulated ``board``; leaving the block ends it.

    The console is connected before the CPU runs its first instruction: nothing is lost.

    Raises:
        InputError: the board is not emulated, or there is no such image.
        ToolError: QEMU is not installed.
    """
    if not elf.is_file():
        raise InputError("there is no such image", where=str(elf), hint="Build the project first.")
    from mlf_sdk.targets.unicorn.launch import check_emulator, unicorn_argv, uses_unicorn

    check_emulator(board, (options or QemuOptions()).args)
    chosen = options or QemuOptions()
    with ExitStack() as kept, ExitStack() as handed_over:
        ours, theirs = socket.socketpair()
        monitor, monitor_end = socket.socketpair()
        for end in (ours, monitor):
            kept.enter_context(end)
        for end in (theirs, monitor_end):
            handed_over.enter_context(end)
        fds = (theirs.fileno(), monitor_end.fileno())
        is_unicorn = uses_unicorn(board, chosen.args)
        if is_unicorn:
            more = (*(board.qemu.args if board.qemu else ()), *chosen.args)
            argv = unicorn_argv(board, elf.resolve(), console_fd=fds[0], more=more)
        else:
            argv = qemu_argv(board, elf.resolve(), console_fd=fds[0], options=chosen, monitor_fd=fds[1])
        process = start_process(argv, pass_fds=fds[:1] if is_unicorn else fds, cpus=one_cpu())
        handed_over.close()
        with process:
            yield QemuMachine(process, ours, None if is_unicorn else monitor)


def one_cpu() -> set[int] | None:
    """Choose a CPU for all of QEMU's threads, by chance: several emulators spread out.

    They take turns, and a hand-over within a CPU is faster; qemu/README.md has figures.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    return {random.choice(sorted(os.sched_getaffinity(0)))}  # noqa: S311
