# SPDX-License-Identifier: Apache-2.0
"""Instruction set architectures as data: one TOML row each in ``board_templates/isas``.

A row names the compiler and its flags, the emulator, the machine of ELF files, what the runtime needs, and
the CPUs. Nothing else in the package asks for an architecture by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.rowfile import read_row

NO_FPU = "none"
STAGE_BYTES: Final = 256  # of the second stage of a boot ROM: code, pairs of address and value, checksum


class IsaCpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A CPU, as the compiler's flags name it.

    Attributes:
        fpus: that it may have; it may also have none.
        dsp: it has the DSP extension; None: the chip's choice.
        caches: it has caches, which start-up may switch on.
        link_flags: more flags when linking, e.g. of the CPU whose libraries it takes.
    """

    fpus: tuple[str, ...] = ()
    dsp: bool | None = None
    caches: bool = False
    link_flags: tuple[str, ...] = ()


class IsaTools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Programs that compile, convert and emulate images."""

    c: str
    cxx: str
    objcopy: str
    emulator: str
    debuggers: tuple[str, ...]


class IsaInterrupts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Interrupts of the core: the controller, and its own exceptions, each with a ``<name>_Handler``.

    Attributes:
        is_fixed: the registers of the controller lie at the same place on every chip.
    """

    controller: str
    is_fixed: bool = False
    core_handlers: tuple[str, ...]


class IsaMonitor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names in the monitor of its emulator, and numbers in GDB's remote protocol.

    Attributes:
        registers: by the name that faults have, the name of ``info registers``.
        numbers: by the name that faults have, the number that GDB servers know.
        words: by the name that faults have, the address of a register of the system.
    """

    registers: Mapping[str, str] = {}
    numbers: Mapping[str, int] = {}
    words: Mapping[str, int] = {}


class Isa(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, eq=False):
    """An instruction set architecture.

    Attributes:
        name: as board rows have it; also the folder of its runtime in ``crt/baremetal``.
        title: for people.
        machine, elf_name: ``e_machine`` of its ELF files, and its name in the ELF specification.
        code_bit: lowest bit of the addresses of functions in symbols and pointers.
        code_mark: mapping symbol: code begins here, in a section of code.
        attributes_section: of build attributes.
        stack_register, return_register: numbers in DWARF of the stack pointer and of the return address.
        status_register: of a reported fault, which tells the architecture.
        analysis: package of ``mlf_sdk.analysis`` that reads its machine code.
        zephyr: Zephyr's name of the architecture.
        flags: of the compiler; ``{cpu}``, ``{fpu}`` and ``{float_abi}`` stand for the board's.
        fpu_flags: more flags, of boards with an FPU.
        link_flags: more flags, when linking.
        sources: files of ``crt`` that a bare-metal image needs.
        fragment: template of what its linker script has besides; empty: nothing.
        stack_alignment_bytes: of the stack pointer.
        vectors_alignment_bytes: of what the CPU boots from.
        second_stage: code that makes the writes of a board's ``second_stage``, in words of 16 bits.
        tools: programs.
        packages: by program, the packages of Debian and Ubuntu that have it.
        interrupts: of the core.
        counters: by driver of a board's ``counter``, its file of ``crt``.
        monitor: of its emulator.
        unicorn: by CPU, the name of a core of the emulator Unicorn that runs its code.
        cpus: by name.
        optional: its tools are not needed unless one of its boards is used.
        fallback: the one of boards and reports that do not tell: its compiler reads their sources.
    """

    name: str
    title: str
    machine: int
    elf_name: str
    code_bit: int
    code_mark: str
    attributes_section: str
    stack_register: int
    return_register: int
    status_register: str
    analysis: str
    zephyr: str = ""
    flags: tuple[str, ...]
    fpu_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    sources: tuple[str, ...]
    fragment: str = ""
    stack_alignment_bytes: int
    vectors_alignment_bytes: int
    second_stage: tuple[int, ...] = ()
    tools: IsaTools
    packages: Mapping[str, str] = {}
    interrupts: IsaInterrupts
    counters: Mapping[str, str]
    unicorn: Mapping[str, str] = {}
    monitor: IsaMonitor = IsaMonitor()
    cpus: Mapping[str, IsaCpu]
    optional: bool = False
    fallback: bool = False

    def compiler_flags(self, cpu: str, fpu: str, float_abi: str) -> tuple[str, ...]:
        """Flags of the compiler for a board."""
        used = self.flags if fpu == NO_FPU else (*self.flags, *self.fpu_flags)
        return tuple(flag.format(cpu=cpu, fpu=fpu, float_abi=float_abi) for flag in used)

    def linker_flags(self, cpu: str) -> tuple[str, ...]:
        """More flags for a CPU, when linking."""
        known = self.cpu(cpu)
        return (*self.link_flags, *(known.link_flags if known is not None else ()))

    @property
    def most_stage_writes(self) -> int:
        """Number of writes that a second stage holds, beside its code, the last pair and the checksum."""
        return (STAGE_BYTES - 4 - 2 * len(self.second_stage)) // 8 - 1

    def cpu(self, name: str) -> IsaCpu | None:
        """The CPU of a name, whatever extensions follow it; None: there is none."""
        return self.cpus.get(name.partition("+")[0])


@cache
def load_isas() -> Mapping[str, Isa]:
    """Every architecture by name.

    Raises:
        InputError: a row is not as it must be.
    """
    folder = data_dir("board_templates") / "isas"
    rows = {path.stem: read_row(path, Isa) for path in sorted(folder.glob("*.toml"))}
    wrong = [name for name, row in rows.items() if row.name != name]
    if wrong:
        raise InputError("it states another name than its file's", where=f"isas/{wrong[0]}.toml")
    return rows


def isa_of_cpu(cpu: str) -> Isa | None:
    """The architecture that has a CPU; None: none of them, or the CPU is not known."""
    return next((isa for isa in load_isas().values() if isa.cpu(cpu) is not None), None)


def isa_of_machine(machine: int) -> Isa | None:
    """The architecture of an ELF file by its ``e_machine``; None: another one."""
    return next((isa for isa in load_isas().values() if isa.machine == machine), None)


def fallback_isa() -> Isa:
    """The architecture of boards and reports that do not tell."""
    return next(isa for isa in load_isas().values() if isa.fallback)
