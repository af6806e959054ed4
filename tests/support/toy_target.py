# SPDX-License-Identifier: Apache-2.0
"""Targets of one class each: programs of this machine that answer over a TCP connection.

``toy:NAME`` starts its program, ``toykeep:NAME`` keeps its parameters as well, ``toyplace:PORT`` holds an image.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.host import HostTarget
from mlf_sdk.targets.launch import host_slots
from mlf_sdk.targets.serial.target import AttachedTarget
from mlf_sdk.targets.target import Ability, Target, TargetChoice
from mlf_sdk.tools.process import start_process
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import SocketTransport

BRIDGE = """
import os, socket, subprocess, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:
    os.dup2(line.fileno(), 0)
    os.dup2(line.fileno(), 1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ToyTarget(HostTarget):
    """``toy:NAME``: the host's program behind a TCP connection."""

    scheme = "toy"
    abilities = Ability.BUILD | Ability.START | Ability.RESET
    is_host = False
    resets: int = 0

    @classmethod
    def resolve(cls, rest: str, choice: TargetChoice) -> Target:
        board = msgspec.structs.replace(find_board("host"), name=f"toy:{rest}", title="a toy")
        return cls(board)

    @contextmanager
    def open(
        self, image: Path | None, *, timeout_s: float, console: Callable[[str], None] | None = None
    ) -> Iterator[Session]:
        assert image is not None
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(timeout_s)
            port = server.getsockname()[1]
            with start_process(program(port, image), env={**os.environ, **self.variables(image)}):
                transport = SocketTransport(server.accept()[0], name=self.name)
                with Session(transport, timeouts=Timeouts(run_s=timeout_s), console=console) as session:
                    yield session

    def variables(self, image: Path) -> dict[str, str]:
        """More variables of the program's environment."""
        return {}

    def reset(self) -> None:
        self.resets += 1


class KeepingToy(ToyTarget):
    """``toykeep:NAME``: parameters outlive a session, in the files of the host's slots."""

    scheme = "toykeep"
    abilities = ToyTarget.abilities | Ability.KEEP

    @classmethod
    def resolve(cls, rest: str, choice: TargetChoice) -> Target:
        board = msgspec.structs.replace(find_board("host"), name=f"toykeep:{rest}", title="a toy")
        return cls(board)

    def variables(self, image: Path) -> dict[str, str]:
        return host_slots(image)


class ToyPlace(AttachedTarget):
    """``toyplace:PORT``: what listens there holds the image of a project for ``toy:one``."""

    scheme = "toyplace"

    @classmethod
    def resolve(cls, rest: str, choice: TargetChoice) -> Target:
        return cls(ToyTarget.resolve("one", choice), name=f"toyplace:{rest}")

    @contextmanager
    def open(
        self, image: Path | None, *, timeout_s: float, console: Callable[[str], None] | None = None
    ) -> Iterator[Session]:
        line = socket.create_connection(("127.0.0.1", int(self.name.partition(":")[2])), timeout_s)
        transport = SocketTransport(line, name=self.name)
        with Session(transport, timeouts=Timeouts(run_s=timeout_s), console=console) as session:
            yield session


def program(port: int, image: Path) -> list[str]:
    """The command that runs an image on the connection to a port."""
    python = shutil.which("python3")
    assert python is not None
    return [python, "-c", BRIDGE, str(port), str(image.resolve())]


@contextmanager
def place_with(image: Path) -> Iterator[str]:
    """The name of a place that runs ``image`` anew for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as outside, socket.create_server(("127.0.0.1", 0)) as inside:

        def serve() -> None:
            while True:
                try:
                    line = outside.accept()[0]
                except OSError:
                    return
                with (
                    line,
                    start_process(program(inside.getsockname()[1], image)),
                    inside.accept()[0] as board,
                ):
                    back = threading.Thread(target=carry, args=(board, line))
                    back.start()
                    carry(line, board)
                    back.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"toyplace:{outside.getsockname()[1]}"
        outside.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def carry(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes in one direction until either side is closed."""
    with suppress(OSError):
        while data := source.recv(4096):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
