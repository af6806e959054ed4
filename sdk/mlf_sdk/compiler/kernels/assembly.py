# SPDX-License-Identifier: Apache-2.0
"""Static functions in assembly with plain C beside them, and the instructions that their kernels share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mlf_sdk.compiler.kernels.rescale import Rescale

GNU: Final = "defined(__GNUC__)"  # statements and functions in assembly: GCC, clang, armclang
UNALIGNED: Final = f"{GNU} && defined(__ARM_FEATURE_UNALIGNED)"  # words at any address
DSP: Final = f"{UNALIGNED} && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)"
INCLUDE_ACLE: Final = f"#if {DSP}\n#include <arm_acle.h>\n#endif\n"
_STACK: Final = re.compile(
    r"(?:(?P<grows>v?push|sub sp, sp,)|v?pop|add sp, sp,) (?:\{(?P<list>[^}]*)\}|#(?P<bytes>\d+))"
)
MAX_OFFSET: Final = 4095  # of a load or store with a constant offset, in bytes


def _assembly(lines: list[str]) -> str:
    """Body of a naked function."""
    text = "\n".join(f"        {line}" for line in _with_unwind_rules(lines))
    return f"    __asm__ volatile(\n{text});\n"


def _with_unwind_rules(lines: list[str]) -> Iterator[str]:
    """C strings of instructions, and after each that moves the stack pointer what debuggers must know of it."""
    depth, saved = 0, set()
    for number, line in enumerate(lines, 1):
        yield f'"{line}\\n"'
        match = _STACK.fullmatch(line)
        if match is None:
            continue
        if "pc" in (match["list"] or ""):
            if number < len(lines):  # what follows is reached from before
                yield f'MLF_UNWIND("def_cfa_offset {depth}")'
            continue
        names = register_names(match["list"] or "")
        size = int(match["bytes"] or 0) or sum(8 if name[0] == "d" else 4 for name in names)
        grows = match["grows"] is not None
        depth += size if grows else -size
        yield f'MLF_UNWIND("def_cfa_offset {depth}")'
        for position, name in enumerate(names if grows else ()):
            if name not in saved and name[0] != "d":  # a second push is of other values
                saved.add(name)
                yield f'MLF_UNWIND("offset {name}, {4 * position - depth}")'


def register_names(text: str) -> list[str]:
    """Registers of a list such as ``r4-r7, lr``."""
    result = []
    for part in filter(None, text.split(", ")):
        first, _, last = part.partition("-")
        numbers = range(int(first[1:]), int(last[1:]) + 1) if last else ()
        result += [f"{first[0]}{k}" for k in numbers] or [first]
    return result


def function_of_cores(
    name: str, parameters: str, variants: dict[str, list[str]], plain: str, result: str = "void "
) -> str:
    """A static function: instructions of the first core whose condition holds, plain C on all others.

    Args:
        variants: instructions by the condition of the preprocessor.
    """
    unused = ", ".join(f"{p.strip()} __attribute__((unused))" for p in parameters.split(","))
    head = f"__attribute__((naked, noinline)) static {result}{name}({unused})"
    cores = "#el".join(f"if {test}\n{head}\n{{\n{_assembly(lines)}}}\n" for test, lines in variants.items())
    return f"#{cores}#else\nstatic {result}{name}({parameters})\n{{\n{plain}}}\n#endif\n"


def unrolling(quads: int, most: int) -> int:
    """Largest number of quads up to ``most`` that divides ``quads``."""
    return max(u for u in range(1, min(most, quads) + 1) if quads % u == 0)


def label(rescale: Rescale) -> str:
    """Part of a function's name that identifies its requantisation."""
    low, high = rescale.clamp
    shift = str(rescale.shift) if rescale.shift else ""
    return f"{rescale.form.value}{shift}_{low & 255}_{high & 255}"
