# SPDX-License-Identifier: Apache-2.0
"""Discovery of external tools: path, version, and installation hints for those that are missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from mlf_sdk.errors import ToolError
from mlf_sdk.tools.isas import Isa, load_isas
from mlf_sdk.tools.process import ProcessRunner, run_process
from mlf_sdk.tools.programs import install_hint

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program that the SDK runs.

    Attributes:
        name: as it is looked for on PATH.
        purpose: what it is needed for.
        required: False: only some uses need it.
    """

    name: str
    purpose: str
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStatus:
    """Path and version of a tool on this machine.

    Attributes:
        path: None when it is missing.
        version: None when it is missing or does not say.
        hint: how to get it, when it is missing; what is wrong, when it does not run.
    """

    tool: Tool
    path: str | None
    version: str | None
    hint: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the tool is installed and runs, or is not needed."""
        return not self.tool.required or (self.path is not None and not self.hint)


@cache
def known_tools() -> tuple[Tool, ...]:
    """Programs that the SDK runs, those of each architecture included."""
    return (
        Tool(name="cmake", purpose="building projects"),
        Tool(name="ninja", purpose="building projects"),
        *(tool for isa in load_isas().values() for tool in _tools_of(isa)),
        Tool(name="cc", purpose="the board 'host' and the twin of a target"),
        Tool(name="c++", purpose="the same of archives with C++ code", required=False),
        Tool(name="west", purpose="Zephyr projects", required=False),
    )


def _tools_of(isa: Isa) -> Iterator[Tool]:
    needed, building = not isa.optional, f"building for {isa.title} boards"
    yield Tool(name=isa.tools.c, purpose=building, required=needed)
    yield Tool(name=isa.tools.cxx, purpose="archives with C++ sources", required=False)
    yield Tool(name=isa.tools.objcopy, purpose=building, required=needed)
    yield Tool(name=isa.tools.emulator, purpose=f"emulated {isa.title} boards", required=needed)


def find_tools(
    tools: tuple[Tool, ...] | None = None,
    *,
    runner: ProcessRunner = run_process,
    which: Callable[[str], str | None] = shutil.which,
) -> tuple[ToolStatus, ...]:
    """Look for each of ``tools`` (None: all) on PATH and ask it for its version, in the order given."""
    return tuple(_status(tool, runner, which) for tool in (known_tools() if tools is None else tools))


def _status(tool: Tool, runner: ProcessRunner, which: Callable[[str], str | None]) -> ToolStatus:
    path = which(tool.name)
    if path is None:
        return ToolStatus(tool=tool, path=None, version=None, hint=install_hint(tool.name))
    try:
        result = runner([path, "--version"], timeout_s=_TIMEOUT_S)
    except ToolError as error:
        return ToolStatus(tool=tool, path=path, version=None, hint=f"It does not run: {error.what}")
    match = _VERSION.search(re.sub(r"\([^)]*\)", "", result.stdout)) or _VERSION.search(result.stdout)
    return ToolStatus(tool=tool, path=path, version=match.group() if match else None)
