# SPDX-License-Identifier: Apache-2.0
"""Makers of kernels in the schedule: which of them gave a kernel, each called once for an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from mlf_sdk.compiler import schedule
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Operator


def tables() -> dict[str, dict[type[Operator], Any]]:
    """All tables of makers by name: those for any core, for size, and of each instruction set, named by their goals."""
    found: dict[str, dict[type[Operator], Any]] = {
        "any": cast(dict[type[Operator], Any], schedule.KERNELS),
        "compact": cast(dict[type[Operator], Any], schedule._COMPACT),
    }
    for name, one in schedule.KERNEL_SETS.items():
        distinct = {id(table): table for table in one.kernels.values()}
        for table in distinct.values():
            goals = [goal.value for goal, its in one.kernels.items() if its is table]
            of_all = len(distinct) == 1
            found[name if of_all else f"{name} {'+'.join(goals)}"] = cast(dict[type[Operator], Any], table)
    return found


@dataclass
class Drawn:
    """Kernels that each maker gave.

    Attributes:
        names: of all makers: ``table: Operator module.function``.
        counts: operators for which a maker gave a kernel, by its name.
    """

    names: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _kept: dict[tuple[str, int, int], tuple[Any, Kernel | None]] = field(default_factory=dict)

    @property
    def never(self) -> list[str]:
        """Names of the makers that gave no kernel."""
        return [name for name in self.names if not self.counts[name]]

    def forget(self) -> None:
        """Drop the kernels that are kept; call it when a graph is done."""
        self._kept.clear()

    def wrap(self, table: str, operator: type[Operator], maker: schedule.Maker) -> schedule.Maker:
        """The maker, counted; it keeps the kernel of each operator until `forget`."""
        name = f"{table}: {operator.__name__} {_function(maker)}"
        self.names.append(name)

        def make(graph: Graph, one: Any) -> Kernel | None:
            key = (name, id(graph), id(one))
            if key not in self._kept:
                kernel = maker(graph, one)
                self.counts[name] += kernel is not None
                # The graph and its operator live as long as their numbers are keys.
                self._kept[key] = ((graph, one), kernel)
            return self._kept[key][1]

        return make


def _function(maker: schedule.Maker) -> str:
    module = maker.__module__.removeprefix("mlf_sdk.compiler.").removeprefix("kernels.")
    return f"{module}.{maker.__qualname__.partition('.')[0]}"


@contextmanager
def counted_makers() -> Iterator[Drawn]:
    """Count what the makers of all tables of the schedule give."""
    drawn = Drawn()
    all_tables = tables()
    before = {name: dict(table) for name, table in all_tables.items()}
    try:
        for name, table in all_tables.items():
            for operator, made in before[name].items():
                if isinstance(made, tuple):
                    table[operator] = tuple(drawn.wrap(name, operator, maker) for maker in made)
                else:
                    table[operator] = drawn.wrap(name, operator, made)
        yield drawn
    finally:
        for name, table in all_tables.items():
            table.update(before[name])
