# SPDX-License-Identifier: Apache-2.0
"""An operator that comes with its kernel: the code of another generator."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated(Operator):
    """An operator whose kernel was made when the model was read."""

    kernel: Kernel = field(repr=False, compare=False)


def generated(graph: Graph, operator: Generated) -> Kernel:
    """The kernel that the operator came with."""
    return operator.kernel
