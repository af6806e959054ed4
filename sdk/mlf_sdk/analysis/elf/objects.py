# SPDX-License-Identifier: Apache-2.0
"""Object files of an archive: defined and undefined symbols, and the target they were compiled for."""

from __future__ import annotations

import dataclasses

import msgspec

from mlf_sdk.analysis.elf import raw as rawelf
from mlf_sdk.analysis.elf.armattributes import (
    ArmAttributes,
    AttributesError,
    attribute_problems,
    read_attributes,
)
from mlf_sdk.analysis.elf.doubles import computes_in_double
from mlf_sdk.analysis.elf.raw import ElfFormatError, RawElf, read_elf
from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.ctext import ALLOCATE

_ATTRIBUTES_SECTION = 0x70000003


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one object file.

    Attributes:
        machine: ``ARM``, ``x86-64`` and so on.
        elf_class: 32 or 64.
        is_arm: it is a relocatable, little-endian, 32-bit ARM object.
        attributes: its ARM build attributes; None when it has none.
        defined: symbols with external linkage that it defines, weak ones included.
        strong: those of them that must not be defined again.
        undefined: symbols that it needs.
        allocates: it refers to the workspace allocator.
        computes_in_double: its code has floating-point instructions for double.
    """

    machine: str
    elf_class: int
    is_arm: bool
    attributes: ArmAttributes | None
    defined: tuple[str, ...]
    strong: tuple[str, ...]
    undefined: tuple[str, ...]
    allocates: bool
    computes_in_double: bool = False


def read_object(data: bytes, member: str, faults: FaultCollector) -> ObjectInfo | None:
    """Read an object file of any machine; a broken one is recorded in ``faults`` and gives None."""
    try:
        elf = read_elf(data)
        attributes = _attributes(elf)
    except (ElfFormatError, AttributesError) as error:
        faults.add(member, f"the object file is broken: {error}")
        return None
    defined = [s for s in elf.symbols if s.binding != rawelf.STB_LOCAL and s.is_defined]
    return ObjectInfo(
        machine=elf.machine_name,
        elf_class=elf.elf_class,
        is_arm=is_relocatable_arm(elf),
        attributes=attributes,
        defined=tuple(dict.fromkeys(s.name for s in defined)),
        strong=tuple(dict.fromkeys(s.name for s in defined if s.binding == rawelf.STB_GLOBAL)),
        undefined=tuple(dict.fromkeys(s.name for s in elf.symbols[1:] if s.section == rawelf.SHN_UNDEF)),
        allocates=any(elf.symbols[r.symbol].name == ALLOCATE for r in elf.relocations),
        computes_in_double=attributes is not None
        and bool(attributes.fp_arch)
        and not attributes.single_precision_only
        and computes_in_double(elf),
    )


def check_object_against(cpu: str, fpu: str, float_abi: str, info: ObjectInfo) -> list[str]:
    """List the reasons why an object cannot be linked for a board; empty when it can.

    Args:
        cpu: the board's CPU as GCC calls it, e.g. ``cortex-m4``.
        fpu: its FPU as GCC calls it, e.g. ``fpv4-sp-d16``; empty or ``none`` for none.
        float_abi: ``hard``, ``softfp`` or ``soft``.
    """
    if not info.is_arm:
        return [f"it is a {info.elf_class}-bit {info.machine} file, not a 32-bit little-endian ARM object"]
    if info.attributes is None:
        return ["it has no build attributes: its CPU is not stated"]
    # The attributes say which instructions were allowed: the code, whether there are any for double.
    found = info.attributes
    if not info.computes_in_double:
        found = dataclasses.replace(found, single_precision_only=True)
    return attribute_problems(cpu, fpu, float_abi, found)


def is_relocatable_arm(elf: RawElf) -> bool:
    """Return whether a file is a relocatable object for a 32-bit little-endian Arm."""
    is_arm = elf.machine == rawelf.EM_ARM and elf.elf_class == 32 and elf.is_little_endian
    return is_arm and elf.type == rawelf.ET_REL


def _attributes(elf: RawElf) -> ArmAttributes | None:
    if elf.machine != rawelf.EM_ARM:
        return None
    for section in elf.sections:
        if section.type == _ATTRIBUTES_SECTION:
            return read_attributes(section.data, "little" if elf.is_little_endian else "big")
    return None
