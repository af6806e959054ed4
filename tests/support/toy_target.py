# SPDX-License-Identifier: Apache-2.0
"""A target that is one class: it builds like the host, and its program answers over a TCP connection."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.choice import TargetChoice
from mlf_sdk.targets.host import HostTarget
from mlf_sdk.targets.target import Ability, Target
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
        python = shutil.which("python3")
        assert image is not None and python is not None
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(timeout_s)
            port = str(server.getsockname()[1])
            with start_process([python, "-c", BRIDGE, port, str(image.resolve())]):
                transport = SocketTransport(server.accept()[0], name=self.name)
                with Session(transport, timeouts=Timeouts(run_s=timeout_s), console=console) as session:
                    yield session

    def reset(self) -> None:
        self.resets += 1
