# SPDX-License-Identifier: Apache-2.0
"""Contents of a Zephyr build folder: runners, options, signed images."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.targets.flashers.errors import NoRunnerError
from mlf_sdk.tools.files import file_text

SIGNED = ("zephyr.signed.hex", "zephyr.signed.bin")
_OWN_RUNNER = "Give the application a runner of its own: crt/zephyr/gdb_runner.cmake is one, and says how."
_TOP_KEY = re.compile(r"([A-Za-z-]+):\s*(\S*)\s*")
_ITEM = re.compile(r"\s*- (.*)")
_NESTED_KEY = re.compile(r"  ([^\s:]+):\s*(.*)")
# What YAML takes for a number, a truth value or nothing: west fails on any argument that is no text.
_NO_TEXT = re.compile(
    r"[-+]?(0[xo][0-9a-fA-F]+|[0-9][0-9_]*(\.[0-9]*)?([eE][-+]?[0-9]+)?)|(?i:true|false|yes|no|on|off|null|~)"
)


class BuildRunners(msgspec.Struct, frozen=True, kw_only=True):
    """Flash runners of the build's board (``runners.yaml``).

    Attributes:
        names: the runners that are set up for the board.
        default: the one that is used unless another is chosen; empty: none.
        config: paths of outputs and tools, as they are written.
        args: arguments by runner.
    """

    names: tuple[str, ...] = ()
    default: str = ""
    config: dict[str, str] = msgspec.field(default_factory=dict)
    args: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def choose(self, wanted: str | None, board: str) -> str:
        """Return the runner that was asked for, else the default.

        Raises:
            NoRunnerError: the board has none, or not that one.
            InputError: west would fail on its arguments.
        """
        known = f"It has: {', '.join(self.names)}." if self.names else _OWN_RUNNER
        if wanted and wanted not in self.names:
            raise NoRunnerError(f"the board has no runner '{wanted}'", where=f"board {board}", hint=known)
        chosen = wanted or self.default
        if not chosen:
            hint = f"Choose one: --runner NAME. {known}" if self.names else known
            raise NoRunnerError(
                "Zephyr has no flash runner for this board", where=f"board {board}", hint=hint
            )
        broken = next((arg for arg in self.args.get(chosen, ()) if _NO_TEXT.fullmatch(arg)), None)
        if broken is not None:
            raise InputError(
                f"west fails on the argument '{broken}' of the runner {chosen}: it is not text in YAML",
                where=f"board {board}",
                hint="Write it in another way where the runner gets its arguments: localhost:3333, not 3333.",
            )
        return chosen


def read_runners(build: Path) -> BuildRunners:
    """The runners of the build in ``build``; none when Zephyr wrote none."""
    names: list[str] = []
    top: dict[str, str] = {}
    config: dict[str, str] = {}
    args: dict[str, list[str]] = {}
    section = runner = ""
    for line in file_text(build / "zephyr" / "runners.yaml").splitlines():
        if key := _TOP_KEY.fullmatch(line):
            section, runner = key[1], ""
            top[section] = key[2]
        elif item := _ITEM.fullmatch(line):
            if section == "runners":
                names.append(item[1].strip())
            elif section == "args" and runner:
                args[runner].append(item[1].strip())
        elif nested := _NESTED_KEY.fullmatch(line):
            if section == "config":
                config[nested[1]] = nested[2].strip()
            elif section == "args":
                runner = nested[1]
                args[runner] = []
    return BuildRunners(
        names=tuple(names),
        default=top.get("flash-runner", ""),
        config=config,
        args={name: tuple(result) for name, result in args.items()},
    )


def has_option(build: Path, symbol: str) -> bool:
    """Return True when the option ``CONFIG_<symbol>`` is on in the build."""
    options = file_text(build / "zephyr" / ".config")
    return re.search(rf"^CONFIG_{symbol}=y$", options, re.MULTILINE) is not None


def signed_images(build: Path) -> tuple[Path, ...]:
    """The signed images of the build, none when it is not signed.

    Raises:
        InputError: it was built again after it was signed.
    """
    paths = tuple(path for name in SIGNED if (path := build / "zephyr" / name).is_file())
    for path in paths:
        unsigned = path.with_name(path.name.replace(".signed", ""))
        if unsigned.is_file() and unsigned.stat().st_mtime_ns > path.stat().st_mtime_ns:
            raise InputError(
                "the project was built again after it was signed",
                where=str(path),
                hint="Sign it again: --sign KEY, with build or flash.",
            )
    return paths
