# SPDX-License-Identifier: Apache-2.0
"""C source of a compiled model: one function for all operators that share their code."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.compiler.kernels.kernel import Kernel, Role

_HEAD = """// SPDX-License-Identifier: Apache-2.0
// Kernels of {name}, made by mlf-sdk compile for this model alone.
#include <math.h>
#include <stdint.h>
#include <string.h>

"""


def emit(name: str, kernels: Sequence[Kernel]) -> tuple[str, list[str]]:
    """Text of the source, and the function of each kernel.

    Args:
        name: prefix of all functions, a C identifier.
    """
    symbols: dict[str, str] = {}
    counts: dict[str, int] = {}
    helpers: dict[str, str] = {}
    functions: list[str] = []
    found = []
    for kernel in kernels:
        if kernel.key not in symbols:
            number = counts[kernel.family] = counts.get(kernel.family, -1) + 1
            symbols[kernel.key] = f"{name}_{kernel.family}_{number}"
            helpers.update(kernel.helpers)
            functions.append(_function(symbols[kernel.key], kernel))
        found.append(symbols[kernel.key])
    prototypes = "".join(f.partition("\n{")[0] + ";\n" for f in functions)
    return _HEAD.format(name=name) + "\n".join([*helpers.values(), prototypes, *functions]), found


def _function(symbol: str, kernel: Kernel) -> str:
    shared = (Role.INPUT, Role.OUTPUT) if kernel.overlaps else ()
    declarations = [
        p.declaration if p.role in shared else p.declaration.replace("*", "*restrict ")
        for p in kernel.parameters
    ]
    return f"void {symbol}({', '.join(declarations)})\n{{\n{kernel.body}}}\n"
