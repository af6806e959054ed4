# SPDX-License-Identifier: Apache-2.0
"""Starts the official runner of MLPerf Tiny, unchanged, with one more serial port in its list.

The runner opens only ports that the system lists with a USB id, and has no option for another one: the
pty of an emulator is never listed. This file runs in the runner's own Python and needs pyserial alone:
``python launcher.py PORT VID PID main.py ARGUMENTS``.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo


def with_port(listed: Callable[..., Any], device: str, vid: int, pid: int) -> Callable[..., list[Any]]:
    """Function that lists what ``listed`` does, and ``device`` with a USB id."""

    def comports(*arguments: Any, **options: Any) -> list[Any]:  # noqa: ANN401
        port = ListPortInfo(device)
        port.vid, port.pid, port.description = vid, pid, "board"
        return [*listed(*arguments, **options), port]

    return comports


def main(arguments: list[str]) -> None:
    """Add the port, then run the runner's own main program."""
    device, vid, pid, program, *rest = arguments
    list_ports.comports = with_port(list_ports.comports, device, int(vid, 16), int(pid, 16))
    sys.path[0] = str(Path(program).resolve().parent)  # as if the program itself had been started
    sys.argv = [program, *rest]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
