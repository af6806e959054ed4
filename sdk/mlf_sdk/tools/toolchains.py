# SPDX-License-Identifier: Apache-2.0
"""Toolchains that compile for boards: that of each architecture's row, and others, one TOML row each.

The rows lie in ``board_templates/toolchains``: programs and flags, by which the same sources are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.isas import NO_FPU, Isa
from mlf_sdk.tools.programs import find_program
from mlf_sdk.tools.rowfile import read_row

GCC = "gcc"
AUTOMATIC = "zig"  # takes the place of the default where that is not installed
_CHOSEN_BY_CPU = "auto"


class IsaFlags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Flags of a toolchain for an architecture.

    Attributes:
        flags: ``{cpu}``, ``{fpu}``, ``{dsp}``, ``{abi}``, ``{float_abi}`` and ``{alignment}`` stand for the
            board's; one that is empty then is left out.
        fpu_flags: more flags, of boards that name an FPU.
        cpus: the toolchain's names of CPUs; none: the architecture's.
        fpus: by CPU, what ``{fpu}`` stands for by name of the FPU; none: its name.
        dsp: by CPU, what ``{dsp}`` stands for on boards that have the DSP extension.
        abis: what ``{abi}`` stands for, by the board's ``float_abi``.
        alignment: what ``{alignment}`` stands for, by CPU.
        link_flags: by CPU, more flags of the linker: the last CPU that it is given chooses its libraries.
    """

    flags: tuple[str, ...]
    fpu_flags: tuple[str, ...] = ()
    cpus: Mapping[str, str] = {}
    fpus: Mapping[str, Mapping[str, str]] = {}
    dsp: Mapping[str, str] = {}
    abis: Mapping[str, str] = {}
    alignment: Mapping[str, str] = {}
    link_flags: Mapping[str, tuple[str, ...]] = {}


class ToolchainRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A toolchain beside that of an architecture's row.

    Attributes:
        name, title: as it is chosen, and for people.
        programs: names that its program may have, the usual one first.
        arguments: its first arguments, which make it a compiler of C.
        native_arguments: those behind them for programs of this machine.
        links: it links by itself; else the architecture's own compiler does, with its C library.
        has_libm: what links has the whole library of mathematical functions.
        link_flags: of its linker.
        common_flags: for every architecture.
        isas: flags by architecture.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    native_arguments: tuple[str, ...] = ()
    links: bool = False
    has_libm: bool = False
    link_flags: tuple[str, ...] = ()
    common_flags: tuple[str, ...] = ()
    isas: Mapping[str, IsaFlags]


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """A toolchain for the CPU of a board.

    Attributes:
        name, title: as it is chosen, and for people.
        programs: names that the compiler may have; arguments: its first arguments.
        needed: other programs that a build starts.
        flags: of compiler and assembler.
        linker: what links in place of the compiler, with its flags; empty: the compiler.
        link_flags: more flags when linking.
        objcopy: program that converts and edits images; empty: there is none.
        is_gnu: compiler, linker and C library are the architecture's own.
        own_headers: it needs the runtime's headers of the C library; own_libm: and its functions.
    """

    name: str
    title: str = ""
    programs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    flags: tuple[str, ...]
    linker: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    objcopy: str = ""
    is_gnu: bool = True
    own_headers: bool = False
    own_libm: bool = False

    @property
    def joiner(self) -> tuple[str, ...]:
        """The program that joins objects into one, without specs (they name linker scripts)."""
        linker = self.linker or (self.programs[0], *self.arguments, *self.flags)
        return tuple(word for word in linker if not word.startswith(("-specs=", "--specs=")))

    def argv(self, which: Callable[[str], str | None] = find_program) -> tuple[str, ...]:
        """The compiler with its first arguments and the flags: the first of its names that is installed."""
        result = next((name for name in self.programs if which(name) is not None), self.programs[0])
        return (result, *self.arguments, *self.flags)


