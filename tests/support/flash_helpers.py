# SPDX-License-Identifier: Apache-2.0
"""Machines to flash (QEMU's debug server, its console on a pty), stubs of vendor tools, bad debug servers."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WAIT_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An emulated board that stands still until a debugger lets it go."""

    gdb: str
    console: str
    process: subprocess.Popen[bytes]
    trace: Path

    @property
    def rates(self) -> list[int]:
        """What the machine's UART was set to, one after the other."""
        return [int(rate) for rate in re.findall(r"params set to (\d+)", self.trace.read_text())]


@contextmanager
def halted_machine(
    folder: Path,
    *,
    machine: str = "mps2-an386",
    image: Path | None = None,
    halted: bool = True,
    emulator: tuple[str, ...] = ("qemu-system-arm", "-trace", "cmsdk_apb_uart_set_params"),
) -> Iterator[Machine]:
    """QEMU with a debug server on a socket and its UART on a pty; ``image``: what it was flashed with before."""
    gdb = folder / "gdb.sock"
    said = folder / "qemu.out"
    trace = folder / "qemu.trace"
    argv = [*emulator, "-machine", machine, "-nodefaults", "-display", "none"]
    argv += ["-monitor", "none", "-nic", "none", "-chardev", "pty,id=console", "-serial", "chardev:console"]
    argv += [*(["-S"] if halted else []), "-gdb", f"unix:path={gdb},server=on,wait=off"]
    argv += ["-D", str(trace)]
    if image is not None:
        argv += ["-kernel", str(image)]
    with said.open("wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        pty = until(lambda: re.search(r"redirected to (\S+)", said.read_text()))
        until(gdb.exists)
        yield Machine(gdb=str(gdb), console=pty[1], process=process, trace=trace)
    finally:
        process.kill()
        process.wait()


def until(found: Callable[[], object]):
    """Wait for something true, and return it."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@contextmanager
def tcp_server(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server on this machine; every connection is given to ``handle``. Its HOST:PORT."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_ones.append(connection)
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(WAIT_S)
        for connection in open_ones:
            connection.close()


def stub(folder: Path, name: str, *, prints: str = "", code: int = 0, seconds: float = 0.0) -> Path:
    """A program that records its arguments and the files it was given in ``<name>.argv``."""
    folder.mkdir(exist_ok=True)
    record = folder / f"{name}.argv"
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys, time\n"
        f"here = pathlib.Path({str(folder)!r})\n"
        f"pathlib.Path({str(record)!r}).write_text('\\n'.join(sys.argv[1:]))\n"
        "for word in ' '.join(sys.argv[1:]).split():\n"
        "    given = pathlib.Path(word)\n"
        "    if given.is_file() and given.parent.name.startswith('mlf-flash-'):\n"
        "        shutil.copy(given, here / given.name)\n"
        f"time.sleep({seconds})\n"
        f"print({prints!r})\n"
        f"sys.exit({code})\n"
    )
    path.chmod(0o755)
    return record
