# SPDX-License-Identifier: Apache-2.0
"""Search for every assignment of kernels to relay operators that agrees with all that is known.

The search goes through main in the order in which TVM does: the arguments of a call before the
call, from left to right. Kernels follow each other in this order, and parameters are numbered in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mlf_sdk.analysis.c.extents import ArgumentExtent
from mlf_sdk.frontends.mlf.derive.groups import Effort, Group, GroupFinder
from mlf_sdk.frontends.mlf.derive.kernels import Kernel
from mlf_sdk.frontends.mlf.derive.relay import LiveGraph
from mlf_sdk.frontends.mlf.derive.rules import (
    BLOCKED_CONV,
    BLOCKED_DEPTHWISE,
    LAYOUT_TRANSFORM,
    PACKED_DENSE,
    PLAIN,
    Layout,
    apply_layouts,
    c_type_fits,
    dtype_of,
    may_follow_transform,
    weights_fit,
)
from mlf_sdk.frontends.mlf.derive.state import Call, Progress, State, Task, Value
from mlf_sdk.frontends.mlf.params import NamedTensor
from mlf_sdk.frontends.mlf.relay.graph import TensorType, Use
from mlf_sdk.ir.dtype import DType

_WITH_WEIGHTS = frozenset({BLOCKED_CONV, BLOCKED_DEPTHWISE, PACKED_DENSE})


class Search:
    """All assignments for one choice of parameters among the arguments of main."""

    def __init__(
        self,
        graph: LiveGraph,
        kernels: tuple[Kernel, ...],
        params: tuple[NamedTensor, ...],
        effort: Effort,
        progress: Progress,
    ) -> None:
        self.graph = graph
        self.params = params
        self.effort = effort
        self.progress = progress
        self.finder = GroupFinder(graph, kernels, effort)
        self.transforms = [k for k in kernels if (LAYOUT_TRANSFORM,) in k.readings]

    def solutions(self) -> Iterator[State]:
        """Every assignment that covers all operators and uses all parameters."""
        stack = [self._start()]
        while stack:
            state = stack.pop()
            self.effort.spend(1 + len(state.values) // 50)
            self.progress.note(state)
            if state.agenda is not None:
                stack += reversed(list(self._step(state)))
            elif state.covered == self.graph.live and state.params == len(self.params):
                yield state

    def _start(self) -> State:
        values = []
        for index in self.graph.graph.arguments:
            type_ = self.graph.type_of(Use(index))
            if index not in self.graph.parameters and type_ is not None:
                source = ("input", index, 0)
                values.append(Value(source, Use(index), type_.elements, type_.dtype, Layout(PLAIN)))
        tasks: list[Task] = []
        for use in self.graph.graph.results:
            tasks += [Task("need", use), Task("give", use)]
        return State(None, tuple(values)).then(*tasks)

    def _step(self, state: State) -> Iterator[State]:
        """What can come of the first task of ``state``."""
        if state.agenda is None:
            return
        task, state = state.agenda.task, replace(state, agenda=state.agenda.rest)
        if task.kind == "need":
            yield from self._need(state, task.use)
        elif task.kind == "pick":
            yield from self._pick(state, task.group, task.slot)
        elif task.kind == "emit":
            yield from self._emit(state, task.group)
        else:
            for index, after in self._forms(state, task.use, transform=True):
                bound = after.values[index].layout.bound(PLAIN)
                if bound is not None and after.values[index].source[0] == "call":
                    yield replace(after.with_layout(index, bound), results=(*after.results, index))

    # ---- groups ----

    def _need(self, state: State, use: Use) -> Iterator[State]:
        """Some call must give ``use``."""
        if use.node not in self.graph.live or state.of_use(use):
            yield state
            return
        for group in self.finder.groups(use.node):
            if state.covered.isdisjoint(group.members):
                index = len(state.pending)
                tasks: list[Task] = []
                for slot, slot_use in enumerate(group.slots):
                    tasks += [Task("need", slot_use), Task("pick", group=index, slot=slot)]
                yield replace(
                    state,
                    pending=(*state.pending, group),
                    picks=(*state.picks, ()),
                    covered=state.covered | set(group.members),
                ).then(*tasks, Task("emit", group=index))

    def _pick(self, state: State, index: int, slot: int) -> Iterator[State]:
        """Choose the value that a group takes as one of its inputs."""
        group = state.pending[index]
        use, extent = group.slots[slot], group.kernel.extents.arguments[slot]
        forms = (
            self._parameters(state, use)
            if self.graph.is_constant(use)
            else self._forms(state, use, transform=self._may_transform(group, use))
        )
        for value, after in forms:
            if _holds(extent, after.values[value]):
                picks = list(after.picks)
                picks[index] = (*picks[index], value)
                yield replace(after, picks=tuple(picks))

    def _may_transform(self, group: Group, use: Use) -> bool:
        """Whether a layout transform can stand between ``use`` and all that takes it in ``group``."""
        return all(
            entry.node >= 0
            and may_follow_transform(self.graph.node(entry.node), self.graph.varying_inputs(entry.node))
            for entry in group.entries
            if any(ref.use == use for ref in entry.inputs)
        )

    def _parameters(self, state: State, use: Use) -> Iterator[tuple[int, State]]:
        """The parameter that a constant became: the next one, or one that it became before."""
        for index in state.of_use(use):
            yield index, state
        if state.params < len(self.params):
            param = self.params[state.params]
            type_, elements = self.graph.type_of(use), len(param.data) // param.dtype.size_bytes
            if type_ is None or (type_.elements == elements and type_.dtype == param.dtype):
                source = ("param", state.params, 0)
                after = state.with_value(Value(source, use, elements, param.dtype, Layout()))
                yield len(state.values), replace(after, params=state.params + 1)

    def _forms(self, state: State, use: Use, *, transform: bool) -> Iterator[tuple[int, State]]:
        """A value as it is, or after a layout transform (one that was made already, or a new one)."""
        for index in state.of_use(use):
            value = state.values[index]
            if transform or not value.is_transformed:
                yield index, state
            if transform and not value.is_transformed:
                for kernel in self.transforms:
                    yield from self._transform(state, index, kernel)

    def _transform(self, state: State, index: int, kernel: Kernel) -> Iterator[tuple[int, State]]:
        """A new call of a layout transform: it moves every element, and gives another layout."""
        value = state.values[index]
        source, *rest = kernel.extents.arguments
        if len(rest) != 1 or not _holds(source, value):
            return
        made = self._result(state, kernel, rest[0], value.use, None)
        if made is not None and made.elements == value.elements and made.dtype == value.dtype:
            layout = Layout(never=value.layout.known)
            after = state.with_value(replace(made, layout=layout, is_transformed=True))
            call = Call(kernel, None, (index,), (len(state.values),))
            yield len(state.values), replace(after, calls=(*after.calls, call))

    # ---- calls ----

    def _emit(self, state: State, index: int) -> Iterator[State]:
        """Call a group's kernel with the inputs that were picked, when their layouts go together."""
        group, picks = state.pending[index], state.picks[index]
        after, layout = self._layouts(state, group, picks)
        if after is None or layout is None:
            return
        outputs = group.kernel.extents.arguments[len(group.slots) :]
        first = len(after.values)
        for output, extent in enumerate(outputs):
            use = Use(group.root, output)
            made = self._result(after, group.kernel, extent, use, self.graph.type_of(use), output)
            if made is None:
                return
            after = after.with_value(replace(made, layout=layout, is_transformed=group.is_transformed))
        call = Call(group.kernel, group, picks, tuple(range(first, first + len(outputs))))
        yield replace(after, calls=(*after.calls, call))

    def _result(
        self,
        state: State,
        kernel: Kernel,
        extent: ArgumentExtent,
        use: Use,
        type_: TensorType | None,
        output: int = 0,
    ) -> Value | None:
        """What a kernel writes, when its size is certain and fits what the relay text tells."""
        least, most = extent.written_at_least, extent.written_at_most
        dtype: DType | None = type_.dtype if type_ is not None else dtype_of(extent.element_type)
        if dtype is None or not c_type_fits(extent.element_type, dtype):
            return None
        elements = type_.elements if type_ is not None else least
        if most is None or not least <= elements <= most or (type_ is None and least != most):
            return None
        return Value(("call", len(state.calls), output), use, elements, dtype, Layout())

    def _layouts(
        self, state: State, group: Group, picks: tuple[int, ...]
    ) -> tuple[State | None, Layout | None]:
        """Decide the layouts inside of a group: the state after that, and the layout of its result."""
        slots = dict(zip(group.slots, picks, strict=True))
        results: list[Layout] = []
        for entry in group.entries:
            varying = [ref for ref in entry.inputs if ref.use is None or not self.graph.is_constant(ref.use)]
            layouts = [
                results[ref.entry] if ref.use is None else state.values[slots[ref.use]].layout
                for ref in varying
            ]
            if entry.node < 0:
                results.append(Layout(never=layouts[0].known))
                continue
            param = self._weights(state, group, entry.node, entry.token, picks)
            step = apply_layouts(self.graph.node(entry.node), entry.token, layouts, param or ())
            if step is None or param is None:
                return None, None
            for ref, layout in zip(varying, step.inputs, strict=True):
                if ref.use is not None:
                    state = state.with_layout(slots[ref.use], layout)
            results.append(step.result)
        return state, results[-1]

    def _weights(
        self, state: State, group: Group, node: int, token: str, picks: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        """Shape of the rearranged weights of an operator; empty without, None when they don't fit."""
        if token not in _WITH_WEIGHTS:
            return ()
        args = self.graph.node(node).args
        if len(args) != 2 or args[1] not in group.slots or not self.graph.is_constant(args[1]):
            return None
        value = state.values[picks[group.slots.index(args[1])]]
        shape = self.params[value.source[1]].shape
        return shape if weights_fit(token, self.graph.type_of(args[1]), shape) else None


def _holds(extent: ArgumentExtent, value: Value) -> bool:
    """Whether a value is as large as a kernel's argument must be, and of its type."""
    fits = value.dtype is None or c_type_fits(extent.element_type, value.dtype)
    return fits and extent.at_least <= value.elements
