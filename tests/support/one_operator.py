# SPDX-License-Identifier: Apache-2.0
"""Graphs of one operator, and the comparison of every kernel that can compute it with the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernel_checks import KernelCheck, all_choices, checks_of, trace
from kernel_library import KernelLibrary
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.ir.tensor import Quantisation

Array = np.ndarray[Any, np.dtype[Any]]


class Values:
    """Values of a graph of one operator."""

    def __init__(self, seed: int = 1) -> None:
        self.random = np.random.default_rng(seed)
        self.all: list[Value] = []

    def add(
        self, dtype: str, shape: tuple[int, ...], scale: float = 0.0, zero: int = 0, data: Array | None = None
    ) -> int:
        """Number of a new value; a constant where ``data`` is given."""
        found = Quantisation(scale=(float(np.float32(scale)),), zero_point=(zero,)) if scale else None
        number = len(self.all)
        self.all.append(
            Value(
                id=number, name=f"v{number}", dtype=np.dtype(dtype), shape=shape, quantisation=found,
                data=None if data is None else data.astype(dtype),
            )
        )  # fmt: skip
        return number

    def normal(self, *shape: int) -> int:
        """Number of a new constant of floats."""
        return self.add("float32", shape, data=self.random.normal(0, 1, shape))

    def graph(self, operator: Operator) -> Graph:
        """The graph of an operator; what it reads and is no constant is an input."""
        free = tuple(i for i in operator.inputs if self.all[i].data is None)
        return Graph(
            name="one", values=tuple(self.all), operators=(operator,), inputs=free, outputs=operator.outputs
        )

    def checks(
        self, operator: Operator, *runs: Array | tuple[Array, ...], random: bool = True
    ) -> list[KernelCheck]:
        """Comparisons of every kernel for every goal with the reference.

        Args:
            runs: inputs of each run; one array is given to all inputs.
            random: compare on inputs of the whole range of their types, too.
        """
        graph = self.graph(operator)
        given = [[*run] if isinstance(run, tuple) else [run] * len(graph.inputs) for run in runs]
        if random:
            given.insert(0, [self.any(self.all[i]) for i in graph.inputs])
        traced, choices = trace(graph, given), all_choices(core_named("generic"))
        found = {
            check.kernel.content: check
            for goal in (Goal.SPEED, Goal.SIZE)
            for check in checks_of("one", graph, traced, choices, others=Choice(goal=goal))
        }
        assert found
        return [*found.values()]

    def any(self, value: Value) -> Array:
        """Random data for a value, over the whole range of its type."""
        if value.dtype.kind == "f":
            return self.random.uniform(-3, 3, value.shape).astype(value.dtype)
        if value.dtype.kind == "b":
            return self.random.integers(0, 2, value.shape).astype(bool)
        limits = np.iinfo(value.dtype)
        return self.random.integers(limits.min, limits.max + 1, value.shape).astype(value.dtype)


def fields(inputs: tuple[int, ...], output: int, kind: str = "ONE") -> dict[str, Any]:
    """What every operator has."""
    return {"number": 0, "kind": kind, "inputs": inputs, "outputs": (output,)}


def compare(checks: list[KernelCheck], folder: Path) -> None:
    """Run comparisons in one library.

    Raises:
        AssertionError: a kernel gives something else, or touches what is not its own.
    """
    library = KernelLibrary(checks, folder, ("-O1", "-Wall", "-Werror", "-Wno-unused"))
    assert [fault for check in checks for fault in library.faults(check)] == []
