# SPDX-License-Identifier: Apache-2.0
"""Documented timings of cores, as data in ``board_templates/cores``, and the price of an instruction."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.rowfile import read_row

if TYPE_CHECKING:
    from mlf_sdk.analysis.thumb.decode import Instruction

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


class CoreTimings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timings of a core.

    Attributes:
        source: document and section.
        kind: ``documented``, ``by analogy`` or ``single-issue bound``.
        assumes: choices within the ranges of the document.
    """

    core: str
    source: str
    kind: str
    cycles: Prices
    assumes: str = ""


def timings_of(cpu: str) -> CoreTimings | None:
    """Timings of a CPU as GCC's ``-mcpu`` names it; None for one without a table."""
    path = _folder() / f"{cpu.partition('+')[0] or 'none'}.toml"
    return read_row(path, CoreTimings) if path.is_file() else None


def _folder() -> Path:
    return data_dir("board_templates") / "cores"


_CONDITION: Final = r"(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?(\.[nw])?$"
_CLASSES: Final = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"v(ldm|stm|push|pop)", "multiple"),
        (r"vldr", "float_load"),
        (r"vstr", "float_load"),
        (r"v(ml[as]|nml[as]|fm[as]|fnm[as])", "float_multiply_accumulate"),
        (r"v(div|sqrt)", "float_divide"),
        (r"v", "float"),
        (r"(ldm|stm|push|pop|ldrd|strd)", "multiple"),
        (r"ldr", "load"),
        (r"str", "store"),
        (r"tb[bh]$", "table_branch"),
        (rf"(bl|blx){_CONDITION}", "call"),
        (rf"(b|bx|cbz|cbnz){_CONDITION}", "branch"),
        (r"(sdiv|udiv)", "divide"),
        (r"(smlal|smlsld|umlal|umaal)", "multiply_long_accumulate"),
        (r"(smull|umull)", "multiply_long"),
        (r"(mla|mls)", "multiply_accumulate"),
        (r"(mul|smul|smla|smls|smml|smmul|smuad|smusd|sdot|udot)", "multiply"),
        (r"(mrs|msr|cps|dmb|dsb|isb|svc|wf[ei]|sev)", "system"),
    )
)


def class_of(instruction: Instruction) -> str:
    """Field of `Prices` that an instruction belongs to."""
    mnemonic = instruction.mnemonic
    return next((name for pattern, name in _CLASSES if pattern.match(mnemonic)), "data")
