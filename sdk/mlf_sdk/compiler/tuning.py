# SPDX-License-Identifier: Apache-2.0
"""Choice of kernels by counting: what a measurement says of the kernels of each operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, Role
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.schedule import Choice, alternatives, candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A kernel of an operator, and the cost of one call.

    Attributes:
        cost: in the unit of the measurement; None: it was not measured.
    """

    kernel: Kernel
    cost: int | None = None


TuningTask = tuple[Operator, tuple[Kernel, ...]]
"""An operator and its kernels, the preferred one first."""

Tuner = Callable[[Graph, list[TuningTask]], list[tuple[Counted, ...]]]
"""Answers each task with those of its kernels whose outputs are right, the best one first."""


def kernels_of(
    graph: Graph, choice: Choice, tuner: Tuner | None, *, others: bool = True
) -> list[tuple[Counted, ...]]:
    """Kernels of each operator of an improved graph, the chosen one first; none where no code is needed.

    For size nothing is measured: the bytes of kernels decide.

    Args:
        others: False: without those that a rule did not choose, which takes less time.
    """
    if tuner is None or choice.goal is Goal.SIZE:
        most = None if others or choice.goal is Goal.SIZE else 1
        result = [tuple(islice(candidates(graph, o, choice), most)) for o in graph.operators]
        if choice.goal is Goal.SIZE:
            from mlf_sdk.compiler.smallest import smallest_first

            result = smallest_first(result, choice.core)
        return [tuple(Counted(kernel=kernel) for kernel in kernels) for kernels in result]
    asked = [(operator, alternatives(graph, operator, choice)) for operator in graph.operators]
    tasks = [task for task in asked if needs_tuning(task[1])]
    answers = iter(tuner(graph, tasks))
    return [
        next(answers) if needs_tuning(kernels) else tuple(Counted(kernel=kernel) for kernel in kernels)
        for _, kernels in asked
    ]


def needs_tuning(kernels: tuple[Kernel, ...]) -> bool:
    """Return whether there is something to choose: several kernels, none of which keeps state."""
    return len(kernels) > 1 and not any(p.role is Role.STATE for k in kernels for p in k.parameters)
