# SPDX-License-Identifier: Apache-2.0
"""Object files of an archive: defined and undefined symbols, and the target they were compiled for."""

from __future__ import annotations

import msgspec

from mlf_sdk.analysis.elf import raw as rawelf
from mlf_sdk.analysis.elf.raw import ElfFormatError, RawElf, read_elf
from mlf_sdk.analysis.machine.registry import AttributesError, BuildAttributes, analysis_of
from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.ctext import ALLOCATE
from mlf_sdk.tools.isas import Isa, fallback_isa, isa_of_cpu, isa_of_machine

_ATTRIBUTES_SECTION = 0x70000003


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one object file.

    Attributes:
        machine: ``ARM``, ``x86-64`` and so on.
        elf_class: 32 or 64.
        isa: the architecture of which it is a relocatable, little-endian, 32-bit object; empty: none.
        attributes: its build attributes; None when it has none.
        defined: symbols with external linkage that it defines, weak ones included.
        strong: those of them that must not be defined again.
        undefined: symbols that it needs.
        allocates: it refers to the workspace allocator.
        computes_in_double: its code has floating-point instructions for double.
    """

    machine: str
    elf_class: int
    isa: str
    attributes: BuildAttributes | None
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
    isa = relocatable_isa(elf)
    defined = [s for s in elf.symbols if s.binding != rawelf.STB_LOCAL and s.is_defined]
    return ObjectInfo(
        machine=elf.machine_name,
        elf_class=elf.elf_class,
        isa=isa.name if isa is not None else "",
        attributes=attributes,
        defined=tuple(dict.fromkeys(s.name for s in defined)),
        strong=tuple(dict.fromkeys(s.name for s in defined if s.binding == rawelf.STB_GLOBAL)),
        undefined=tuple(dict.fromkeys(s.name for s in elf.symbols[1:] if s.section == rawelf.SHN_UNDEF)),
        allocates=any(elf.symbols[r.symbol].name == ALLOCATE for r in elf.relocations),
        computes_in_double=_computes_in_double(elf, attributes),
    )


def check_object_against(cpu: str, fpu: str, float_abi: str, info: ObjectInfo) -> list[str]:
    """List the reasons why an object cannot be linked for a board; empty when it can.

    Args:
        cpu: the board's CPU as GCC calls it, e.g. ``cortex-m4``.
        fpu: its FPU as GCC calls it, e.g. ``fpv4-sp-d16``; empty or ``none`` for none.
        float_abi: ``hard``, ``softfp`` or ``soft``.
    """
    wanted = isa_of_cpu(cpu)
    if not info.isa or (wanted is not None and info.isa != wanted.name):
        need = rawelf.machine_name((wanted or fallback_isa()).machine)
        return [f"it is a {info.elf_class}-bit {info.machine} file, not a 32-bit little-endian {need} object"]
    if info.attributes is None:
        return ["it has no build attributes: its CPU is not stated"]
    return info.attributes.problems(cpu, fpu, float_abi, computes_in_double=info.computes_in_double)


def relocatable_isa(elf: RawElf) -> Isa | None:
    """The architecture of which a file is a relocatable, little-endian object of 32 bits; None: of none."""
    is_object = elf.type == rawelf.ET_REL and elf.elf_class == 32 and elf.is_little_endian
    return isa_of_machine(elf.machine) if is_object else None


def _computes_in_double(elf: RawElf, attributes: BuildAttributes | None) -> bool:
    isa = isa_of_machine(elf.machine)
    if isa is None or attributes is None or not attributes.may_use_fpu(for_double=True):
        return False
    return analysis_of(isa).computes_in_double(elf)


def _attributes(elf: RawElf) -> BuildAttributes | None:
    isa = isa_of_machine(elf.machine)
    if isa is None:
        return None
    for section in elf.sections:
        if section.type == _ATTRIBUTES_SECTION:
            order = "little" if elf.is_little_endian else "big"
            return analysis_of(isa).read_attributes(section.data, order)
    return None
