# SPDX-License-Identifier: Apache-2.0
"""A microkernel as a static C function: assembly for an instruction set, plain C for all others."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Mapping, Sequence

from mlf_sdk.compiler.microkernels.assembly import assembly
from mlf_sdk.compiler.microkernels.builder import Builder
from mlf_sdk.compiler.microkernels.instruction_set import InstructionSet, instruction_set
from mlf_sdk.compiler.microkernels.plain import plain


def static_function(
    name: str, builder: Builder, target: InstructionSet, about: str = ""
) -> Mapping[str, str]:
    """Text of a function with the builder's parameters, behind the texts that it needs, by name."""
    return function_of_sets(name, ((builder, target),), about)


def function_of_sets(
    name: str, variants: Sequence[tuple[Builder, InstructionSet]], about: str = ""
) -> Mapping[str, str]:
    """`static_function` with assembly for several instruction sets, each recorded with the same parameters.

    Its plain C is that of the first one.

    Args:
        about: begins the comment with which each function in assembly begins.
    """
    builder, target = variants[0]
    body, functions = plain(builder, target.meanings)
    result = builder.returned.c_type if builder.returned else "void "
    declarations = [f"{p.kind.c_type}{p.name}" for p in builder.parameters]
    unused = ", ".join(f"{d} __attribute__((unused))" for d in declarations)
    parts = []
    for builder, target in variants:
        lines = assembly(builder, target)
        note = about + _counts(builder, target, lines)
        parts.append(f"""if {target.condition}
__attribute__((naked, noinline)) static {result}{name}({unused})
{{
    __asm__ volatile(
{"".join(f"        {line}{chr(10)}" for line in (f"/* {note} */", *lines))}    );
}}
""")
    text = "#el".join(parts)
    text = f"""#{text}#else
static {result}{name}({", ".join(declarations)})
{{
{body}}}
#endif
"""
    return {**functions, name: text}


def _counts(builder: Builder, target: InstructionSet, lines: Sequence[str]) -> str:
    """Instructions of a function and products that these compute, each as often as it stands there."""
    instructions = sum(line.startswith('"') and not line.endswith(':\\n"') for line in lines)
    products = sum(_products(target.meanings.get(o.name, "")) for o in builder.operations)
    return f"{instructions} instructions" + (f" for {products} products" if products else "")


@functools.cache
def _products(meaning: str) -> int:
    """Products that an operation adds up or stores; of one with several results, those of the last."""
    turns, _, assignments = meaning.rpartition(": ")
    last = re.sub(r"\[[^]]*\]", "", assignments.rpartition("; ")[2])
    return int(turns or 1) * last.count(" * ")


@functools.lru_cache(maxsize=1024)
def recorded(
    name: str, target: str, record: Callable[..., Builder], *given: Hashable, **options: Hashable
) -> Mapping[str, str]:
    """`static_function` of what ``record`` records, which is kept: many layers share a function.

    Args:
        target: name of an instruction set.
        given, options: arguments of ``record``.
    """
    about = f"{record.__module__.rpartition('.')[2]}: "
    return static_function(name, record(*given, **options), instruction_set(target), about)
