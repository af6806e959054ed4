# SPDX-License-Identifier: Apache-2.0
"""Makers of kernels in the schedule: which of them gave a kernel, each called once for an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlf_sdk.compiler import schedule
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set, instruction_set_names


def tables() -> tuple[schedule.Makers, ...]:
    """All tables of makers: those for any core, of real numbers, for size, and of each instruction set and goal."""
    sets = (table for name in instruction_set_names() for table in instruction_set(name).kernels.tables)
    return (schedule.KERNELS, schedule._REALS, schedule._COMPACT, *sets)


def makers() -> tuple[tuple[str, str], ...]:
    """Each maker once for each class of operators: the name of the class, and its place."""
    rows = (row for table in tables() for row in table.items())
    return tuple(dict.fromkeys((kind, place) for kind, places in rows for place in places))


@dataclass
class Drawn:
    """Kernels that each maker gave.

    Attributes:
        names: of all makers: ``Operator module:function``.
        counts: operators for which a maker gave a kernel, by its name.
    """

    names: tuple[str, ...] = field(default_factory=lambda: tuple(map(" ".join, makers())))
    counts: Counter[str] = field(default_factory=Counter)
    _kept: dict[tuple[str, int, int], tuple[Any, Kernel | None]] = field(default_factory=dict)

    @property
    def never(self) -> list[str]:
        """Names of the makers that gave no kernel."""
        return [name for name in self.names if not self.counts[name]]

    def forget(self) -> None:
        """Drop the kernels that are kept; call it when a graph is done."""
        self._kept.clear()

    def make(self, place: str, maker: schedule.Maker, *subject: Any) -> Kernel | None:
        """What a maker gives, counted; it keeps the kernel of each operator until `forget`."""
        layer = subject[0]
        graph, one = (layer.graph, layer.operator) if isinstance(layer, Contraction) else subject
        key = (place, id(graph), id(one))
        if key not in self._kept:
            kernel = maker(*subject)
            self.counts[f"{type(one).__name__} {place}"] += kernel is not None
            # The graph and its operator live as long as their numbers are keys.
            self._kept[key] = ((graph, one), kernel)
        return self._kept[key][1]


@contextmanager
def counted_makers() -> Iterator[Drawn]:
    """Count what the makers of all tables of the schedule give."""
    drawn, usual = Drawn(), schedule.maker_at
    schedule.maker_at = lambda place: partial(drawn.make, place, usual(place))  # type: ignore[assignment]
    try:
        yield drawn
    finally:
        schedule.maker_at = usual


def made_kernels(graphs: Iterable[Graph]) -> Iterator[Kernel]:
    """Kernels that every maker gives for the operators of graphs."""
    places: dict[str, list[str]] = {}
    for kind, place in makers():
        places.setdefault(kind, []).append(place)
    for graph in graphs:
        for operator in graph.operators:
            for place in places.get(type(operator).__name__, ()):
                found = schedule.maker_at(place)(*schedule.subject_of(graph, operator))
                if found is not None:
                    yield found
