# SPDX-License-Identifier: Apache-2.0
"""Discovery of external tools: path, version, and installation hints for those that are missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from mlf_sdk.errors import ToolError
from mlf_sdk.tools.isas import Isa, load_isas
from mlf_sdk.tools.process import ProcessRunner, run_process
from mlf_sdk.tools.programs import find_program, install_hint
from mlf_sdk.tools.rtlmodels import VERILATOR, load_models
from mlf_sdk.tools.toolchains import AUTOMATIC, GCC, load_toolchains

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")
_TIMEOUT_S = 10.0
UNICORN = "unicorn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program that the SDK runs.

    Attributes:
        name: as it is looked for on PATH, or of a package of Python.
        purpose: what it is needed for.
        required: False: only some uses need it.
        stand_in: tool that takes its place where it is missing; empty: none does.
        together: another one that the stand-in replaces as well: where that is there, it is not used.
        lost: what the stand-in can't do.
        asks: arguments by which it says its version; none: it is a package of Python.
    """

    name: str
    purpose: str
    required: bool = True
    stand_in: str = ""
    together: str = ""
    lost: str = ""
    asks: tuple[str, ...] = ("--version",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStatus:
    """Path and version of a tool on this machine.

    Attributes:
        path: None when it is missing.
        version: None when it is missing or does not say.
        hint: how to get it, when it is missing; what is wrong, when it does not run.
        replaced_by: the tool that is used in its place, when it is missing; empty: none.
    """

    tool: Tool
    path: str | None
    version: str | None
    hint: str = ""
    replaced_by: str = ""

    @property
    def runs(self) -> bool:
        """Return whether the tool is installed and runs."""
        return self.path is not None and not self.hint

    @property
    def ok(self) -> bool:
        """Return whether the tool is installed and runs, is not needed, or another takes its place."""
        return not self.tool.required or self.runs or bool(self.replaced_by)


@cache
def known_tools() -> tuple[Tool, ...]:
    """Programs that the SDK runs, those of each architecture included."""
    return (
        Tool(name="cmake", purpose="building projects"),
        Tool(name="ninja", purpose="building projects"),
        *(tool for isa in load_isas().values() for tool in _tools_of(isa)),
        *_toolchains(),
        *_simulators(),
        Tool(name="cc", purpose="the board 'host' and the twin of a target", stand_in=AUTOMATIC),
        Tool(name="c++", purpose="the same of archives with C++ code", required=False),
        Tool(name="west", purpose="Zephyr projects", required=False),
    )


def _tools_of(isa: Isa) -> Iterator[Tool]:
    needed, building = not isa.optional, f"building for {isa.title} boards"
    other = AUTOMATIC if isa.name in load_toolchains()[AUTOMATIC].isas else ""
    yield Tool(
        name=isa.tools.c,
        purpose=building,
        required=needed,
        stand_in=other,
        lost="C++ sources and object files",
    )
    yield Tool(name=isa.tools.cxx, purpose="archives with C++ sources", required=False)
    yield Tool(
        name=isa.tools.objcopy,
        purpose=building,
        required=needed,
        stand_in=other,
        together=isa.tools.c,
        lost="app.bin and app.hex",
    )
    yield Tool(
        name=isa.tools.emulator,
        purpose=f"emulated {isa.title} boards",
        required=needed,
        stand_in=UNICORN if isa.unicorn else "",
        lost="some boards, exact profiles, cycles and debug",
    )


def _toolchains() -> Iterator[Tool]:
    for row in load_toolchains().values():
        name = row.programs[0]
        asks = ("version",) if name == AUTOMATIC else ("--version",)
        more = f", in the place of {GCC} where that is missing" if name == AUTOMATIC else ""
        purpose = f"--toolchain {row.name}{more}"
        yield Tool(name=name, purpose=purpose, required=False, asks=asks)
    titles = ", ".join(isa.title for isa in load_isas().values() if isa.unicorn)
    purpose = f"emulated {titles} boards in the place of QEMU where that is missing"
    yield Tool(name=UNICORN, purpose=purpose, required=False, asks=())


def _simulators() -> Iterator[Tool]:
    yield Tool(name=VERILATOR, purpose="boards whose core is simulated (rtl-...)", required=False)
    for model in load_models().values():
        yield Tool(name=model.package, purpose=f"RTL of {model.name}", required=False, asks=())


def package_version(name: str) -> str | None:
    """Version of a package of Python; None: it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def find_tools(
    tools: tuple[Tool, ...] | None = None,
    *,
    runner: ProcessRunner = run_process,
    which: Callable[[str], str | None] = find_program,
    package: Callable[[str], str | None] = package_version,
) -> tuple[ToolStatus, ...]:
    """Look for each of ``tools`` (None: all) and ask it for its version, in the order given.

    Args:
        which: path of a program, on PATH or of a package.
        package: version of a package of Python; None: it is not installed.
    """
    known = known_tools() if tools is None else tools
    statuses = [_status(tool, runner, which) if tool.asks else _package(tool, package) for tool in known]
    return tuple(replace(one, replaced_by=_stand_in(one, statuses)) for one in statuses)


def _stand_in(status: ToolStatus, statuses: Sequence[ToolStatus]) -> str:
    """Name of the tool that is used in a missing one's place."""
    running = {one.tool.name for one in statuses if one.runs}
    present = {one.tool.name for one in statuses if one.path is not None}
    tool = status.tool
    is_used = status.path is None and tool.stand_in in running and tool.together not in present
    return tool.stand_in if is_used else ""


def _package(tool: Tool, package: Callable[[str], str | None]) -> ToolStatus:
    installed = package(tool.name)
    if installed is None:
        return ToolStatus(tool=tool, path=None, version=None, hint=install_hint(tool.name))
    return ToolStatus(tool=tool, path=tool.name, version=installed)


def _status(tool: Tool, runner: ProcessRunner, which: Callable[[str], str | None]) -> ToolStatus:
    path = which(tool.name)
    if path is None:
        return ToolStatus(tool=tool, path=None, version=None, hint=install_hint(tool.name))
    try:
        result = runner([path, *tool.asks], timeout_s=_TIMEOUT_S)
    except ToolError as error:
        return ToolStatus(tool=tool, path=path, version=None, hint=f"It does not run: {error.what}")
    match = _VERSION.search(re.sub(r"\([^)]*\)", "", result.stdout)) or _VERSION.search(result.stdout)
    return ToolStatus(tool=tool, path=path, version=match.group() if match else None)
