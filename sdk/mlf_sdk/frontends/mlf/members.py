# SPDX-License-Identifier: Apache-2.0
"""Assignment of an archive's members to its modules, by the rules of each format version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.code import KINDS, CodeFile
from mlf_sdk.ir.names import field_identifier

_CODE: Final = "codegen/host/"
_INCLUDE: Final = "codegen/host/include/"
_GRAPHS: Final = ("executor-config/graph/", "runtime-config/graph/")
_DIGITS: Final = re.compile(r"([0-9]{1,18})", re.ASCII)


class ModuleMembers(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the members of one module; None for what the archive does not have."""

    graph: str | None
    params: str | None
    relay: str | None
    interface: str | None
    sources: tuple[CodeFile, ...]


def assign_members(
    modules: Sequence[str], files: Mapping[str, bytes], faults: FaultCollector
) -> tuple[ModuleMembers, ...]:
    """Give every module its members, in the order of ``modules``.

    An archive with one module gives it everything; of several, files belong to the longest module
    name that they begin with.
    """
    code: dict[str, list[CodeFile]] = {name: [] for name in modules}
    for member in sorted((name for name in files if name.startswith("codegen/")), key=_natural):
        kind = KINDS.get(PurePosixPath(member).suffix)
        if not member.startswith(_CODE) or kind is None:
            faults.add(
                member, "unknown kind of code; .c, .cc, .cpp, .S, .o and .h under codegen/host are read"
            )
            continue
        owners = _owners(member, kind, modules)
        if not owners:
            faults.add(member, "belongs to none of the modules")
        for owner in owners:
            code[owner].append(CodeFile(member=member, kind=kind, data=files[member]))
    return tuple(_members(name, len(modules) == 1, files, tuple(code[name])) for name in modules)


def _members(
    name: str, alone: bool, files: Mapping[str, bytes], sources: tuple[CodeFile, ...]
) -> ModuleMembers:
    graphs = [member for member in files if member.startswith(_GRAPHS)]
    params = [member for member in files if member.startswith("parameters/") and member.endswith(".params")]
    texts = [member for member in files if member.startswith("src/") and not member.endswith(".c")]
    headers = [file.member for file in sources if file.member.startswith(f"{_INCLUDE}tvmgen_")]
    return ModuleMembers(
        graph=_pick(graphs, [f"{_GRAPHS[0]}{name}.graph"], alone),
        params=_pick(params, [f"parameters/{name}.params"], alone),
        relay=_pick(texts, [f"src/{name}.relay", *(["src/relay.txt"] if alone else [])], alone),
        interface=next((header for header in headers if alone or _header_of(header) == _legal(name)), None),
        sources=sources,
    )


def _pick(result: Sequence[str], wanted: Iterable[str], alone: bool) -> str | None:
    """The first wanted name that is there; the first of all when there is only one module."""
    name = next((name for name in wanted if name in result), None)
    return result[0] if name is None and alone and result else name


def _owners(member: str, kind: str, modules: Sequence[str]) -> list[str]:
    if len(modules) == 1:
        return [modules[0]]
    if kind == "h":
        mine = [name for name in modules if _header_of(member) == _legal(name)]
        return mine or list(modules)
    file_name = PurePosixPath(member).name
    fitting = [name for name in modules if file_name.startswith(f"{name}_lib")]
    return [max(fitting, key=len)] if fitting else []


def _header_of(member: str) -> str:
    return _legal(PurePosixPath(member).stem.removeprefix("tvmgen_"))


def _legal(name: str) -> str:
    """A module's name as TVM spells it in C, in lower case."""
    return field_identifier(name).lower()


def _natural(name: str) -> list[str | int]:
    """Sort key by which ``lib10`` comes after ``lib9``."""
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(name)]
