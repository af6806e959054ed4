# SPDX-License-Identifier: Apache-2.0
"""Cores that kernels are chosen for, as data in ``board_templates/cores``: instruction sets and timing."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec
from msgspec import Meta

from mlf_sdk.compiler.options import GENERIC, core_names, cores_folder
from mlf_sdk.errors import InputError
from mlf_sdk.tools.rowfile import read_row

Cycles = Annotated[int, Meta(ge=0, le=64)]


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cycles of each class of instructions with zero wait states; 1 where a core states nothing else.

    ``multiple`` and ``pop_pc`` are for instructions that move several registers: each register adds one.
    """

    data: Cycles = 1
    load: Cycles = 1
    load_behind_load: Cycles | None = None
    store: Cycles = 1
    store_by_register: Cycles | None = None
    multiple: Cycles = 1
    pop_pc: Cycles = 1
    branch: Cycles = 1
    branch_taken: Cycles = 1
    table_branch: Cycles = 1
    call: Cycles = 1
    multiply: Cycles = 1
    multiply_accumulate: Cycles = 1
    multiply_long: Cycles = 1
    multiply_long_accumulate: Cycles = 1
    divide: Cycles = 1
    system: Cycles = 1
    float: Cycles = 1
    float_load: Cycles = 1
    float_load_double: Cycles = 1
    float_multiply_accumulate: Cycles = 1
    float_divide: Cycles = 1


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timing of a core's instructions.

    Attributes:
        source: document and section.
        kind: ``documented``, ``by analogy`` or ``single-issue bound``.
        assumes: choices within the ranges of the document.
    """

    source: str
    kind: str
    cycles: Prices
    assumes: str = ""


class Core(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A processor that kernels are chosen for; every archive runs on any.

    Attributes:
        name: as GCC's ``-mcpu`` takes it, or ``generic``.
        instruction_sets: that its kernels are written for, the one to prefer first.
        macros: that its compiler defines where these instructions may be used.
        counted_on: emulated board on which kernels are counted; empty: none.
        timing: None: no document states it.
    """

    name: str
    instruction_sets: tuple[str, ...]
    macros: tuple[str, ...] = ()
    counted_on: str = ""
    timing: Timing | None = None


@cache
def cores() -> dict[str, Core]:
    """Every core by its name, the generic one first.

    Raises:
        InputError: a row is not as it must be.
    """
    rows = {name: read_row(cores_folder() / f"{name}.toml", Core) for name in core_names()}
    wrong = [name for name, row in rows.items() if row.name != name]
    if wrong:
        raise InputError("it states another core than its name", where=f"cores/{wrong[0]}.toml")
    return rows


def core_named(name: str) -> Core:
    """The core ``name``.

    Raises:
        InputError: there is none.
    """
    entry = cores().get(name)
    if entry is None:
        raise InputError(
            f"there is no core '{name}'", where="--core", hint=f"Known: {', '.join(core_names())}."
        )
    return entry


def core_of(cpu: str, *, dsp: bool) -> Core:
    """The core that comes nearest to a CPU: its own without what the CPU lacks.

    Args:
        cpu: as GCC's ``-mcpu`` takes it, e.g. ``cortex-m33+nodsp``; empty for the host.
        dsp: the CPU has the DSP extension.
    """
    name, *extensions = cpu.split("+")
    lacks = {one.removeprefix("no") for one in extensions if one.startswith("no")}
    row = cores().get(name)
    if row is None:
        return core_named("cortex-m4" if dsp else GENERIC)
    if not dsp:
        lacks |= {"dsp", "mve"}
    left = tuple(one for one in row.instruction_sets if one not in lacks)
    if left == row.instruction_sets:
        return row
    return next((core for core in cores().values() if core.instruction_sets == left), core_named(GENERIC))


@cache
def core_macros() -> frozenset[str]:
    """Macros that tell cores apart."""
    return frozenset(macro for core in cores().values() for macro in core.macros)
