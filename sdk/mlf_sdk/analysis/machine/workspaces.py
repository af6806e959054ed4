# SPDX-License-Identifier: Apache-2.0
"""Workspace requests of objects of unknown origin, whatever their architecture."""

from __future__ import annotations

from typing import Final

from mlf_sdk.analysis.elf import raw
from mlf_sdk.analysis.elf.objects import relocatable_isa
from mlf_sdk.analysis.elf.raw import ElfFormatError, RawElf, read_elf
from mlf_sdk.analysis.machine.registry import ObjectWorkspace, analysis_of
from mlf_sdk.tools.ctext import ALLOCATE, FREE, REPORTS

LAUNCH: Final = "TVMBackendParallelLaunch"


def object_workspaces(data: bytes) -> dict[str, ObjectWorkspace]:
    """Workspace that each global function of an object asks for, by nesting of its requests.

    One that is broken or for no known architecture gives an empty dict: ``read_object`` says what is wrong.
    """
    try:
        elf = read_elf(data)
    except ElfFormatError:
        return {}
    isa = relocatable_isa(elf)
    if isa is None:
        return {}
    names = dict.fromkeys(
        symbol.name
        for symbol in elf.symbols
        if symbol.binding == raw.STB_GLOBAL and symbol.type == raw.STT_FUNC and symbol.is_defined
    )
    if not _may_allocate(elf):
        return {name: ObjectWorkspace(slots=(), exact=True) for name in names}
    return analysis_of(isa).kernel_workspaces(elf, [*names])


def _may_allocate(elf: RawElf) -> bool:
    """True when code of the object refers to the allocator or to functions that may use it."""
    for relocation in elf.relocations:
        symbol = elf.symbols[relocation.symbol]
        in_code = elf.sections[relocation.section].flags & raw.SHF_EXECINSTR
        if symbol.name in (ALLOCATE, FREE) or (
            in_code and not symbol.is_defined and may_ask_for_workspace(symbol.name)
        ):
            return True
    return False


def may_ask_for_workspace(name: str) -> bool:
    """True when an undefined function may ask for workspace: another kernel, or the runtime calling one."""
    if name.startswith("tvmgen_"):
        return True
    return name.startswith("TVM") and name not in (ALLOCATE, FREE, LAUNCH, *REPORTS)