@cache
def load_toolchains() -> Mapping[str, ToolchainRow]:
    """The toolchains beside those of the architectures' rows, by name.

    Raises:
        InputError: a row is not as it must be.
    """
    folder = data_dir("board_templates") / "toolchains"
    rows = (read_row(path, ToolchainRow) for path in sorted(folder.glob("*.toml")))
    return {row.name: row for row in rows}


def toolchain_for(
    name: str, isa: Isa, *, cpu: str, fpu: str, float_abi: str, dsp: bool | None = None
) -> Toolchain:
    """The toolchain of a name for a CPU.

    Raises:
        InputError: there is no such toolchain, or it has no such architecture or CPU.
    """
    own = isa.compiler_flags(cpu, fpu, float_abi)
    if name == GCC:
        return Toolchain(
            name=GCC,
            programs=(isa.tools.c,),
            needed=(isa.tools.objcopy,),
            flags=own,
            link_flags=isa.linker_flags(cpu),
            objcopy=isa.tools.objcopy,
        )
    row = load_toolchains().get(name)
    known = row.isas.get(isa.name) if row is not None else None
    if row is None or known is None:
        raise InputError(
            f"the toolchain '{name}' does not compile for {isa.title}" if row else f"no toolchain '{name}'",
            where="--toolchain",
            hint=f"Known: {', '.join((GCC, *load_toolchains()))}.",
        )
    flags = _flags(known, row, cpu=cpu, fpu=fpu, float_abi=float_abi, dsp=dsp)
    return Toolchain(
        name=name,
        title=row.title,
        programs=row.programs,
        arguments=row.arguments,
        needed=() if row.links else (isa.tools.c, isa.tools.objcopy),
        flags=flags,
        linker=() if row.links else (isa.tools.c, *own),
        link_flags=(*row.link_flags, *known.link_flags.get(cpu, ())) if row.links else isa.linker_flags(cpu),
        objcopy="" if row.links else isa.tools.objcopy,
        is_gnu=False,
        own_headers=True,
        own_libm=not row.has_libm,
    )


def _flags(
    known: IsaFlags, row: ToolchainRow, *, cpu: str, fpu: str, float_abi: str, dsp: bool | None
) -> tuple[str, ...]:
    base, _, more = cpu.partition("+")
    named = known.cpus.get(base, "" if known.cpus else cpu)
    fpus = known.fpus.get(base, {})
    feature = "" if fpu == NO_FPU else fpus.get(fpu, "" if known.fpus else fpu)
    if not named or (known.fpus and fpu != NO_FPU and not feature):
        raise InputError(
            f"the toolchain '{row.name}' does not know the CPU {cpu} with the FPU '{fpu}'",
            where="--toolchain",
            hint=f"Known: {', '.join(known.cpus)}. Choose another toolchain: --toolchain {GCC}.",
        )
    values = {
        "cpu": named,
        "fpu": feature,
        "float_abi": float_abi,
        "abi": known.abis.get(float_abi, float_abi),
        "dsp": known.dsp.get(base, "") if dsp and "nodsp" not in more else "",
        "alignment": known.alignment.get(base, ""),
    }
    has_name = fpu not in (NO_FPU, _CHOSEN_BY_CPU)
    used = (*known.flags, *(known.fpu_flags if has_name else ()))
    return (*filter(None, (flag.format_map(values) for flag in used)), *row.common_flags)


def choose_toolchain(isa: Isa, wanted: str | None, which: Callable[[str], str | None] = find_program) -> str:
    """Name of the toolchain for an architecture: what was asked for, else the first that is installed."""
    if wanted is not None:
        return wanted
    row = load_toolchains()[AUTOMATIC]
    has_own = which(isa.tools.c) is not None
    if not has_own and isa.name in row.isas and any(which(name) for name in row.programs):
        return AUTOMATIC
    return GCC
