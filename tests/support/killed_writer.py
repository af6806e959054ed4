# SPDX-License-Identifier: Apache-2.0
"""Writes a project and is killed at one point; run as a program by ``test_project_writer``.

    python killed_writer.py FOLDER [COUNT]

Every folder ``FOLDER/<n>/out`` holds a copy of ``FOLDER/old``. For n = 1, 2, ... a child process writes
``FOLDER/new`` into it and is killed by SIGKILL right before its n-th change to the file system. Ends when
a child got through; prints how many were killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from mlf_sdk.codegen.writer import write_project

CHANGES = {
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "ctypes.dlsym",
}
WRITING = os.O_WRONLY | os.O_RDWR


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def kill_at(number: int) -> None:
    """Kill this process right before its ``number``-th change to the file system."""
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "open":
            flags = arguments[2]
            if not (isinstance(flags, int) and flags & WRITING):
                return
        elif event not in CHANGES:
            return
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(root: Path) -> None:
    new = files_of(root / "new")
    number = 0
    while True:
        number += 1
        shutil.copytree(root / "old", root / str(number) / "out", symlinks=True)
        child = os.fork()
        if child == 0:
            kill_at(number)
            write_project(new, root / str(number) / "out")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            break
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit(f"child {number} ended with status {status}")
    print(number - 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
