# SPDX-License-Identifier: Apache-2.0
"""One partial assignment of kernels to relay operators: what was decided, and what is still to do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from mlf_sdk.frontends.mlf.derive.groups import Group
from mlf_sdk.frontends.mlf.derive.kernels import Kernel
from mlf_sdk.frontends.mlf.derive.rules import Layout
from mlf_sdk.frontends.mlf.relay.graph import Use
from mlf_sdk.ir.dtype import DType

NO_USE: Final = Use(-1)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor at run time.

    Attributes:
        source: ``("input", node)``, ``("param", index)`` or ``("call", index, output)``.
        use: the relay value that it holds.
        is_transformed: whether it is the result of a layout transform.
    """

    source: tuple[str, int, int]
    use: Use
    elements: int
    dtype: DType | None
    layout: Layout
    is_transformed: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel: its inputs and the layouts it takes them in; outputs come after them.

    ``group`` is None for a layout transform by itself.
    """

    kernel: Kernel
    group: Group | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do: ``need`` a value, ``pick`` an input, ``emit`` a call, ``give`` a result.

    Attributes:
        use: of a need or a result.
        group: index of a pending group.
        slot: of a pick.
    """

    kind: str
    use: Use = NO_USE
    group: int = -1
    slot: int = -1


@dataclass(frozen=True, slots=True)
class Agenda:
    """Tasks in order, as a list that states share."""

    task: Task
    rest: Agenda | None = None


@dataclass(frozen=True, slots=True)
class State:
    """See the module. Tuples and sets are shared between states and never changed."""

    agenda: Agenda | None
    values: tuple[Value, ...] = ()
    covered: frozenset[int] = frozenset()
    pending: tuple[Group, ...] = ()
    picks: tuple[tuple[int, ...], ...] = ()
    calls: tuple[Call, ...] = ()
    params: int = 0
    results: tuple[int, ...] = ()

    def then(self, *tasks: Task) -> State:
        """The state with ``tasks`` to do first."""
        agenda = self.agenda
        for task in reversed(tasks):
            agenda = Agenda(task, agenda)
        return replace(self, agenda=agenda)

    def with_value(self, value: Value) -> State:
        """The state with one more value, the last one."""
        return replace(self, values=(*self.values, value))

    def with_layout(self, index: int, layout: Layout) -> State:
        """The state with the layout of a value decided."""
        if self.values[index].layout == layout:
            return self
        values = list(self.values)
        values[index] = replace(values[index], layout=layout)
        return replace(self, values=tuple(values))

    def of_use(self, use: Use) -> list[int]:
        """Values that hold ``use``, in any layout."""
        return [index for index, value in enumerate(self.values) if value.use == use]


@dataclass(slots=True)
class Progress:
    """The state that came furthest, to tell what is missing."""

    best: State | None = field(default=None)

    def note(self, state: State) -> None:
        """Remember ``state`` when it covers more than any before."""
        if self.best is None or (len(state.covered), len(state.calls)) > (
            len(self.best.covered),
            len(self.best.calls),
        ):
            self.best = state
