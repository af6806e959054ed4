# SPDX-License-Identifier: Apache-2.0
"""Builds that were never built, a stand-in for west, and west workspaces of links."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zephyr_trees import put

WEST = """#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path({folder!r})
call = {{"argv": sys.argv[1:], "cwd": os.getcwd(), "base": os.environ.get("ZEPHYR_BASE"),
        "links": os.path.realpath("zephyr"), "config": pathlib.Path(".west/config").read_text()}}
with (here / "calls").open("a") as file:
    file.write(json.dumps(call) + "\\n")
plan = json.loads((here / "plan").read_text())
say = plan.get(sys.argv[1], {{}})
for name in say.get("writes", ()):
    path = pathlib.Path(sys.argv[sys.argv.index("-d") + 1]) / "zephyr" / name
    path.write_text("signed")
print(say.get("out", ""), flush=True)
time.sleep(say.get("seconds", 0))
while "until" in say and not pathlib.Path(say["until"]).exists():
    time.sleep(0.01)
print(say.get("err", ""), file=sys.stderr)
sys.exit(say.get("code", 0))
"""
RUNNERS = """# Available runners configured by board.cmake.
runners:
- nrfjprog
- jlink
- misc-flasher

# Default flash runner if --runner is not given.
flash-runner: nrfjprog

# Common runner configuration values.
config:
  board_dir: /z/boards/nordic/nrf52840dk
  # Build outputs:
  elf_file: zephyr.elf
  hex_file: zephyr.hex

# Runner specific arguments
args:
  nrfjprog:
    []

  jlink:
    - --dt-flash=y
    - --device=nRF52840_xxAA
    - --speed=4000

  misc-flasher:
    - script
    - 3333
"""
DATA = b"\0\0\0\x20\x01\0\0\0"


class FakeWest:
    """A PATH with nothing but a stand-in for west, which records its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.plan()
        path = self.bin / "west"
        path.write_text(WEST.format(python=sys.executable, folder=str(folder)))
        path.chmod(0o755)

    def plan(self, **commands: Any) -> None:
        """Set what ``flash`` and ``sign`` print (out, err), write, and end with (code), after ``seconds``, or when ``until`` exists."""
        (self.folder / "plan").write_text(json.dumps(commands))

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def fake_build(app: Path, *, runners: str | None = RUNNERS, config: str = "") -> Path:
    """What a build leaves behind in ``app/build``."""
    build = app / "build"
    put(build / "zephyr/zephyr.hex", "unsigned")
    put(build / "zephyr/zephyr.bin", "unsigned")
    put(build / "zephyr/.config", config)
    if runners is not None:
        put(build / "zephyr/runners.yaml", runners)
    header = struct.pack(
        "<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 40, 1, 1, 52, 0, 0, 52, 32, 1, 40, 0, 0
    )
    segment = struct.pack("<8I", 1, 84, 0, 0, len(DATA), len(DATA), 5, 4)
    (build / "zephyr/zephyr.elf").write_bytes(header + segment + DATA)
    return build


def touch_later(path: Path) -> None:
    """As if it had been written after all the others."""
    later = time.time_ns() + 2_000_000_000
    os.utime(path, ns=(later, later))


def make_workspace(top: Path, tree: Path, sdk: Path, west: str) -> Path:
    """A west workspace that fetches nothing: its projects are links to what is there."""
    top.mkdir(parents=True)
    (top / "zephyr").symlink_to(tree, target_is_directory=True)
    (top / "mlf-sdk").symlink_to(sdk, target_is_directory=True)
    put(
        top / "manifest/west.yml",
        "manifest:\n  projects:\n"
        "    - {name: zephyr, url: 'file:///none', path: zephyr, west-commands: scripts/west-commands.yml}\n"
        "    - {name: mlf-sdk, url: 'file:///none', path: mlf-sdk, west-commands: crt/zephyr/west-commands.yml}\n",
    )
    environ = {name: value for name, value in os.environ.items() if name != "ZEPHYR_BASE"}  # of another one
    for argv in ([west, "init", "-l", str(top / "manifest")], [west, "config", "zephyr.base", "zephyr"]):
        subprocess.run(argv, cwd=top, env=environ, check=True, capture_output=True, timeout=60)
    return top


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An emulated board that stands still until a debugger lets it go."""

    gdb: str
    console: str


@contextmanager
def empty_machine(folder: Path, machine: str = "mps2-an385") -> Iterator[Machine]:
    """QEMU without an image: a debug server on a socket, the UART on a pty."""
    gdb, said = folder / "gdb.sock", folder / "qemu.out"
    argv = ["qemu-system-arm", "-machine", machine, "-nodefaults", "-display", "none", "-monitor", "none"]
    argv += ["-nic", "none", "-chardev", "pty,id=console", "-serial", "chardev:console"]
    argv += ["-S", "-gdb", f"unix:path={gdb},server=on,wait=off"]
    with said.open("wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 20
        while not (pty := re.search(r"redirected to (\S+)", said.read_text())) or not gdb.exists():
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(0.02)
        yield Machine(gdb=str(gdb), console=pty[1])
    finally:
        process.kill()
        process.wait()
