# SPDX-License-Identifier: Apache-2.0
"""A microkernel as a static C function: assembly for an instruction set, plain C for all others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping

from mlf_sdk.compiler.microkernels.assembly import assembly
from mlf_sdk.compiler.microkernels.builder import Builder
from mlf_sdk.compiler.microkernels.instruction_set import InstructionSet, instruction_set
from mlf_sdk.compiler.microkernels.plain import plain


def static_function(name: str, builder: Builder, target: InstructionSet) -> Mapping[str, str]:
    """Text of a function with the builder's parameters, behind the texts that it needs, by name."""
    body, functions = plain(builder, target.meanings)
    declarations = [f"{p.kind.c_type}{p.name}" for p in builder.parameters]
    unused = ", ".join(f"{d} __attribute__((unused))" for d in declarations)
    lines = "".join(f"        {line}\n" for line in assembly(builder, target))
    text = f"""#if {target.condition}
__attribute__((naked, noinline)) static void {name}({unused})
{{
    __asm__ volatile(
{lines}    );
}}
#else
static void {name}({", ".join(declarations)})
{{
{body}}}
#endif
"""
    return {**functions, name: text}


@functools.lru_cache(maxsize=1024)
def recorded(
    name: str, target: str, record: Callable[..., Builder], *given: Hashable, **options: Hashable
) -> Mapping[str, str]:
    """`static_function` of what ``record`` records, which is kept: many layers share a function.

    Args:
        target: name of an instruction set.
        given, options: arguments of ``record``.
    """
    return static_function(name, record(*given, **options), instruction_set(target))
