# SPDX-License-Identifier: Apache-2.0
"""Kernels that come with their operator: the user's functions, and the code of other generators."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.generated import Generated
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Custom


def custom(graph: Graph, operator: Custom) -> Kernel:
    """The call of a custom operator's function: arrays of pointers, and the model's options."""
    count = len(operator.options)
    constants = (np.frombuffer(operator.options or b"\0", np.uint8),)
    reads = ", ".join(f"x{i}" for i in range(len(operator.inputs)))
    writes = ", ".join(f"y{i}" for i in range(len(operator.outputs)))
    body = f"    void *const outputs[] = {{{writes}}};\n"
    if reads:
        body = f"    const void *const inputs[] = {{{reads}}};\n" + body
    body += f"    {operator.symbol}({'inputs' if reads else '0'}, outputs, p0, {count});\n"
    helpers = {f"custom_{operator.symbol}": f"{operator.declaration};\n"}
    return Kernel.of(graph, operator, "custom", body, constants, helpers=helpers)


def generated(graph: Graph, operator: Generated) -> Kernel:
    """The kernel that the operator came with."""
    return operator.kernel
