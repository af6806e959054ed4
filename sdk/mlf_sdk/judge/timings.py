# SPDX-License-Identifier: Apache-2.0
"""Price of an instruction, by the documented timing of a core."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mlf_sdk.compiler.cores import Timing, cores

if TYPE_CHECKING:
    from mlf_sdk.analysis.thumb.decode import Instruction


def timings_of(cpu: str) -> Timing | None:
    """Timing of a CPU as GCC's ``-mcpu`` names it; None for one without a table."""
    core = cores().get(cpu.partition("+")[0])
    return None if core is None else core.timing


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
