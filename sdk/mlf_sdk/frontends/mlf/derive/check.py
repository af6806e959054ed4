# SPDX-License-Identifier: Apache-2.0
"""What a complete assignment of kernels must fulfil as a whole, beyond each call by itself.

TVM compiles a fused function once for all calls that are equal in operators, attributes, types and
layouts, and numbers namesakes in the order in which it comes upon them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from mlf_sdk.frontends.mlf.derive.groups import Entry, Group
from mlf_sdk.frontends.mlf.derive.kernels import Kernel
from mlf_sdk.frontends.mlf.derive.relay import LiveGraph
from mlf_sdk.frontends.mlf.derive.rules import comparable_attributes
from mlf_sdk.frontends.mlf.derive.state import Call, State
from mlf_sdk.frontends.mlf.relay.graph import NodeKind, Use


@dataclass(frozen=True, slots=True)
class CallPlan:
    """A complete assignment, in a form in which equal ones are equal.

    Attributes:
        calls: symbol of the kernel, and sources of its inputs.
        results: sources of the results of main.
        inputs: arguments of main that are no parameters.
    """

    calls: tuple[tuple[str, tuple[tuple[str, int, int], ...]], ...]
    results: tuple[tuple[str, int, int], ...]
    inputs: tuple[int, ...]


def call_plan(state: State, graph: LiveGraph) -> CallPlan:
    """The assignment of a complete state."""
    values = state.values
    return CallPlan(
        calls=tuple((c.kernel.symbol, tuple(values[i].source for i in c.inputs)) for c in state.calls),
        results=tuple(values[i].source for i in state.results),
        inputs=tuple(i for i in graph.graph.arguments if i not in graph.parameters),
    )


def is_consistent(state: State, graph: LiveGraph, kernels: Iterable[Kernel]) -> bool:
    """Whether a complete state uses every kernel, each for equal calls and equal calls by one."""
    if {call.kernel for call in state.calls} != set(kernels):
        return False
    before: dict[str, Call] = {}
    exact: dict[Hashable, str] = {}
    for call in state.calls:
        symbol = call.kernel.symbol
        first = before.setdefault(symbol, call)
        if _shape(first, state, graph) != _shape(call, state, graph):
            return False
        if _differ(_told(first, state, graph), _told(call, state, graph)):
            return False
        identity = _identity(call, state, graph)
        if identity is not None and exact.setdefault(identity, symbol) != symbol:
            return False
    return _numbered(_forwards(state)) or _numbered(_backwards(state))


def _shape(call: Call, state: State, graph: LiveGraph) -> Hashable:
    """What two calls of one kernel must have in common."""
    sizes = tuple(state.values[i].elements for i in (*call.inputs, *call.outputs))
    entries = _entries(call.group, graph, comparable=True) if call.group is not None else ()
    return sizes, entries


def _entries(group: Group, graph: LiveGraph, *, comparable: bool) -> tuple[Hashable, ...]:
    places = {use: place for place, use in enumerate(group.slots)}
    found: list[Hashable] = []
    for entry in group.entries:
        attributes: tuple[tuple[str, str], ...] = ()
        name = entry.token
        if entry.node >= 0:
            node = graph.node(entry.node)
            attributes = comparable_attributes(node) if comparable else tuple(sorted(node.attributes.items()))
            name = f"{entry.token} {'' if comparable else node.name}"
        refs = tuple((ref.entry, places.get(ref.use, -1) if ref.use else -1) for ref in entry.inputs)
        found.append((name, attributes, refs, *_numbers(group, graph, entry)))
    return tuple(found)


def _numbers(group: Group, graph: LiveGraph, entry: Entry) -> Iterator[str]:
    """Literals that are printed into the code of an operator."""
    for ref in entry.inputs:
        if ref.use is not None and ref.use not in group.slots:
            node = graph.node(ref.use.node)
            yield node.name if node.kind is NodeKind.LITERAL else ""


def _told(call: Call, state: State, graph: LiveGraph) -> tuple[Hashable, ...]:
    """Layouts and types of the inputs that vary and of the outputs; None where not known."""
    values = [state.values[i] for i in (*call.inputs, *call.outputs)]
    varying = [value for value in values if value.source[0] != "param"]
    return (*(value.layout.known for value in varying), *(graph.type_of(value.use) for value in varying))


def _differ(a: tuple[Hashable, ...], b: tuple[Hashable, ...]) -> bool:
    return any(x != y and x is not None and y is not None for x, y in zip(a, b, strict=True))


def _identity(call: Call, state: State, graph: LiveGraph) -> Hashable | None:
    """All that makes TVM compile a call once with its equals; None when not all of it is known."""
    values = [state.values[i] for i in (*call.inputs, *call.outputs)]
    types = [graph.type_of(value.use) for value in values]
    varying = [value for value in values if value.source[0] != "param"]
    if any(type_ is None for type_ in types) or any(value.layout.known is None for value in varying):
        return None
    entries = _entries(call.group, graph, comparable=False) if call.group is not None else ()
    if call.group is not None and any("" in _numbers(call.group, graph, e) for e in call.group.entries):
        return None
    layouts = tuple(value.layout.known for value in varying)
    shapes = tuple((type_.dtype.name, type_.shape) for type_ in types if type_ is not None)
    return entries, layouts, shapes


def _forwards(state: State) -> list[Kernel]:
    return [call.kernel for call in state.calls]


def _backwards(state: State) -> list[Kernel]:
    """Kernels in the order of a walk from the results that meets a call before its arguments."""
    order: list[Kernel] = []
    seen: set[int] = set()
    stack = [state.values[i].source for i in reversed(state.results)]
    while stack:
        kind, index, _ = stack.pop()
        if kind == "call" and index not in seen:
            seen.add(index)
            call = state.calls[index]
            order.append(call.kernel)
            stack += [state.values[i].source for i in reversed(call.inputs)]
    return order


def _numbered(order: list[Kernel]) -> bool:
    """Whether namesakes come for the first time in the order of their numbers."""
    last: dict[str, int] = {}
    for kernel in dict.fromkeys(order):
        if kernel.number < last.get(kernel.base, 0):
            return False
        last[kernel.base] = kernel.number
    return True


def unused(state: State, kernels: Iterable[Kernel]) -> list[Kernel]:
    """Kernels that a state does not use."""
    used = {call.kernel for call in state.calls}
    return [kernel for kernel in kernels if kernel not in used]


def beyond(state: State) -> str:
    """A kernel that may reach beyond one of its arguments as they were derived; empty when none may."""
    for call in state.calls:
        arguments = call.kernel.extents.arguments
        for extent, index in zip(arguments, (*call.inputs, *call.outputs), strict=True):
            if extent.at_most is None or extent.at_most > state.values[index].elements:
                return f"argument {extent.index} of {call.kernel.short_name[:128]}"
    return ""


def operator_name(graph: LiveGraph, node: int) -> str:
    """For people: a call of the relay text by its operator."""
    return f"{graph.node(node).name} (value {Use(node).node})"
