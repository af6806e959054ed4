# SPDX-License-Identifier: Apache-2.0
"""A microkernel as a static C function: assembly for an instruction set, plain C for all others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence

from mlf_sdk.compiler.microkernels.assembly import assembly
from mlf_sdk.compiler.microkernels.builder import Builder
from mlf_sdk.compiler.microkernels.instruction_set import InstructionSet, instruction_set
from mlf_sdk.compiler.microkernels.plain import plain


def static_function(name: str, builder: Builder, target: InstructionSet) -> Mapping[str, str]:
    """Text of a function with the builder's parameters, behind the texts that it needs, by name."""
    return function_of_sets(name, ((builder, target),))


def function_of_sets(name: str, variants: Sequence[tuple[Builder, InstructionSet]]) -> Mapping[str, str]:
    """`static_function` with assembly for several instruction sets, each recorded with the same parameters.

    Its plain C is that of the first one.
    """
    builder, target = variants[0]
    body, functions = plain(builder, target.meanings)
    result = builder.returned.c_type if builder.returned else "void "
    declarations = [f"{p.kind.c_type}{p.name}" for p in builder.parameters]
    unused = ", ".join(f"{d} __attribute__((unused))" for d in declarations)
    text = "#el".join(
        f"""if {target.condition}
__attribute__((naked, noinline)) static {result}{name}({unused})
{{
    __asm__ volatile(
{"".join(f"        {line}{chr(10)}" for line in assembly(builder, target))}    );
}}
"""
        for builder, target in variants
    )
    text = f"""#{text}#else
static {result}{name}({", ".join(declarations)})
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
