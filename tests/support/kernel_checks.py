# SPDX-License-Identifier: Apache-2.0
"""Every kernel that can be chosen for the operators of a graph, beside the values that the reference gives.

What a graph's kernels compute is compared operator by operator, each on the reference's own values: kernels that
several goals or cores share are compared once, and the first operator that differs is known. `kernel_library` runs
the comparisons of many graphs on the host, `core_batches` on an emulated core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlf_sdk.compiler.cores import Core
from mlf_sdk.compiler.generated import Generated
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.layer import detail_of
from mlf_sdk.compiler.operators import Custom, Operator
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import evaluate
from mlf_sdk.compiler.schedule import Choice, alternatives, kernels_of

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one operator in one run of a graph.

    Attributes:
        before, after: the states that it reads or writes.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    before: tuple[Array, ...] = ()
    after: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """A kernel of one operator, and values that it must give.

    Attributes:
        label: graph, operator and choice, for people.
        runs: the operator's values in consecutive runs.
    """

    label: str
    kernel: Kernel
    runs: tuple[Values, ...]


def trace(
    graph: Graph, runs: Sequence[Sequence[Array]], known: Sequence[Mapping[str, Array]] = ()
) -> list[tuple[Values, ...]]:
    """Values of each operator in consecutive runs, as the reference computes them.

    Args:
        runs: inputs of each run.
        known: values of each run by their names, from another interpreter: operators behind read these, so that
            a difference stays with the operator that makes it.
    """
    states = [state.initial.copy() for state in graph.states]
    found: list[list[Values]] = [[] for _ in graph.operators]
    for number_of_run, inputs in enumerate(runs):
        others = known[number_of_run] if known else {}
        values: dict[int, Array] = {v.id: v.data for v in graph.values if v.data is not None}
        for number, data in zip(graph.inputs, inputs, strict=True):
            value = graph.values[number]
            values[number] = np.asarray(data).astype(value.dtype).reshape(value.shape)
        for operator, kept in zip(graph.operators, found, strict=True):
            mine = operator.states
            before = tuple(states[i].copy() for i in mine)
            read = tuple(values[i] for i in operator.inputs)
            for number, data in zip(
                operator.outputs, evaluate(graph, operator, list(read), states), strict=True
            ):
                value = graph.values[number]
                values[number] = data.astype(value.dtype).reshape(value.shape)
            written = tuple(values[i] for i in operator.outputs)
            values.update(
                (i, other) for i in operator.outputs if (other := _known(graph, i, others)) is not None
            )
            kept.append(Values(read, written, before, tuple(states[i].copy() for i in mine)))
    return [tuple(kept) for kept in found]


def _known(graph: Graph, number: int, others: Mapping[str, Array]) -> Array | None:
    """The value of this number in another interpreter, where it has one of its name, type and size."""
    value = graph.values[number]
    other = others.get(value.name)
    if other is None or other.dtype != value.dtype or other.size != value.elements:
        return None
    return other.reshape(value.shape)


def compare_by_name(
    name: str, graph: Graph, traced: Sequence[tuple[Values, ...]], known: Sequence[Mapping[str, Array]]
) -> Iterator[str]:
    """Where the reference differs from another interpreter, operator by operator; from `trace` with the same ``known``."""
    for operator, runs in zip(graph.operators, traced, strict=True):
        for run, values in enumerate(runs):
            for number, own in zip(operator.outputs, values.outputs, strict=True):
                other = _known(graph, number, known[run])
                says = "" if other is None else difference(own, other)
                if says:
                    yield f"{name}: {_place(operator)}: reference, '{graph.values[number].name}': {says}"


def checks_of(
    name: str,
    graph: Graph,
    traced: Sequence[tuple[Values, ...]],
    choices: Iterable[Choice],
    *,
    others: Choice | None = None,
) -> list[KernelCheck]:
    """Comparisons of every kernel that is chosen for an operator; those of equal code and constants are one.

    Args:
        graph: improved; operators without a reference are left out.
        traced: from `trace` of the same graph.
        others: kernels that would be counted for this choice are compared, too.
    """
    found: list[dict[Any, tuple[list[str], Kernel]]] = [{} for _ in graph.operators]
    for choice in choices:
        for kept, kernels in zip(found, kernels_of(graph, choice, None), strict=True):
            if kernels:
                _keep(kept, kernels[0].kernel, f"{choice.goal.value} {choice.core.name}")
    for operator, kept in zip(graph.operators, found, strict=True):
        for kernel in alternatives(graph, operator, others) if others else ():
            _keep(kept, kernel, kernel.label)
    return [
        KernelCheck(f"{name}: {_place(operator)}: {kernel.label} ({', '.join(whose)})", kernel, runs)
        for operator, kept, runs in zip(graph.operators, found, traced, strict=True)
        if not isinstance(operator, Custom | Generated)
        for whose, kernel in kept.values()
    ]


def all_choices(core: Core) -> tuple[Choice, ...]:
    """Every goal on a core."""
    return tuple(Choice(goal=goal, core=core) for goal in Goal)


def _keep(kept: dict[Any, tuple[list[str], Kernel]], kernel: Kernel, whose: str) -> None:
    kept.setdefault(kernel.content, ([], kernel))[0].append(whose)


def _place(operator: Operator) -> str:
    return f"operator {operator.number} {operator.kind} {detail_of(operator)}".rstrip()


def differences(
    check: KernelCheck, run: int, outputs: Sequence[Array], states: Sequence[Array]
) -> Iterator[str]:
    """How the results of one run differ from what a check wants; nothing where they are right."""
    wanted = check.runs[run]
    for kind, got, right in (("output", outputs, wanted.outputs), ("state", states, wanted.after)):
        for number, (a, b) in enumerate(zip(got, right, strict=True)):
            says = difference(a, b)
            if says:
                yield f"{check.label}: {kind} {number}: {says}"


def difference(got: Array, wanted: Array, tolerance: float = TOLERANCE) -> str:
    """How two arrays differ; real numbers by more than ``tolerance`` of the largest one. Empty: they don't."""
    got, wanted = got.reshape(-1), wanted.reshape(-1)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind == "f":
        finite = np.abs(wanted[np.isfinite(wanted)])
        largest = max(1e-9, float(finite.max(initial=0)))
        wrong = ~np.isclose(got, wanted, rtol=tolerance, atol=tolerance * largest, equal_nan=True)
    else:
        wrong = got != wanted
    if not wrong.any():
        return ""
    first = int(np.argmax(wrong))
    return f"{int(wrong.sum())} of {wrong.size} differ; [{first}] is {got[first]}, not {wanted[first]}"
