# SPDX-License-Identifier: Apache-2.0
"""Help with a board that does not answer: place of its CPU, clock and rate of the line."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

from mlf_sdk.errors import ToolError
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.isas import IsaMonitor

_PROMPT = b"(qemu) "
_REPLY_S = 5.0
_NAMED = re.compile(r"([A-Za-z][\w/]*)(?:=|\s+)([0-9a-f]{8})\b")  # R15=00000120, or pc 80000104
_WORD = re.compile(r"^0*[0-9a-f]+: 0x([0-9a-f]{8})", re.MULTILINE)
_MOST_FRAMES = 4


def line_text(board: Board) -> str:
    """Clock and rate of the line that an image for a board expects; empty: it has no UART."""
    if board.uart is None:
        return ""
    clock = board.uart.clock_hz or board.clock_hz
    return f"The image expects a clock of {clock:,} Hz at the UART, and the line at {board.uart.baud:,} baud."


def port_text(board: Board, baud: int | None, elf: Path | None = None) -> str:
    """Advice for a board on a port that is silent: place of its CPU, what its image expects, what to look at.

    The CPU is asked through the probe that the board's row names, where one answers.

    Args:
        baud: rate of the port, where it is not that of the board's row.
        elf: image that the board should run; None: it is not known.
    """
    from mlf_sdk.targets.probe import probe_registers

    probe = probe_registers(board)
    place: list[str] = []
    if probe.registers:
        place = _place(dict(probe.registers), elf, cross_isa(board).status_register)
    if place:
        place[0] = f"{probe.title} reaches the board: {place[0][0].lower()}{place[0][1:]}"
    said = [f"{probe.title} was asked where the CPU is: {probe.fault.rstrip()}"] if probe.fault else []
    return "\n".join([*place, *said, *_line_advice(board, baud, probed=bool(place))])


def _line_advice(board: Board, baud: int | None, *, probed: bool) -> list[str]:
    if board.uart is None:
        return []
    opened = f" The port was opened with {baud:,} baud." if baud not in (None, board.uart.baud) else ""
    checks = [
        "Check that transmit and receive are crossed and grounds joined, that the board runs what was built "
        "(mlf-sdk flash DIR), and that no other program reads the port.",
    ]
    if board.init:
        checks.append(
            "Its clocks are set before main(): where one does not start, the line has another rate, and "
            "mlf_init_failed has the number of the write."
        )
    if board.flasher.runner and not probed:
        checks.append("With a probe, mlf-sdk debug DIR --no-load shows where the CPU is.")
    return [f"An image for {board.name}: {line_text(board)}{opened}", *checks]


def silence_text(board: Board, elf: Path, monitor: socket.socket | None) -> str:
    """Lines about a board that is silent: its CPU as QEMU's monitor tells, and what the image expects."""
    isa = cross_isa(board)
    registers = _registers(isa.monitor, monitor) if monitor is not None else {}
    return "\n".join(filter(None, [*_place(registers, elf, isa.status_register), line_text(board)]))


def _place(registers: dict[str, int], elf: Path | None, status_register: str) -> list[str]:
    """Function, file and line of the CPU, then the registers; empty: they are not known."""
    if "pc" not in registers:
        return []
    named = " ".join(f"{name}=0x{value:08x}" for name, value in registers.items())
    if elf is None or not elf.is_file():
        return [f"The CPU is at 0x{registers['pc']:08x}.", named]
    from mlf_sdk.tools.checks import device_text
    from mlf_sdk.triage.explain import triage
    from mlf_sdk.triage.fault_report import FaultReport

    empty = device_text(b"")
    result = triage(FaultReport(kind="silent", registers=registers, step=-1, model=empty, line=empty), elf)
    frames = [frame.place for frame in result.frames[:_MOST_FRAMES]]
    place = ", from ".join(frames) if frames else f"0x{registers['pc']:08x}, outside of the image"
    status = result.status if registers.get(status_register) else ()
    return [f"The CPU is in {place}.", named, *status]


def _registers(names: IsaMonitor, monitor: socket.socket) -> dict[str, int]:
    """Registers of the CPU, which is stopped; empty: the monitor does not answer."""
    monitor.settimeout(_REPLY_S)
    try:
        _reply(monitor)
        _ask(monitor, "stop")
        stated = dict(_NAMED.findall(_ask(monitor, "info registers")))
        words = {}
        for name, address in names.words.items():
            if word := _WORD.search(_ask(monitor, f"x /1wx {address:#x}")):
                words[name] = int(word[1], 16)
    except OSError:
        return {}
    return {name: int(stated[key], 16) for name, key in names.registers.items() if key in stated} | words


def save_memory(monitor: socket.socket, address: int, size_bytes: int, path: Path) -> None:
    """Stop the CPU and write its memory to a file, whole or not at all.

    Raises:
        ToolError: the emulator did not write it.
    """
    part = path.with_suffix(".part").resolve()
    part.unlink(missing_ok=True)
    monitor.settimeout(_REPLY_S)
    try:
        said = _ask(monitor, "stop")
        said += _ask(monitor, f'memsave {address:#x} {size_bytes:#x} "{part}"')
        said += _ask(monitor, "")  # its greeting has a prompt as well
    except OSError as error:
        said = str(error)
    if not part.is_file() or part.stat().st_size != size_bytes:
        raise ToolError(f"the emulator did not save its flash: {said.strip()}", where=str(path))
    part.replace(path)


def _ask(monitor: socket.socket, command: str) -> str:
    monitor.sendall(command.encode() + b"\n")
    return _reply(monitor)


def _reply(monitor: socket.socket) -> str:
    """Text up to the next prompt."""
    text, until = b"", time.monotonic() + _REPLY_S
    while not text.endswith(_PROMPT):
        piece = monitor.recv(4096)
        if not piece or time.monotonic() > until:
            raise TimeoutError("the monitor does not answer")
        text += piece
    return text.decode(errors="replace").replace("\r", "")
