# SPDX-License-Identifier: Apache-2.0
"""Stand-ins of cmake and west on PATH that record how they were called, and projects to build with them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from zephyr_trees import zephyr_options

STUB = """#!{python}
import json, os, pathlib, re, sys
here = pathlib.Path({folder!r})
names = ("ZEPHYR_BASE", "ZEPHYR_TOOLCHAIN_VARIANT", "GNUARMEMB_TOOLCHAIN_PATH", "CCACHE_DISABLE", "ZEPHYR_MODULES")
call = {{"argv": [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]], "cwd": os.getcwd(),
        "env": {{n: os.environ[n] for n in names if n in os.environ}}}}
with (here / "calls").open("a") as file:
    file.write(json.dumps(call) + "\\n")
says = here / "says"
if says.is_file():
    sys.exit(says.read_text())
argv = sys.argv
option = next((o for o in ("-B", "-d", "--build") if o in argv), None)
build = pathlib.Path(argv[argv.index(option) + 1] if option else argv[-1])
(build / "zephyr").mkdir(parents=True, exist_ok=True)
(build / "build.ninja").touch()
(build / "zephyr/zephyr.elf").touch()
cache = build / "CMakeCache.txt"
entries = dict(re.findall("^([^:]+):STRING=(.*)$", cache.read_text(), re.M)) if cache.is_file() else {{}}
entries |= dict(a[2:].split("=", 1) for a in argv if a.startswith("-D"))
if "-S" in argv:
    entries["CMAKE_HOME_DIRECTORY"] = argv[argv.index("-S") + 1]
cache.write_text("".join(f"{{k}}:STRING={{v}}\\n" for k, v in sorted(entries.items())))
"""


class Bench:
    """A project, and a PATH with stand-ins."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path / "bench"
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        monkeypatch.setenv("PATH", str(self.bin))
        for name in ("cmake", "arm-none-eabi-gcc"):
            self.add(name)

    def add(self, name: str) -> None:
        path = self.bin / name
        path.write_text(STUB.format(python=sys.executable, folder=str(self.folder)))
        path.chmod(0o755)

    def say(self, text: str) -> None:
        (self.folder / "says").write_text(text)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Programs that were started, without the compiler's that preprocess kernels for the plan."""
        path = self.folder / "calls"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
        return [call for call in found if "-E" not in call["argv"]]


def setup_of(base: Path, **changes: Any) -> ZephyrSetup:
    environ = {"PATH": os.environ["PATH"], **changes.pop("environ", {})}
    return ZephyrSetup(base=base, environ=environ, home=base / "home", **changes)


def make_app(tiny: Path, folder: Path, base: Path, board: str = "mps2_an385", app: str = "rpc") -> Path:
    options: dict[str, Any] = {"app": app}  # type: ignore[arg-type]
    mlf_sdk.generate(
        tiny, folder, board=board, platform="zephyr", **options, **zephyr_options(setup_of(base))
    )
    return folder.resolve()
