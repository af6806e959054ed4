# SPDX-License-Identifier: Apache-2.0
"""An exported library read from its file: code, serialized modules, and the machine it is for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from mlf_sdk.analysis.elf.raw import ELF_MAGIC, ET_DYN, ET_REL, STT_FUNC, RawElf, elf_type, read_elf
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.code import KINDS, CodeFile
from mlf_sdk.frontends.exported.blob import Serialized, serialized_in_c, serialized_in_elf
from mlf_sdk.frontends.filetype import holds_modules
from mlf_sdk.frontends.intake.bytestream import ArchiveStream
from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS, StopReadingError
from mlf_sdk.frontends.intake.members import collect_files
from mlf_sdk.frontends.intake.tarstream import TarReader
from mlf_sdk.tools.checks import BoundedFaults
from mlf_sdk.tools.files import read_bounded

FOLDER: Final = "exported"
"""Folder of the code units."""

_CODE: Final = re.compile(r"lib[0-9]{1,6}\.(?:c|cc|cpp|o)")
_OTHER_CODE: Final = re.compile(r"lib[0-9]{1,6}\.(?:cu|ll|bc|s|S)")
_MODULES: Final = re.compile(r"[A-Za-z0-9_]{0,64}devc\.(?:c|o)")
_TARGET: Final = re.compile(rb"^// tvm target: ([^\r\n]{1,1000})", re.MULTILINE)


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """An exported library.

    Attributes:
        name: of the file, without its ending.
        code: sources and objects that can be linked.
        modules: None: the file has none, or it imports none.
        defined: symbols of code that can't be linked; None: the file has no code at all.
        machine: of code that can't be linked, e.g. ``x86-64``; empty for other code.
        targets: as the sources state them.
        extra: names of other members.
    """

    source: str
    sha256: str
    name: str
    code: tuple[CodeFile, ...]
    modules: Serialized | None
    defined: frozenset[str] | None = None
    machine: str = ""
    targets: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


def is_library(path: Path) -> bool:
    """Return whether a file or folder has the form of an exported library."""
    if path.is_dir():
        return any(_is_typical(entry.name) for entry in islice(path.iterdir(), DEFAULT_LIMITS.members))
    with path.open("rb") as file:
        head = file.read(18)
        file.seek(0)
        if head.startswith(ELF_MAGIC):
            may_hold = elf_type(head) in (ET_REL, ET_DYN)
            return may_hold and holds_modules(file.read(DEFAULT_LIMITS.file_bytes))
        try:
            members = iter(TarReader(ArchiveStream(file, DEFAULT_LIMITS)).next, None)
            names = (member.name.removeprefix("./") for member in islice(members, DEFAULT_LIMITS.members))
            return any(map(_is_typical, names))
        except StopReadingError:
            return False


def _is_typical(name: str) -> bool:
    return any(form.fullmatch(name) for form in (_CODE, _MODULES))


def read_library(path: Path) -> Library:
    """Read an exported library.

    Raises:
        InputError: there is no such file.
        ArchiveError: it is broken; all of its faults at once.
    """
    faults = BoundedFaults(str(path))
    if not path.is_dir() and _head(path).startswith(ELF_MAGIC):
        library = _of_elf(path, faults)
    else:
        library = _of_members(path, faults)
    faults.raise_if_any()
    return library


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(ELF_MAGIC))


def _of_elf(path: Path, faults: FaultCollector) -> Library:
    """A shared library, or an object with code, with modules, or with both."""
    data = read_bounded(path, DEFAULT_LIMITS.file_bytes)
    modules = serialized_in_elf(data, path.name, faults)
    faults.raise_if_any()
    elf = read_elf(data)
    defined = _code_symbols(elf)
    linkable = bool(defined) and elf.type == ET_REL
    code = (CodeFile(member=f"{FOLDER}/lib0.o", kind="o", data=data),) if linkable else ()
    return Library(
        source=str(path),
        sha256=hashlib.sha256(data).hexdigest(),
        name=path.stem,
        code=code,
        modules=modules,
        defined=None if not defined or linkable else defined,
        machine=elf.machine_name if defined and not linkable else "",
    )


def _code_symbols(elf: RawElf) -> frozenset[str]:
    """Functions that others can call."""
    return frozenset(s.name for s in elf.symbols if s.is_defined and s.binding and s.type == STT_FUNC)


def _of_members(path: Path, faults: FaultCollector) -> Library:
    files = collect_files(path, DEFAULT_LIMITS, faults, _is_typical)
    code = []
    serialized: list[Serialized] = []
    for name, data in files.files.items():
        if _CODE.fullmatch(name):
            code.append(CodeFile(member=f"{FOLDER}/{_unit_name(name)}", kind=_kind(name), data=data))
        else:
            read = serialized_in_c if name.endswith(".c") else serialized_in_elf
            result = read(data, name, faults)
            if result is None and not faults.faults:
                faults.add(name, "it holds no serialized modules")
            serialized += [] if result is None else [result]
    if len(serialized) > 1:
        faults.add(serialized[1].member, f"the modules are in {serialized[0].member} as well")
    for name in files.skipped:
        if _OTHER_CODE.fullmatch(name):
            faults.add(name, "code of this kind is not supported")
    name = path.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".tar")
    return Library(
        source=files.source,
        sha256=files.sha256,
        name=name,
        code=tuple(code),
        modules=serialized[0] if serialized else None,
        targets=_targets(code),
        extra=files.skipped,
    )


def _kind(name: str) -> str:
    return KINDS["." + name.rpartition(".")[2]]


def _unit_name(name: str) -> str:
    return f"{name.rpartition('.')[0]}.{_kind(name)}"


def _targets(code: Sequence[CodeFile]) -> tuple[str, ...]:
    """Targets that the sources state, each once."""
    matches = (match for file in code if file.kind != "o" for match in _TARGET.findall(file.data))
    return tuple(dict.fromkeys(text.decode("utf-8", "replace").strip() for text in matches))
